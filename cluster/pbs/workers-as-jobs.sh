#!/bin/bash
#PBS -N fastdp
#PBS -o /scratch/lab/salaries-run1/job/logs/
#PBS -j oe
#PBS -q workq
#PBS -A lab
#PBS -l select=1:ncpus=1:mem=4096mb
#PBS -l walltime=04:00:00
#PBS -W umask=077
#PBS -r y

umask 077
module load python/3.12
/opt/fastdp/bin/python -m fastdp_dask.commands run-job /scratch/lab/salaries-run1/job/job.json --on pbs &
driver=$!
(sleep 14100 && kill -USR1 $driver) > /dev/null 2>&1 &
timer=$!
cancelled= woken=
trap 'woken=yes; kill -USR1 $driver 2>/dev/null' USR1
trap 'woken=yes; [ $SECONDS -ge 14100 ] || cancelled=yes; kill -TERM $driver 2>/dev/null' TERM
code=0
wait $driver || code=$?
while [ -n "$woken" ]; do  # a trapped signal ends a wait early
  woken= before=$code code=0
  wait $driver || code=$?
  [ $code -ne 127 ] || code=$before  # it had ended by then
done
trap '' USR1 TERM
kill $timer 2>/dev/null
restarts=${FASTDP_RESTARTS:-0}
limit=-1
[ $code -ne 75 ] || limit=20
case $code in 129|13[1-9]|14[0-2]) limit=3 ;; esac
if [ -z "$cancelled" ] && [ $restarts -lt $limit ]; then
  echo "fastdp: the driver ended with $code: restart $((restarts + 1)) of at most $limit" >&2
  qsub -v "FASTDP_RESTARTS=$((restarts + 1))" /scratch/lab/salaries-run1/job/driver.sh
elif [ $limit -ge 0 ]; then
  echo "fastdp: the driver ended with $code and is not started again: submit the job anew to continue" >&2
fi
exit $code
