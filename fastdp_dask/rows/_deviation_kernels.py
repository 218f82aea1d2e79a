"""The largest deviation of a block's rows, measured while the last stages of their transform are in the cache."""

from __future__ import annotations

import numpy as np

from fastdp_dask.compiled import kernel
from fastdp_dask.rows._lanes import dot_of_lanes
from fastdp_dask.sketch._joined import finish

_0, _8, _16 = (np.uintp(k) for k in (0, 8, 16))


@kernel
def largest_deviation(
    block: np.ndarray, tile: int, together: int, unit: float, rows: np.ndarray, first: int, sampled: float
) -> float:
    """max_i ‖unit · (H_b block)[first + i] − sampled · rows[i]‖², one fixed order of additions in each row.

    block (b, d) int64 with its tiles transformed, only read; rows (m, d) int32: ± rows of X, first + m ≤ b.  With
    signs ± from B this is ‖k2 δ_i‖² in grid units: ‖B a − k2 x‖ = ‖a − k2 B x‖.
    """
    b, d, t, w = np.uintp(block.shape[0]), np.uintp(block.shape[1]), np.uintp(tile), np.uintp(together)
    low, high = np.uintp(first), np.uintp(first) + np.uintp(rows.shape[0])
    tiles, width = b // t, w * d
    a, wanted = block.reshape(-1), rows.reshape(-1)
    scratch, difference = np.empty(tiles * width, block.dtype), np.empty(width)
    here, blocks = np.uintp(difference.ctypes.data), d // _16
    largest = 0.0
    for k in range(t // w):
        finish(a, tiles, t * d, k * width, width, scratch)
        for h in range(tiles):
            start = h * t + k * w
            begin, end = max(start, low), min(start + w, high)
            if begin >= end:
                continue
            source, target, count = h * width + (begin - start) * d, (begin - low) * d, (end - begin) * d
            for j in range(count):
                difference[j] = unit * scratch[source + j] - sampled * wanted[target + j]
            for i in range(end - begin):
                at = here + i * d * _8
                total = dot_of_lanes(at, at, blocks)
                for j in range(i * d + blocks * _16, i * d + d):
                    total += difference[j] * difference[j]
                largest = max(largest, total)
    return largest
