"""Who would compute a pass now: the workers of the active client, or the threads of this process."""

from __future__ import annotations

import os
from dataclasses import dataclass

import dask

from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.blocked.memory import _workers, worker_limits


@dataclass(frozen=True)
class Capacity:
    """Workers, their threads in all, the memory limit of the tightest (None: none), and whether results move."""

    workers: int
    threads: int
    memory_limit: int | None
    moved: bool


def found() -> Capacity:
    """The capacity of the active client; without one (or without workers yet), of Dask's threads here."""
    client = _active_client()
    workers = [] if client is None or client.asynchronous else _workers(client)
    if not workers:
        asked = dask.config.get("num_workers", None)
        return Capacity(1, max(1, asked) if isinstance(asked, int) else cores(), None, moved=False)
    limits = worker_limits()
    return Capacity(
        workers=len(workers),
        threads=max(1, sum(int(worker["nthreads"]) for worker in workers)),
        memory_limit=None if limits is None else limits[0],
        moved=True,
    )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
