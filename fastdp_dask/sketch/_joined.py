"""The last stages of a block's transform, run on a few rows of every tile at a time, and used while in the cache.

H_b = (H_{b/t} ⊗ I_t)(I_{b/t} ⊗ H_t): once every tile of t rows is transformed, rows l … l + w − 1 of all tiles need
only one another.  They are copied together, finished there and handed on; the block itself is only read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp_dask.compiled import inner, kernel
from fastdp_dask.sketch._fwht_kernels import _all_stages, _copy, _radix8_into
from fastdp_dask.sketch._gather_kernels import _odd_bits

_0, _1, _8 = (np.uintp(k) for k in (0, 1, 8))
_BYTES = 640 << 10  # of the copies together: inside 1 MiB of second-level cache


def rows_together(rows: int, tile: int, columns: int, itemsize: int) -> int:
    """w, a power of two ≤ t: rows of each tile that are finished together; 0 where even one row of each is too much."""
    one = rows // tile * columns * itemsize
    width = 1
    while 2 * width <= tile and 2 * width * one <= _BYTES:
        width *= 2
    return width if width * one <= _BYTES else 0


@inner
def finish(a: Any, tiles: Any, step: Any, start: Any, width: Any, out: Any) -> None:
    """out (tiles, width) := H_tiles times the runs a[start + k·step :][:width], k = 0 … tiles − 1."""
    if tiles < _8:
        for k in range(tiles):
            _copy(a, start + k * step, out, k * width, width)
        _all_stages(out, _0, tiles, width)
        return
    eighth = tiles // _8
    for k in range(eighth):
        _radix8_into(a, start + k * step, eighth * step, out, k * width, eighth * width, width)
    for k in range(_8):
        _all_stages(out, k * eighth * width, eighth, width)


@kernel
def gather_finished(
    sums: np.ndarray, block: np.ndarray, tile: int, together: int, rows: np.ndarray, order: np.ndarray,
    edges: np.ndarray, index: int, add: bool,
) -> None:  # fmt: skip
    """sums[i] := or += (−1)^popcount(q_i & index) · (H_b block)[j_i], rows[i] = q_i·b + j_i; tiles transformed before.

    order: the sampled rows by their offset in a tile; edges: where in it each run of `together` offsets begins, and
    where the last one ends.
    """
    b, d, t, w = np.uintp(block.shape[0]), np.uintp(block.shape[1]), np.uintp(tile), np.uintp(together)
    tiles, width = b // t, w * d
    a, out = block.reshape(-1), sums.reshape(-1)
    scratch = np.empty(tiles * width, block.dtype)
    mask, shift, position = b - _1, _0, np.uintp(index)
    while (_1 << shift) < b:
        shift += _1
    for k in range(t // w):
        finish(a, tiles, t * d, k * width, width, scratch)
        for i in order[edges[k] : edges[k + _1]]:
            row, place = np.uintp(rows[i]), np.uintp(i) * d
            offset = row & mask
            source = (offset // t) * width + (offset % t - k * w) * d
            if _odd_bits(np.int64((row >> shift) & position)):
                if add:
                    for j in range(d):
                        out[place + j] -= scratch[source + j]
                else:
                    for j in range(d):
                        out[place + j] = -scratch[source + j]
            elif add:
                for j in range(d):
                    out[place + j] += scratch[source + j]
            else:
                for j in range(d):
                    out[place + j] = scratch[source + j]
