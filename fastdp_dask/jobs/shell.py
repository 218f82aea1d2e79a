"""What the scripts of Slurm and PBS have in common: the driver in the background, signals handed on, the way back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.model import Job

KILLED_RESTARTS = 3  # a driver that is killed again and again most often lacks memory


@dataclass(frozen=True)
class Files:
    """Where a job's own files lie: `job/` in its run folder (mode 0700)."""

    run_dir: str

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.run_dir) / "job")

    @property
    def job(self) -> str:
        return f"{self.folder}/job.json"

    @property
    def script(self) -> str:
        return f"{self.folder}/driver.sh"

    @property
    def worker_script(self) -> str:
        return f"{self.folder}/worker.sh"

    @property
    def dask(self) -> str:
        return f"{self.folder}/dask.json"

    @property
    def logs(self) -> str:
        return f"{self.folder}/logs"


def files_of(job: Job) -> Files:
    """The files of a job whose places can stand in a script.

    Raises
    ------
    ArgumentError
        If a directive, or a worker's command, cannot hold the path of the run folder, of scratch or of a TLS file.
    """
    places = {"run_dir": job.run_dir, "workers.scratch": job.workers.scratch or ""}
    if job.tls is not None:
        places |= {f"tls.{name}": path for name, path in job.tls.model_dump().items()}
    for name, place in places.items():
        odd = sorted({letter for letter in place if letter.isspace() or letter in "%\\'\"$`#:;&|<>()*?!"})
        if odd:
            raise ArgumentError(
                f"{name}: expected a path that a #SBATCH or #PBS line and a worker's command can hold, got {place!r} "
                f"with {odd}. Choose one without them."
            )
    return Files(job.run_dir)


def megabytes(amount: int) -> int:
    """MiB of an amount in bytes, rounded up: the unit that Slurm and PBS call M and mb."""
    return -(-amount // 2**20)


def run_job(job: Job, python: str, kind: str, *more: str) -> str:
    """The command that a driver is."""
    words = [python, "-m", "fastdp_dask.commands", "run-job", files_of(job).job, "--on", kind]
    return " ".join([shlex.quote(word) for word in words] + list(more))


def watched_driver(job: Job, command: str, restarts: str, again: str) -> list[str]:
    """Lines that run the driver, hand signals on to it, and ask for another run when it says so.

    Exit code 75 means that everything is kept and there is more to do.  A SIGTERM well before the time limit is a
    person or the queue cancelling: then the job stays ended.

    Parameters
    ----------
    job : Job
    command : str
        The driver.
    restarts : str
        Shell expression of how often this job was run before.
    again : str
        Shell command that puts this job back into the queue.
    """
    late = job.walltime - job.notice
    return [
        f"{command} &",
        "driver=$!",
        "cancelled= woken=",
        "trap 'woken=yes; kill -USR1 $driver 2>/dev/null' USR1",
        f"trap 'woken=yes; [ $SECONDS -ge {late} ] || cancelled=yes; kill -TERM $driver 2>/dev/null' TERM",
        "code=0",
        "wait $driver || code=$?",
        'while [ -n "$woken" ]; do  # a trapped signal ends a wait early',
        "  woken= before=$code code=0",
        "  wait $driver || code=$?",
        "  [ $code -ne 127 ] || code=$before  # it had ended by then",
        "done",
        "trap '' USR1 TERM",
        f"restarts={restarts}",
        "limit=-1",
        f"[ $code -ne 75 ] || limit={job.max_restarts}",
        f"case $code in 129|13[1-9]|14[0-2]) limit={min(KILLED_RESTARTS, job.max_restarts)} ;; esac",
        'if [ -z "$cancelled" ] && [ $restarts -lt $limit ]; then',
        '  echo "fastdp: the driver ended with $code: restart $((restarts + 1)) of at most $limit" >&2',
        f"  {again}",
        "elif [ $limit -ge 0 ]; then",
        '  echo "fastdp: the driver ended with $code and is not started again: submit the job anew to continue" >&2',
        "fi",
        "exit $code",
    ]
