"""Data that fit into memory are read from disk once: the passes after the first find them there.

What decides is public: shapes, chunks, numbers of threads, limits and free memory of machines.  A pass computes the
same bits from either.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import psutil

from fastdp_dask import _validate
from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.blocked.memory import PROCESS_BYTES, PassMemory, _workers

_SPARE = 1.25
"""Data count for this much more than they are: workers do not share them out evenly."""

_OF_FREE = 0.6
"""Part of this machine's free memory that a fit on threads may fill."""

_THREADS = {None, "threads", "threading", "sync", "synchronous", "single-threaded"}


def checked(persist: Any) -> bool | str:
    """`persist` if it is True, False or "auto"."""
    if isinstance(persist, bool):
        return persist
    return _validate.choice("persist", persist, ("auto",))


def fits(n_bytes: int, memory: PassMemory) -> bool:
    """Whether data of `n_bytes` fit into memory along with a pass that needs `memory`, with room to spare.

    On a cluster: each worker's share by threads, beside its running tasks, below the fill at which Dask starts to
    spill; False if a worker has no limit, since then nobody knows.  Else on this machine's free memory, for
    schedulers that share it.
    """
    client = _active_client()
    if client is not None and not client.asynchronous:
        workers = [(int(w["memory_limit"] or 0), int(w["nthreads"])) for w in _workers(client)]
        threads = sum(count for _, count in workers)
        fill = dask.config.get("distributed.worker.memory.target", 0.6) or 0.6
        return bool(workers) and all(
            n_bytes * _SPARE * count / threads + memory.worker(count) <= fill * limit for limit, count in workers
        )
    if client is not None or dask.config.get("scheduler", None) not in _THREADS:
        return False
    threads = int(dask.config.get("num_workers", None) or psutil.cpu_count() or 1)
    return n_bytes * _SPARE + memory.worker(threads) - PROCESS_BYTES <= _OF_FREE * free_bytes()


def free_bytes() -> int:
    """Memory that this process may still take: of the machine, or of its control group where that is less."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # no such group, or no limit ("max")
            free = min(free, max(0, int(Path(limit).read_text()) - int(Path(used).read_text())))
    return free


def release(*arrays: Any) -> None:
    """Let the workers drop what they hold of these arrays, though a traceback may still name them."""
    if _active_client() is None:
        return
    from distributed.client import futures_of

    with suppress(Exception):  # the cluster may be gone
        for future in futures_of(list(arrays)):
            future.release()
