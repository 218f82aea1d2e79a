"""Options of the workers that a driver submits through dask-jobqueue, from a job's public facts."""

from __future__ import annotations

import json
import shlex
from typing import Any

from fastdp_dask.blocked.memory import allocator
from fastdp_dask.jobs import slurm
from fastdp_dask.jobs.fields import clock
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.shell import files_of

# What a failed task's arguments and exception say is data; what a worker's memory does is not.
_LOGGING = {"distributed.worker": "critical", "distributed.worker.memory": "info"}


def dask_config(job: Job) -> str:
    """Dask's configuration of a job's workers, as JSON (which is YAML): no data value in a log, TLS if declared."""
    config: dict[str, Any] = {"logging": _LOGGING}
    environment = allocator(job.workers.memory / max(1, job.workers.processes))
    if environment:
        config["distributed"] = {"nanny": {"pre-spawn-environ": environment}}
    if job.tls is not None:
        config.setdefault("distributed", {})["comm"] = {"require-encryption": True}
    return json.dumps(config, indent=1) + "\n"


def cluster_options(job: Job, kind: str, python: str) -> dict[str, Any]:
    """Keyword arguments of `dask_jobqueue.SLURMCluster` or `PBSCluster` for a job's workers.

    A worker leaves before its time limit, between `lifetime - stagger` and `lifetime + stagger`, so that it hands its
    results on instead of losing them.
    """
    queue = job.slurm if kind == "slurm" else job.pbs
    assert queue is not None
    workers, files = job.workers, files_of(job)
    common: dict[str, Any] = {
        "job_name": f"{job.name}-worker",
        "cores": workers.cores,
        "memory": f"{int(workers.memory)}B",
        "processes": workers.processes,
        "walltime": clock(job.walltime),
        "account": queue.account,
        "interface": queue.interface,
        "local_directory": workers.scratch,
        "log_directory": files.logs,
        "python": shlex.quote(python),
        "death_timeout": 60,
        "job_script_prologue": ["umask 077", f"export DASK_CONFIG={shlex.quote(files.dask)}", *queue.prologue],
        "worker_extra_args": [
            "--no-dashboard", "--dashboard-address", "127.0.0.1:0",
            "--lifetime", f"{job.lifetime}s", "--lifetime-stagger", f"{job.stagger}s",
        ],
        "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }  # fmt: skip
    if job.slurm is not None and kind == "slurm":
        # A worker that the queue starts again belongs to a driver that has replaced it, or is gone.
        extra = ["--no-requeue", "--open-mode=append", *job.slurm.directives]
        return {
            **common, "queue": job.slurm.partition, "job_extra_directives": extra,
            "job_directives_skip": [*slurm.skipped(job.slurm)],
        }  # fmt: skip
    assert job.pbs is not None
    skip = [*job.pbs.skip_directives]
    own = ["-r n", "-j oe", "-V"]  # the driver's environment holds what the job file names, and no more
    extra = [line for line in own if not any(each in line for each in skip)] + [*job.pbs.directives]
    if any("select=" in line for line in job.pbs.directives):
        skip.append("select=")
    return {**common, "queue": job.pbs.queue, "job_extra_directives": extra, "job_directives_skip": skip}
