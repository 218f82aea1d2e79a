"""`fastdp run-job`: what a job of a batch system runs, however often it is started."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdp_dask.blocked.progress import PassProgress, PassReport
from fastdp_dask.commands import outcome
from fastdp_dask.commands.fit import fit_store
from fastdp_dask.commands.stopping import Stoppable, Stopped
from fastdp_dask.errors import BudgetError, ClusterLostError
from fastdp_dask.file_lock import FileLock, LockBusy
from fastdp_dask.ledger import Ledger
from fastdp_dask.run_protocol import refuse_early

_TURN_SECONDS = 60.0  # for another copy of this job to end


def run_job(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file.")],
    on: Annotated[str, typer.Option(help="slurm, pbs or kubernetes.")],
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A scheduler started elsewhere, or its .json file.")
    ] = None,
) -> None:
    """Run a job file: start its workers, fit, and exit with 75 if there is more to do.

    Meant for the scripts that submit renders. The same job may be started any number of times, also at once: it pays
    once, draws each release once, and hands out the stored model when there is one.
    """
    from fastdp_dask.jobs import read_job
    from fastdp_dask.jobs.environment import without_job
    from fastdp_dask.jobs.records import JobFolder
    from fastdp_dask.jobs.workers import dask_config

    asked = read_job(job, on)
    folder = JobFolder(asked.run_dir).make()
    identity = _identity(on)
    inner = without_job(os.environ)
    os.environ.clear()
    os.environ.update(inner)
    message = f"stopped on request; what was paid and released is kept in {asked.run_dir}. Run the same job again."
    with Stoppable(_told(folder, PassReport()), message) as progress, _only_copy(folder.path, asked.run_dir):
        if Path(folder.files.job) != job.resolve():
            folder.write(folder.files.job, asked.model_dump_json(exclude_none=True, exclude_defaults=True))
        folder.write(folder.files.dask, dask_config(asked))
        folder.note("begin", **identity, host=socket.gethostname(), pid=os.getpid())
        with _ending_noted(folder):
            if asked.ledger is not None:  # before workers are waited for
                refuse_early(Ledger(asked.ledger), asked.run_dir, asked.epsilon, asked.delta)
            more: dict[str, Any] = {} if asked.seeds is None else asked.seeds.model_dump()
            if asked.persist is not None:
                more["persist"] = asked.persist
            fit_store(
                asked.data, Path(asked.run_dir), progress, _workers(asked, on, folder, scheduler),
                bounds=asked.bounds, target=asked.target, epsilon=asked.epsilon, delta=asked.delta,
                solver=asked.solver, preset=asked.preset, n_iter=asked.n_iter, k1=asked.k1, k2=asked.k2,
                ledger=asked.ledger, uncertainty=asked.uncertainty, storage_options=asked.storage,
                allow_missing_chunks=asked.allow_missing_chunks, **more,
            )  # fmt: skip


def _workers(job: Any, on: str, folder: Any, scheduler: str | None) -> AbstractContextManager[None]:
    """None are started for a model that is there already, or a job that does without."""
    if job.workers.count == 0 or (Path(job.run_dir) / "model.json").exists():
        return nullcontext()
    from fastdp_dask.commands.job_workers import started

    return started(job, on, folder, scheduler)


def _identity(on: str) -> dict[str, Any]:
    """What the queue knows this run by."""
    if on == "slurm" and "SLURM_JOB_ID" in os.environ:
        restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
        return {"queue": on, "identifier": os.environ["SLURM_JOB_ID"], "restarts": restarts}
    if on == "pbs" and "PBS_JOBID" in os.environ:
        return {"queue": on, "identifier": os.environ["PBS_JOBID"], "restarts": os.environ.get("FASTDP_RESTARTS", "0")}
    return {}


def _told(folder: Any, report: PassProgress) -> PassProgress:
    @contextmanager
    def told(name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        with folder.told(name, number, n_rows, n_chunks), report(name, number, n_rows, n_chunks):
            yield

    return told


@contextmanager
def _only_copy(folder: Path, run_dir: str) -> Iterator[None]:
    """One driver at a time: a second copy waits for its turn, and comes back later if that takes long."""
    lock = FileLock(folder / ".driver.lock", wait=_TURN_SECONDS)
    try:
        lock.__enter__()
        holder = ""
    except LockBusy as busy:
        holder = busy.holder
    if holder:
        raise Stopped(f"another copy of this job works in {run_dir}, {holder}. Run the same job again for its model.")
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


@contextmanager
def _ending_noted(folder: Any) -> Iterator[None]:
    code = outcome.ERROR
    try:
        yield
        code = outcome.DONE
    except Stopped:
        code = outcome.CHECKPOINTED
        raise
    except KeyboardInterrupt:
        code = outcome.INTERRUPTED
        raise
    except ClusterLostError:
        code = outcome.CHECKPOINTED
        raise
    except BudgetError:
        code = outcome.BUDGET
        raise
    finally:
        folder.note("end", code=code)
