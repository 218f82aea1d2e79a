"""Text of a PBS job: a driver that starts its own workers."""

from __future__ import annotations

import shlex

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.fields import clock
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.shell import files_of, megabytes, run_job, watched_driver


def script(job: Job, python: str) -> str:
    """The batch script of `job`; `python` is the interpreter on the nodes.

    PBS gives no notice before the time limit, so the script sends it; it has no restart count, so a variable carries
    it; and whether a job may put itself back is up to the site, so it submits the same script anew.
    """
    assert job.pbs is not None
    files, pbs = files_of(job), job.pbs
    wanted = [
        f"-N {job.name}",
        f"-o {files.logs}/",
        "-j oe",
        f"-q {pbs.queue}" if pbs.queue else "",
        f"-A {pbs.account}" if pbs.account else "",
        f"-l select=1:ncpus={job.driver.cores}:mem={megabytes(job.driver.memory)}mb",
        f"-l walltime={clock(job.walltime)}",
        "-W umask=077",
        "-r y",
    ]
    given = " ".join(pbs.directives)
    kept = [option for option in wanted if option and not any(skip in option for skip in pbs.skip_directives)]
    if "select=" in given:
        kept = [option for option in kept if "select=" not in option]
    named = "".join(f"${{{name}+,{name}}}" for name in pbs.environment)  # each that is set
    again = f'qsub -v "FASTDP_RESTARTS=$((restarts + 1)){named}" {shlex.quote(files.script)}'
    lines = [
        "#!/bin/bash",
        *(f"#PBS {option}" for option in (*kept, *pbs.directives)),
        "",
        "umask 077",
        *pbs.prologue,
        *watched_driver(job, run_job(job, python, "pbs"), "${FASTDP_RESTARTS:-0}", again),
    ]
    started = lines.index("driver=$!") + 1
    lines[started:started] = [
        f"(sleep {job.walltime - job.notice} && kill -USR1 $driver) > /dev/null 2>&1 &",
        "timer=$!",
    ]
    over = lines.index("trap '' USR1 TERM") + 1
    lines[over:over] = ["kill $timer 2>/dev/null"]
    return "\n".join([*lines, ""])


def check(job: Job) -> None:
    """Refuse what PBS has no word for.

    Raises
    ------
    ArgumentError
        Naming the directive.
    """
    assert job.pbs is not None
    for line in job.pbs.directives:
        if line.startswith("--"):
            raise ArgumentError(
                f'pbs.directives: expected options of #PBS such as "-l place=scatter", got {line!r}. Options with '
                "two dashes are Slurm's: put them under [slurm]."
            )
