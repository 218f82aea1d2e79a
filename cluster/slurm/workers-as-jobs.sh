#!/bin/bash
#SBATCH --job-name=fastdp
#SBATCH --output=/scratch/lab/salaries-run1/job/logs/driver-%j.log
#SBATCH --open-mode=append
#SBATCH --partition=standard
#SBATCH --account=lab
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=4096M
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@300
#SBATCH --requeue

umask 077
module load python/3.12
/opt/fastdp/bin/python -m fastdp_dask.commands run-job /scratch/lab/salaries-run1/job/job.json --on slurm &
driver=$!
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
restarts=${SLURM_RESTART_COUNT:-0}
limit=-1
[ $code -ne 75 ] || limit=20
case $code in 129|13[1-9]|14[0-2]) limit=3 ;; esac
if [ -z "$cancelled" ] && [ $restarts -lt $limit ]; then
  echo "fastdp: the driver ended with $code: restart $((restarts + 1)) of at most $limit" >&2
  scontrol requeue "$SLURM_JOB_ID"
elif [ $limit -ge 0 ]; then
  echo "fastdp: the driver ended with $code and is not started again: submit the job anew to continue" >&2
fi
exit $code
