"""A job file, whole and with changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastdp_dask.jobs import read_job
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.reading import parse_job

PYTHON = "/opt/fastdp/bin/python"

MINIMAL: dict[str, Any] = {
    "data": "/data/salaries.zarr", "epsilon": 1.0, "delta": 1e-10, "run_dir": "/checkpoint/run1",
    "slurm": {}, "pbs": {}, "kubernetes": {"image": "registry.example/fastdp:1", "claim": "fastdp"}, "insecure": True,
}  # fmt: skip


def job(**changes: Any) -> Job:
    """The minimal job with `changes`."""
    return parse_job({**MINIMAL, **changes}, "JOB.toml")


def written(folder: Path, text: str, kind: str | None = None) -> Job:
    """The job of a TOML text."""
    path = folder / "job.toml"
    path.write_text(text)
    return read_job(path, kind)
