"""Text of a Slurm job: a driver that starts its own workers, or driver and workers inside one allocation."""

from __future__ import annotations

import shlex

from fastdp_dask.jobs.fields import clock
from fastdp_dask.jobs.model import Job, Slurm
from fastdp_dask.jobs.shell import Files, files_of, megabytes, run_job, watched_driver

_RESTARTS = "${SLURM_RESTART_COUNT:-0}"
_AGAIN = 'scontrol requeue "$SLURM_JOB_ID"'


def script(job: Job, python: str) -> str:
    """The batch script of `job`; `python` is the interpreter on the nodes.

    Holds names, sizes and paths only.
    """
    assert job.slurm is not None
    files = files_of(job)
    whole = job.slurm.one_allocation and job.workers.count > 0
    lines = ["#!/bin/bash", *_header(job, job.slurm, files, whole), "", "umask 077"]
    lines += job.slurm.prologue
    if whole:
        lines += _steps(job, files, python)
        command = run_job(job, python, "slurm", "--scheduler", '"$scheduler_file"')
    else:
        command = run_job(job, python, "slurm")
    return "\n".join([*lines, *watched_driver(job, command, _RESTARTS, _AGAIN), ""])


def memory_is_given(slurm: Slurm) -> bool:
    """Whether the site's own directives speak of memory, so that --mem must not."""
    return any(line.startswith("--mem") for line in slurm.directives)


def skipped(slurm: Slurm) -> tuple[str, ...]:
    """Options that must not appear in a script."""
    return slurm.skip_directives + (("--mem",) if memory_is_given(slurm) else ())


def _header(job: Job, slurm: Slurm, files: Files, whole: bool) -> list[str]:
    driver = job.driver
    wanted = [
        f"--job-name={job.name}",
        f"--output={files.logs}/driver-%j.log",
        "--open-mode=append",
        f"--partition={slurm.partition}" if slurm.partition else "",
        f"--account={slurm.account}" if slurm.account else "",
    ]
    if whole:  # one task more than workers, for the scheduler and the driver
        cores = max(job.workers.cores, driver.cores)
        memory = max(job.workers.memory, driver.memory)
        wanted += [
            f"--ntasks={job.workers.count + 1}",
            f"--cpus-per-task={cores}",
            f"--mem-per-cpu={-(-megabytes(memory) // cores)}M",
        ]
    else:
        wanted += ["--ntasks=1", f"--cpus-per-task={driver.cores}", f"--mem={megabytes(driver.memory)}M"]
    wanted += [f"--time={clock(job.walltime)}", f"--signal=B:USR1@{job.notice}", "--requeue"]
    gone = {option.split("=")[0] for option in slurm.skip_directives}
    if memory_is_given(slurm):
        gone |= {"--mem", "--mem-per-cpu"}
    kept = [option for option in wanted if option and option.split("=")[0] not in gone]
    return [f"#SBATCH {option}" for option in (*kept, *slurm.directives)]


def _steps(job: Job, files: Files, python: str) -> list[str]:
    """Scheduler and workers as steps of this allocation, on connections that only holders of its keys can open."""
    tool, workers = shlex.quote(python), job.workers
    attempt = f"$SLURM_JOB_ID-{_RESTARTS}"
    common = ["--no-dashboard", "--dashboard-address 127.0.0.1:0"]
    if job.slurm is not None and job.slurm.interface:
        common.append(f"--interface {job.slurm.interface}")
    if job.tls is not None or not job.insecure:
        common.append("--protocol tls")
    worker = [
        f"--nworkers {workers.processes}",
        f"--nthreads {max(1, workers.cores // workers.processes)}",
        f"--memory-limit {workers.memory // workers.processes}",
        f"--death-timeout {workers.wait}",
    ]
    if workers.scratch is not None:
        worker.append(f"--local-directory {shlex.quote(workers.scratch)}")
    return [
        f"export DASK_CONFIG={shlex.quote(files.dask)}",
        *_keys(job, files, tool, attempt),
        f"scheduler_file={shlex.quote(files.folder)}/scheduler-{attempt}.json",
        f"srun --ntasks=1 --cpus-per-task=1 --overlap {tool} -m distributed.cli.dask_scheduler \\",
        f'  --scheduler-file "$scheduler_file" --port 0 {" ".join(common)} &',
        f"srun --ntasks={workers.count} --cpus-per-task={workers.cores} --exact --kill-on-bad-exit=0 \\",
        f"  {tool} -m distributed.cli.dask_worker \\",
        f'  --scheduler-file "$scheduler_file" {" ".join(common + worker)} &',
    ]


def _keys(job: Job, files: Files, tool: str, attempt: str) -> list[str]:
    """Where Dask finds certificates: those of the job file, or new ones for this allocation alone."""
    comm = "DASK_DISTRIBUTED__COMM"
    if job.tls is not None:
        ca, cert, key = (shlex.quote(path) for path in (job.tls.ca_file, job.tls.cert, job.tls.key))
        lines = []
    elif job.insecure:
        return []
    else:
        ca, cert, key = '"$keys/ca.pem"', '"$keys/cert.pem"', '"$keys/key.pem"'
        lines = [
            f"keys={shlex.quote(files.folder)}/keys-{attempt}",
            "trap 'rm -rf \"$keys\"' EXIT",
            f"days={job.walltime // 86400 + 1}",
            f'{tool} -m fastdp_dask.commands certificates "$keys" --days $days > /dev/null || exit',
        ]
    return [
        *lines,
        f"export {comm}__REQUIRE_ENCRYPTION=True {comm}__TLS__CA_FILE={ca}",
        "for role in SCHEDULER WORKER CLIENT; do",
        f"  export {comm}__TLS__${{role}}__CERT={cert} {comm}__TLS__${{role}}__KEY={key}",
        "done",
    ]
