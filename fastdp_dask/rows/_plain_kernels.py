"""Rows under per-feature bounds without groups: scaled, summed and handed on in one sweep over memory.

Four rows at a time are scaled into a buffer in the first-level cache, as whole numbers held in float64, and used from
there: float64 adds and multiplies whole numbers below 2^53 exactly.  The bits are those of `_row_kernels.scale_plain`
followed by `_row_kernels.add_gradient`, which stay the definition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fastdp_dask.compiled import inner, kernel
from fastdp_dask.rows._lanes import scale_four
from fastdp_dask.sketch._fwht_kernels import _all_stages

_0, _4, _8, _15, _16 = (np.uintp(k) for k in (0, 4, 8, 15, 16))  # unsigned: see sketch/_fwht_kernels.py
_FLUSH = np.uintp(4096)

LARGEST_WEIGHT = 2.0**25
"""Bound on clip · grid: the sum of 4,096 products of an entry (≤ 2^16) and a weight then stays below 2^53."""


@inner
def _scaled_label(label: float, labels: Any) -> float:
    """`labels`: lower, upper, center, factor."""
    scaled = (min(max(label, labels[0]), labels[1]) - labels[2]) * labels[3]
    return min(max(scaled, -1.0), 1.0)


@inner
def _weight(residual: float, clip: float, grid: float) -> float:
    """trunc(clip_C(residual) · grid), towards zero; what is not a number counts as 0."""
    if residual != residual:
        residual = 0.0
    return np.trunc(min(max(residual, -clip), clip) * grid)


@inner
def _flush(sums: Any, total: Any) -> None:
    for j in range(total.shape[0]):
        total[j] += np.int64(sums[j])
        sums[j] = 0.0


@inner
def apart(X: Any) -> Any:
    """How many rows of X four can be read from, at most with the 16 numbers that are read beyond a row, and a copy of
    those after them with room behind it.
    """
    m, d = X.shape
    reach = 3 * d + (d + 15) // 16 * 16
    whole = 0 if m * d < reach else (m * d - reach) // d + 1
    rest = np.zeros((m - whole) * d + reach, X.dtype)
    rest[: (m - whole) * d] = X.reshape(-1)[whole * d :]
    return np.uintp(whole), rest


@kernel
def gradient(
    X: np.ndarray, inside: np.ndarray, y: np.ndarray, columns: np.ndarray, labels: np.ndarray, theta: np.ndarray,
    clip: float, grid: float, total: np.ndarray,
) -> None:  # fmt: skip
    """total += Σ_i x_i · trunc(clip_C(y_i − x_iᵀ theta) · grid), exact int64, x_i the scaled rows of X.

    inside (width,) integers of the size of X's: all bits but the sign for each feature, then 0; columns (4, width):
    center, factor, lowest, highest, and after the features the intercept; labels (5,): lower, upper, center, factor of
    y, and the intercept; theta (width,) in units of the row grid.
    """
    m, d, width = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(theta.shape[0])
    v, sums, w, found, last = np.zeros(_4 * width), np.zeros(width), np.zeros(_4), np.zeros(_8), np.zeros(_16)
    if d < width and d % _16 == _0:  # else the intercept is the last column of the last block
        last[0] = labels[4] * theta[d]
        for r in range(_4):
            v[r * width + d] = labels[4]
    whole, rest = apart(X)
    blocks, step = (d + _15) // _16, d * np.uintp(X.itemsize)
    data, beside = np.uintp(X.ctypes.data), np.uintp(rest.ctypes.data) - whole * step
    w1, w2, w3 = width, width + width, width + width + width
    for i in range(_0, m, _4):
        many = min(_4, m - i)
        scale_four(
            rest, (data if i < whole else beside) + i * step, step, np.uintp(inside.ctypes.data),
            np.uintp(columns.ctypes.data), width, np.uintp(theta.ctypes.data), np.uintp(last.ctypes.data), blocks,
            np.uintp(v.ctypes.data), np.uintp(found.ctypes.data),
        )  # fmt: skip
        for r in range(_4):
            w[r] = 0.0
            if r < many:
                label = np.float64(y[i + r])
                weight = _weight(_scaled_label(label, labels) - found[_4 + r], clip, grid)
                w[r] = weight if math.isfinite(label) and found[r] != 0.0 else 0.0
        a, b, c, e = w[0], w[1], w[2], w[3]
        for j in range(width):
            sums[j] += (v[j] * a + v[w1 + j] * b) + (v[w2 + j] * c + v[w3 + j] * e)
        if i % _FLUSH == _FLUSH - _4:
            _flush(sums, total)
    _flush(sums, total)


@inner
def _load(
    X: Any, inside: Any, y: Any, columns: Any, labels: Any, negative: Any, clip: Any, grid: Any, out: Any, total: Any
) -> None:
    m, d, n, width = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(total.shape[0]), np.uintp(columns.shape[1])
    to = out.dtype.type
    target = out.reshape(-1)
    v, sums, w, found, none = np.zeros(_4 * width), np.zeros(width), np.zeros(_4), np.zeros(_8), np.zeros(width)
    if d < n:
        for r in range(_4):
            v[r * width + d] = labels[4]
    whole, rest = apart(X)
    blocks, step = (d + _15) // _16, d * np.uintp(X.itemsize)
    data, beside = np.uintp(X.ctypes.data), np.uintp(rest.ctypes.data) - whole * step
    w1, w2, w3 = width, width + width, width + width + width
    for i in range(_0, m, _4):
        many = min(_4, m - i)
        scale_four(
            rest, (data if i < whole else beside) + i * step, step, np.uintp(inside.ctypes.data),
            np.uintp(columns.ctypes.data), width, np.uintp(none.ctypes.data), np.uintp(none.ctypes.data), blocks,
            np.uintp(v.ctypes.data), np.uintp(found.ctypes.data),
        )  # fmt: skip
        for r in range(_4):
            w[r] = 0.0
            if r < many:
                label = np.float64(y[i + r])
                if math.isfinite(label) and found[r] != 0.0:
                    w[r] = _weight(_scaled_label(label, labels), clip, grid)
                else:
                    found[r] = 0.0
                if negative[i + r]:
                    found[r] = -found[r]
        a, b, c, e = w[0], w[1], w[2], w[3]
        for j in range(width):
            sums[j] += (v[j] * a + v[w1 + j] * b) + (v[w2 + j] * c + v[w3 + j] * e)
        for r in range(many):
            sign, start, place = found[r], (i + r) * n, r * width
            for j in range(n):
                target[start + j] = to(v[place + j] * sign)
        if i % _FLUSH == _FLUSH - _4:
            _flush(sums, total)
    _flush(sums, total)


@kernel
def load(
    X: np.ndarray, inside: np.ndarray, y: np.ndarray, columns: np.ndarray, labels: np.ndarray, negative: np.ndarray,
    clip: float, grid: float, out: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """out_i = −x_i where negative[i] is 1, else x_i; total += Σ_i x_i · trunc(clip_C(y_i) · grid), exact int64.

    out (m, n_columns) int32, int64 or float64; a blank record gives zeros.  The rest as in `gradient`.
    """
    _load(X, inside, y, columns, labels, negative, clip, grid, out, total)


@kernel
def load_tiles(
    X: np.ndarray, inside: np.ndarray, y: np.ndarray, columns: np.ndarray, labels: np.ndarray, negative: np.ndarray,
    clip: float, grid: float, block: np.ndarray, place: int, tile: int, total: np.ndarray,
) -> None:  # fmt: skip
    """As `load` into rows place, place + 1, … of `block`, zeros elsewhere; each tile is then transformed.

    It is in the second-level cache when it has been loaded.
    """
    flat, n, m = block.reshape(-1), np.uintp(block.shape[1]), X.shape[0]
    for start in range(0, block.shape[0], tile):
        low, high = max(start, place), min(start + tile, place + m)
        if low >= high:
            block[start : start + tile] = 0
            continue
        block[start:low] = 0
        block[high : start + tile] = 0
        a, b = low - place, high - place
        _load(X[a:b], inside, y[a:b], columns, labels, negative[a:b], clip, grid, block[low:high], total)
        _all_stages(flat, np.uintp(start) * n, np.uintp(tile), n)
