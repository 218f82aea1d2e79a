"""Memory of a pass, projected before it runs from public facts alone: shapes, chunks, sketch sizes, threads.

A task holds one chunk as it was read, the work arrays of its kernel and one partial; a worker holds as many tasks as
it has threads, and the partials that wait to be summed; the driver holds totals.  Rows of the data never add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.blocked.tree import SPLIT_EVERY
from fastdp_dask.errors import MemoryLimitError
from fastdp_dask.sketch.blocks import next_power_of_two

PROCESS_BYTES = 340 * 2**20
"""A worker process with this package and its compiled kernels loaded, before any data."""

_MIB = 2**20
_ROOMY = 4 * 2**30


@dataclass(frozen=True)
class PassMemory:
    """Projected peaks of one pass, in bytes.

    Attributes
    ----------
    chunk : int
        One chunk of X and y as stored, as decoded, as handed on and, where chunks are merged, as merged.
    work : int
        Work arrays of the kernel of one task.
    partial : int
        What one task hands on.
    total : int
        The result of the pass, int64 or float64.
    """

    chunk: int
    work: int
    partial: int
    total: int

    @property
    def task(self) -> int:
        """One running task."""
        return self.chunk + self.work + self.partial

    @property
    def driver(self) -> int:
        """The driver: the result, and the one it is added to."""
        return 2 * self.total

    def worker(self, threads: int) -> int:
        """A worker process: running tasks, the partials of a node of the tree, its total and a shared copy of one."""
        waiting = SPLIT_EVERY * max(1, threads) * self.partial
        return PROCESS_BYTES + threads * self.task + waiting + 2 * self.total


def project(
    *,
    chunk_rows: int,
    n_features: int,
    itemsize: int,
    merged: bool,
    work: int,
    shape: tuple[int, int],
    partial_itemsize: int,
) -> PassMemory:
    """The memory of a pass over chunks of at most `chunk_rows` rows, whose result has `shape`."""
    copies = 4 if merged else 3
    raw = chunk_rows * (n_features * itemsize * copies + 2 * 8)
    numbers = shape[0] * shape[1]
    return PassMemory(chunk=raw, work=work, partial=numbers * partial_itemsize, total=numbers * 8)


def tile_work(columns: int) -> int:
    """Work arrays of a pass that scales rows a tile at a time: integers, and floats of them for a product."""
    return 4 * _MIB + 8 * columns * columns


def block_work(chunk_rows: int, columns: int, itemsize: int, *, blocks: int = 1) -> int:
    """Work arrays of a pass that transforms blocks of up to twice the rows of a chunk, and a tile beside them."""
    return blocks * next_power_of_two(max(1, chunk_rows)) * columns * itemsize + tile_work(columns)


def check(name: str, memory: PassMemory) -> None:
    """Refuse a pass that cannot fit the workers of the active client; without one, or without limits, do nothing.

    Raises
    ------
    MemoryLimitError
        With the projected bytes, the limit and what to change.
    """
    limits = worker_limits()
    if limits is None:
        return
    limit, threads = limits
    needed = memory.worker(threads)
    if needed <= limit:
        return
    raise MemoryLimitError(
        f"the {name} pass needs about {_mib(needed)} on a worker with {threads} thread{'s' * (threads != 1)} "
        f"({_mib(PROCESS_BYTES)} for the process; for a thread {_mib(memory.chunk)} for a chunk, {_mib(memory.work)} "
        f"to work in and {_mib(memory.partial)} for its part of the result), got memory_limit={_mib(limit)}. "
        "Give each worker more memory or fewer threads, store smaller chunks of rows, or choose a smaller k2."
    )


def allocator(memory_limit: float) -> dict[str, int]:
    """Settings of glibc for the environment of a worker process with so many bytes: memory that a pass frees stays.

    By Dask's own setting each chunk that is read, decoded and dropped comes from the system page by page, cleared, and
    goes back: half the time of a pass.  At most 256 MiB stay, so a worker with less than 4 GiB keeps Dask's setting.
    """
    return {"MALLOC_TRIM_THRESHOLD_": 2**28, "MALLOC_MMAP_THRESHOLD_": 2**27} if memory_limit >= _ROOMY else {}


def worker_limits() -> tuple[int, int] | None:
    """(memory limit in bytes, threads) of the tightest worker of the active client; None where there is no limit."""
    client = _active_client()
    if client is None or client.asynchronous:
        return None
    workers = _workers(client)
    limited = [(int(w["memory_limit"]), int(w["nthreads"])) for w in workers if w.get("memory_limit")]
    return min(limited, key=lambda pair: pair[0] / pair[1], default=None)


def workers_of(client: Any) -> dict[str, dict[str, Any]]:
    """What the scheduler tells of each worker, by address."""
    return dict(client.scheduler_info(n_workers=-1)["workers"])


def _workers(client: Any) -> list[dict[str, Any]]:
    return list(workers_of(client).values())


def _mib(count: int) -> str:
    return f"{count / _MIB:,.0f} MiB"
