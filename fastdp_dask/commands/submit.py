"""`fastdp submit`: a job file becomes a job of a batch system."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fastdp_dask.errors import FastDPError
from fastdp_dask.ledger import Ledger
from fastdp_dask.run_protocol import refuse_early

if TYPE_CHECKING:
    from fastdp_dask.jobs.model import Job


def submit(
    queue: Annotated[Literal["slurm", "pbs", "kubernetes"], typer.Argument(metavar="slurm|pbs|kubernetes")],
    job: Annotated[Path, typer.Argument(metavar="JOB.toml", help="Data, budget, run folder, workers, queue.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be submitted, and no more.")] = False,
    python: Annotated[
        str | None, typer.Option(metavar="FILE", help="Python on the nodes; without it the one that runs this.")
    ] = None,
) -> None:
    """Render a job file for a batch system and submit it.

    What is printed holds names, sizes and places; no secret and no data value. The job continues by itself after a
    time limit, and submitting it again after it is done hands out the stored model.
    """
    from fastdp_dask.jobs import read_job
    from fastdp_dask.jobs.render import rendered

    asked = read_job(job, queue)
    text = rendered(asked, queue, python or sys.executable)
    if dry_run:
        print(text, end="")
        return
    if queue == "kubernetes":
        _apply(asked, text)
    else:
        _submit(asked, queue, text)


def _submit(asked: Job, queue: str, text: str) -> None:
    from fastdp_dask.jobs.queues import QUEUES
    from fastdp_dask.jobs.records import JobFolder
    from fastdp_dask.jobs.status import status
    from fastdp_dask.jobs.workers import dask_config

    folder = JobFolder(asked.run_dir)
    if folder.path.is_dir():
        now = status(asked.run_dir)
        if now.state in ("queued", "running") and now.identifier is not None:
            raise FastDPError(
                f"run_dir must have no other job, got {asked.run_dir}, whose job {now.identifier} is {now.state} "
                f"({now.because}). Wait for it, cancel it, or take another run_dir."
            )
    if asked.ledger is not None and Path(asked.ledger).exists():
        refuse_early(Ledger(asked.ledger), asked.run_dir, asked.epsilon, asked.delta)
    folder.make()
    content = asked.model_dump_json(exclude_none=True, exclude_defaults=True, indent=1)
    folder.write(folder.files.job, content + "\n")
    folder.write(folder.files.dask, dask_config(asked))
    folder.write(folder.files.script, text, mode=0o700)
    print(text, end="")
    identifier = QUEUES[queue].submit(asked, folder.files.script)
    folder.note("submit", queue=queue, identifier=identifier)
    print(f"Submitted to {queue} as {identifier}. See: fastdp jobs {asked.run_dir}")


def _apply(asked: Job, text: str) -> None:
    from fastdp_dask.jobs.queues import QUEUES

    print(text, end="")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(text)
        QUEUES["kubernetes"].submit(asked, str(path))
    print(f"Applied to kubernetes as {asked.name}. See: kubectl get,logs job/{asked.name}")
