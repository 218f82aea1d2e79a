"""One blocked map and one tree reduction: the graph of a pass, in parts that start at once for any number of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from fastdp_dask.blocked.scratch import result
from fastdp_dask.blocked.source import check_block
from fastdp_dask.sketch._gather_kernels import add_narrow

SPLIT_EVERY = 8
"""Partials summed together at each level of the tree."""

PART_CHUNKS = 2048
"""Chunks whose graph is built, and held by the scheduler, at once; a quarter where chunks differ in length."""

_SLAB = 1 << 16  # numbers added together: 512 KiB of totals


@dataclass(frozen=True)
class Part:
    """The result over a run of chunks, not computed."""

    lazy: da.Array
    n_rows: int
    n_chunks: int


def parts(
    X: da.Array,
    y: da.Array,
    kernel: Callable[..., np.ndarray],
    shape: tuple[int, int],
    dtype: Any,
    combine: np.ufunc,
    shared: Mapping[str, Any],
) -> Iterator[Part]:
    """The pass over (X, y) in runs of at most `PART_CHUNKS` chunks; their results are to be combined by `combine`.

    kernel(X_chunk, y_chunk, first_row, **shared) gives a partial of `shape`; `shared` may hold Delayed values.  To
    make and order a graph takes longest for its first task, and its memory grows with the chunks: so one graph for
    each run, of a few megabytes, holding no array but, for chunks of different lengths, where those of the run start.
    """
    lengths = X.chunks[0]
    ends = np.cumsum([0, *lengths]).astype(np.int64)
    equal = all(length == lengths[0] for length in lengths[:-1]) and lengths[-1] <= lengths[0]
    mapped = _partials(X, y, kernel, lengths[0], shape, dtype, shared) if equal else None
    most = PART_CHUNKS if equal else PART_CHUNKS // 4
    for start in range(0, len(lengths), most):
        stop = min(start + most, len(lengths))
        if mapped is None:
            # Every task carries the starts of its run; so runs are short.
            run = X.blocks[start:stop], y.blocks[start:stop]
            partials = _partials(*run, kernel, ends[start : stop + 1], shape, dtype, shared)
        else:
            partials = mapped if stop - start == len(lengths) else mapped.blocks[start:stop]
        yield Part(_total(partials, combine), int(ends[stop] - ends[start]), stop - start)


def _partials(
    X: da.Array,
    y: da.Array,
    kernel: Callable[..., np.ndarray],
    starts: int | np.ndarray,
    shape: tuple[int, int],
    dtype: Any,
    shared: Mapping[str, Any],
) -> da.Array:
    return da.map_blocks(
        _on_chunk, X, y if y.ndim == 2 else y[:, None], kernel=kernel, starts=starts, declared=X.shape,
        targets=1 if y.ndim == 1 else y.shape[1], **shared,
        dtype=dtype, meta=np.empty((0, 0), dtype=dtype), chunks=((shape[0],) * X.numblocks[0], (shape[1],)),
    )  # fmt: skip


def _total(partials: da.Array, combine: np.ufunc) -> da.Array:
    folded = partial(fold, combine=combine)
    return da.reduction(
        partials, _as_it_is, folded, combine=folded, axis=0, keepdims=True, concatenate=False,
        split_every=SPLIT_EVERY, output_size=partials.chunks[0][0], dtype=partials.dtype,
        meta=np.empty((0, 0), dtype=partials.dtype),
    )  # fmt: skip


def _on_chunk(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Callable[..., np.ndarray],
    starts: int | np.ndarray,
    declared: tuple[int, int],
    targets: int,
    block_id: tuple[int, ...],
    **shared: Any,
) -> np.ndarray:
    """`starts`: the rows of a chunk where all have as many, else where each chunk starts and the last one ends."""
    if isinstance(starts, int):
        first = starts * block_id[0]
        rows = min(starts, declared[0] - first)
    else:
        first, end = (int(edge) for edge in starts[block_id[0] : block_id[0] + 2])
        rows = end - first
    check_block("X", X, (rows, declared[1]))
    check_block("y", y, (rows, targets))
    return kernel(X, y, first, **shared)


def _as_it_is(block: np.ndarray, axis: Any = None, keepdims: bool = True) -> np.ndarray:
    return block


def fold(blocks: Any, axis: Any = None, keepdims: bool = True, *, combine: np.ufunc) -> np.ndarray:
    """Combine the partials of one node of the tree; integers, so in any order.

    Partials of 32 bits are summed in 64, a slab at a time, so that the total of a slab stays in the cache.
    """
    leaves = list(flatten(blocks))
    if all(leaf.dtype == np.int32 for leaf in leaves):
        return _wide_sum(leaves)
    total = leaves[0].astype(np.result_type(leaves[0], *(leaf.dtype for leaf in leaves)))
    for leaf in leaves[1:]:
        combine(total, leaf, out=total)
    return total


def _wide_sum(leaves: list[np.ndarray]) -> np.ndarray:
    flat = [leaf.reshape(-1).view() for leaf in leaves]
    total = result(leaves[0].shape, np.int64)
    sums = total.reshape(-1)
    flat += [np.zeros(min(_SLAB, sums.size), dtype=np.int32)] * (-len(flat) % 4)
    for leaf in flat:
        leaf.flags.writeable = False  # as arrays that came from another worker are: one compiled variant
    for start in range(0, sums.size, _SLAB):
        slab = sums[start : start + _SLAB]
        slab[:] = 0
        for k in range(0, len(flat), 4):
            # An array of zeros is as long as one slab.
            four = [leaf[start:][:_SLAB] if leaf.size == sums.size else leaf[: slab.size] for leaf in flat[k : k + 4]]
            add_narrow(slab, *four)
    return total


def flatten(blocks: Any) -> Iterator[np.ndarray]:
    """The arrays in nested lists."""
    if isinstance(blocks, list):
        for block in blocks:
            yield from flatten(block)
    else:
        yield blocks
