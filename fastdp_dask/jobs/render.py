"""One door to what is handed to a queue."""

from __future__ import annotations

from fastdp_dask.jobs import kubernetes, pbs, slurm
from fastdp_dask.jobs.model import Job


def rendered(job: Job, kind: str, python: str) -> str:
    """The text of `job` for a queue: a batch script, or manifests.

    Parameters
    ----------
    job : Job
        With the section `kind`.
    kind : {"slurm", "pbs", "kubernetes"}
    python : str
        The interpreter on the nodes; an image brings its own.
    """
    if kind == "kubernetes":
        return kubernetes.manifest(job)
    if kind == "pbs":
        pbs.check(job)
        return pbs.script(job, python)
    return slurm.script(job, python)
