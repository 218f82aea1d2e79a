"""The workers of a job: asked from the queue, or awaited at a scheduler that something else starts."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from fastdp_dask.commands import encryption, outcome
from fastdp_dask.commands.workers import connected
from fastdp_dask.errors import FastDPError
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.queues import QUEUES
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.jobs.workers import cluster_options

_PACKAGES = ["fastdp-dask", "numba", "zarr", "scipy"]
_MUST_AGREE = ("python", "fastdp-dask", "dask", "distributed", "cloudpickle", "numpy")
_COMMANDS = {"slurm": "sbatch", "pbs": "qsub"}
_KEYS = ".dask-jobqueue.worker.*"  # temporary ones, left by a driver that was killed


@contextmanager
def started(job: Job, kind: str, folder: JobFolder, scheduler: str | None = None) -> Iterator[None]:
    """Make a client of this job's workers the active one.

    Parameters
    ----------
    job : Job
    kind : {"slurm", "pbs", "kubernetes"}
    folder : JobFolder
        Where scripts, logs and versions go.
    scheduler : str, optional
        Address, or scheduler file, of a scheduler that something else starts.  None: the workers are jobs that are
        submitted from here.

    Raises
    ------
    FastDPError
        If no worker has joined after `job.workers.wait` seconds, or their packages differ from the driver's.
    """
    import dask
    from distributed import get_client

    ways = _submitted(job, kind, folder) if scheduler is None else _elsewhere(job, scheduler)
    with ways, dask.config.set({"fastdp.worker-timeout": job.workers.lost}):
        _compare(get_client(), folder)
        yield


def _elsewhere(job: Job, scheduler: str) -> AbstractContextManager[None]:
    files = {} if job.tls is None else {name: Path(path) for name, path in job.tls.model_dump().items()}
    return connected(scheduler, wait=job.workers.wait, insecure=job.insecure, **files)


@contextmanager
def _submitted(job: Job, kind: str, folder: JobFolder) -> Iterator[None]:
    """A client of workers that are jobs of the queue, replaced when they are lost."""
    if shutil.which(_COMMANDS[kind]) is None:
        raise FastDPError(
            f"{_COMMANDS[kind]} must be on the driver's PATH to submit workers, got none. Load it in the job file's "
            "prologue, or set one_allocation."
        )
    import dask_jobqueue
    from distributed import Client

    make = dask_jobqueue.SLURMCluster if kind == "slurm" else dask_jobqueue.PBSCluster
    for left in folder.path.glob(_KEYS):
        left.unlink(missing_ok=True)
    options = cluster_options(job, kind, sys.executable)
    cluster = make(security=_security(job), shared_temp_directory=str(folder.path), **options)
    try:
        folder.write(folder.files.worker_script, cluster.job_script())
        QUEUES[kind].check(folder.files.worker_script)
        # Unlike scale(), this asks for another worker when one is lost.
        cluster.adapt(minimum_jobs=job.workers.count, maximum_jobs=job.workers.count)
        outcome.say(f"asked {kind} for {job.workers.count} worker jobs, and wait for the first {job.workers.wait} s")
        with Client(cluster) as client:
            _await_first(client, job, kind, folder)
            yield
    finally:
        with suppress(
            Exception
        ):  # of a queue that cannot be told to cancel; a worker without a driver leaves by itself
            cluster.close()


def _security(job: Job) -> Any:
    """The files that the job names; else keys of this run alone, in its folder (mode 0700) until it ends."""
    if job.tls is None:
        return encryption.temporary()
    from distributed import Security

    files = {"cert": job.tls.cert, "key": job.tls.key}
    roles = {f"tls_{role}_{name}": path for role in ("client", "scheduler", "worker") for name, path in files.items()}
    return Security(require_encryption=True, tls_ca_file=job.tls.ca_file, **roles)


def _await_first(client: Any, job: Job, kind: str, folder: JobFolder) -> None:
    deadline = time.monotonic() + job.workers.wait
    while not client.nthreads():
        if time.monotonic() >= deadline:
            raise FastDPError(
                f"no worker has joined after {job.workers.wait} s: expected {job.workers.count} from {kind}. Script: "
                f"{folder.files.worker_script}. Logs: {folder.files.logs}. Ask the queue why they do not start or "
                "cannot reach the driver (interface), or raise workers.wait; waiting has spent nothing."
            )
        time.sleep(0.2)


def _compare(client: Any, folder: JobFolder) -> None:
    """Write down who runs what, and refuse a mixture: workers would fail later, and less clearly."""
    found = client.get_versions(packages=_PACKAGES)
    own = found["client"]["packages"]
    others = [each["packages"] for each in (found["scheduler"], *found["workers"].values()) if isinstance(each, dict)]
    kinds = [each for at, each in enumerate(others) if each not in others[:at]]
    folder.write(f"{folder.files.folder}/versions.json", json.dumps({"driver": own, "others": kinds}, indent=1) + "\n")
    differ = [
        f"{name} {own.get(name)} here, {other.get(name)} there"
        for name in _MUST_AGREE
        for other in kinds
        if other.get(name) != own.get(name)
    ]
    if differ:
        raise FastDPError(
            f"driver, scheduler and workers must run the same versions, got {'; '.join(dict.fromkeys(differ))}. Give "
            "them one environment (image, module or python)."
        )
