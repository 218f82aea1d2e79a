"""How the data lies and who computes on it: all of it public."""

from __future__ import annotations

from dataclasses import dataclass

from fastdp_dask.blocked import capacity
from fastdp_dask.errors import ArgumentError

_CHUNK_ROWS = 65536  # of a store, unless told
_MOST_CHUNKS = 2**24  # each is an entry here, and a task in every pass


@dataclass(frozen=True)
class Layout:
    """Chunks, their type, and the workers.

    Attributes
    ----------
    chunks : tuple of int
        Rows of each chunk of X.
    n_features : int
        Columns of X, without an intercept.
    itemsize : int
        Bytes of a number in X.
    workers : int
        Processes that compute: 1 for the threads of this one.
    threads : int
        Threads of all workers together.
    memory_limit : int
        Bytes of the tightest worker; 0: none known.
    moved : bool
        Whether what a task hands on goes from one process to another.
    """

    chunks: tuple[int, ...]
    n_features: int
    itemsize: int = 4
    workers: int = 1
    threads: int = 1
    memory_limit: int = 0
    moved: bool = False

    @property
    def n_samples(self) -> int:
        """n."""
        return sum(self.chunks)

    @property
    def bytes_of_pass(self) -> int:
        """Bytes of X and y as decoded: what one pass reads."""
        return self.n_samples * (self.n_features * self.itemsize + 8)


def layout(
    n_samples: int,
    n_features: int,
    *,
    chunks: tuple[int, ...] | int | None = None,
    itemsize: int = 4,
    workers: int | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Layout:
    """The layout of n rows; what is left out is that of the active client, or of this machine's threads.

    Raises
    ------
    ArgumentError
        If there are more chunks than anybody can schedule.
    """
    if not isinstance(chunks, tuple):
        rows = min(n_samples, chunks or _CHUNK_ROWS)
        if n_samples > rows * _MOST_CHUNKS:
            raise ArgumentError(
                f"chunks must be long enough for at most {_MOST_CHUNKS:,} of them to hold n_samples rows, got "
                f"{n_samples:,} rows in chunks of {rows:,}. Give longer chunks."
            )
        full, rest = divmod(n_samples, rows)
        chunks = (rows,) * full + ((rest,) if rest else ())
    found = capacity.found()
    processes = found.workers if workers is None else workers
    return Layout(
        chunks=chunks,
        n_features=n_features,
        itemsize=itemsize,
        workers=processes,
        threads=max(processes, found.threads if threads is None and workers is None else threads or processes),
        memory_limit=(found.memory_limit or 0) if memory_limit is None else memory_limit,
        moved=found.moved if workers is None else workers > 1,
    )
