"""The largest deviation of a block's rows, measured while the last stages of their transform are in the cache."""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask.compiled import kernel
from fastdp_dask.rows._lanes import dot_of_lanes, scale_four
from fastdp_dask.rows._plain_kernels import apart
from fastdp_dask.sketch._joined import finish

_0, _4, _8, _15, _16 = (np.uintp(k) for k in (0, 4, 8, 15, 16))


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


@kernel
def largest_deviation_of_plain(
    block: np.ndarray, tile: int, together: int, unit: float, X: np.ndarray, inside: np.ndarray, y: np.ndarray,
    columns: np.ndarray, labels: np.ndarray, negative: np.ndarray, first: int, sampled: float,
) -> float:  # fmt: skip
    """`largest_deviation` of the rows that `_plain_kernels.load` would make, bit for bit, scaled as they are met.

    X (m, d), y (m,), negative (m,); inside, columns and labels as there.
    """
    b, n, t, w = np.uintp(block.shape[0]), np.uintp(block.shape[1]), np.uintp(tile), np.uintp(together)
    m, d, width = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(columns.shape[1])
    low, high, tiles = np.uintp(first), np.uintp(first) + m, b // t
    a = block.reshape(-1)
    scratch, difference = np.empty(tiles * w * n, block.dtype), np.empty(n)
    v, found, none = np.zeros(_4 * width), np.zeros(_8), np.zeros(width)
    if d < n:
        for r in range(_4):
            v[r * width + d] = labels[4]
    whole, rest = apart(X)
    blocks, step = (d + _15) // _16, d * np.uintp(X.itemsize)
    data, beside = np.uintp(X.ctypes.data), np.uintp(rest.ctypes.data) - whole * step
    here, pairs = np.uintp(difference.ctypes.data), n // _16
    largest = 0.0
    for k in range(t // w):
        finish(a, tiles, t * n, k * w * n, w * n, scratch)
        for h in range(tiles):
            start = h * t + k * w
            begin, end = max(start, low), min(start + w, high)
            for row in range(begin, end, _4):
                i = row - low
                scale_four(
                    rest, (data if i < whole else beside) + i * step, step, np.uintp(inside.ctypes.data),
                    np.uintp(columns.ctypes.data), width, np.uintp(none.ctypes.data), np.uintp(none.ctypes.data),
                    blocks, np.uintp(v.ctypes.data), np.uintp(found.ctypes.data),
                )  # fmt: skip
                for r in range(min(_4, end - row)):
                    usable = found[r] != 0.0 and math.isfinite(np.float64(y[i + r]))
                    sign = (-1.0 if negative[i + r] else 1.0) if usable else 0.0
                    source, place, factor = (h * w + row + r - start) * n, r * width, sampled * sign
                    for j in range(n):
                        difference[j] = unit * scratch[source + j] - factor * v[place + j]
                    total = dot_of_lanes(here, here, pairs)
                    for j in range(pairs * _16, n):
                        total += difference[j] * difference[j]
                    largest = max(largest, total)
    return largest
