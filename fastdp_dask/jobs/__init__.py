"""A fit as a job of a batch system: what `JOB.toml` says, the text handed to the queue, and what becomes of it."""

from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.reading import read_job

__all__ = ["Job", "read_job"]
