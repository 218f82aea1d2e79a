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
from fastdp_dask.rows._lanes import dot_of_lanes

_0, _1, _2, _3, _4, _8, _16 = (np.uintp(k) for k in (0, 1, 2, 3, 4, 8, 16))  # unsigned: see sketch/_fwht_kernels.py
_FLUSH = np.uintp(4096)

LARGEST_WEIGHT = 2.0**25
"""Bound on clip · grid: the sum of 4,096 products of an entry (≤ 2^16) and a weight then stays below 2^53."""

LANES = 16
"""Columns are padded to a multiple of this with zeros."""


@inner
def _clipped(value: float, lowest: float, highest: float) -> float:
    # A nan becomes `lowest`, so that a blank record is finite and its weight 0 removes it, without a branch.
    value = value if value > lowest else lowest
    return value if value < highest else highest


@inner
def _four(rows: Any, d: Any, columns: Any, width: Any, v: Any) -> None:
    """Scale four rows of d columns, in `rows` one after the other, into v (4 · width)."""
    p1, p2, p3 = d, d + d, d + d + d
    w1, w2, w3 = width, width + width, width + width + width
    for j in range(d):
        c, f, lowest, highest = columns[j], columns[w1 + j], columns[w2 + j], columns[w3 + j]
        v[j] = np.trunc(_clipped((np.float64(rows[j]) - c) * f, lowest, highest))
        v[w1 + j] = np.trunc(_clipped((np.float64(rows[p1 + j]) - c) * f, lowest, highest))
        v[w2 + j] = np.trunc(_clipped((np.float64(rows[p2 + j]) - c) * f, lowest, highest))
        v[w3 + j] = np.trunc(_clipped((np.float64(rows[p3 + j]) - c) * f, lowest, highest))


@inner
def _blank(words: Any, d: Any, usable: Any) -> None:
    """usable[r] = 0 where row r of four has an infinity or a nan: its exponent bits are all ones."""
    magnitude = words.dtype.type(0x7FFFFFFF if words.itemsize == 4 else 0x7FFFFFFFFFFFFFFF)
    infinity = words.dtype.type(0x7F800000 if words.itemsize == 4 else 0x7FF0000000000000)
    p1, p2, p3 = d, d + d, d + d + d
    a = b = c = e = words.dtype.type(0)
    for j in range(d):
        a = max(a, words[j] & magnitude)
        b = max(b, words[p1 + j] & magnitude)
        c = max(c, words[p2 + j] & magnitude)
        e = max(e, words[p3 + j] & magnitude)
    usable[0] = 1.0 if a < infinity else 0.0
    usable[1] = 1.0 if b < infinity else 0.0
    usable[2] = 1.0 if c < infinity else 0.0
    usable[3] = 1.0 if e < infinity else 0.0


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


@kernel
def gradient(
    X: np.ndarray, words: np.ndarray, y: np.ndarray, columns: np.ndarray, labels: np.ndarray, theta: np.ndarray,
    clip: float, grid: float, total: np.ndarray,
) -> None:  # fmt: skip
    """total += Σ_i x_i · trunc(clip_C(y_i − x_iᵀ theta) · grid), exact int64, x_i the scaled rows of X.

    words: X's bits as integers; columns (4, width): center, factor, lowest, highest, and last in each the intercept;
    labels (5,): lower, upper, center, factor of y, and the intercept; theta (width,) in units of the row grid.
    """
    m, d, n = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(total.shape[0])
    width = np.uintp(theta.shape[0])
    flat, bits, table = X.reshape(-1), words.reshape(-1), columns.reshape(-1)
    spare, spare_bits = np.zeros(_4 * d, X.dtype), np.zeros(_4 * d, words.dtype)
    v, sums, usable, w = np.zeros(_4 * width), np.zeros(n), np.zeros(_4), np.zeros(_4)
    if n > d:
        for r in range(_4):
            v[r * width + d] = labels[4]
    here, there = np.uintp(v.ctypes.data), np.uintp(theta.ctypes.data)
    w1, w2, w3 = width, width + width, width + width + width
    for i in range(_0, m, _4):
        many = min(_4, m - i)
        rows, marks = flat[i * d :], bits[i * d :]
        if many < _4:
            for j in range(many * d):
                spare[j], spare_bits[j] = rows[j], marks[j]
            rows, marks = spare, spare_bits
        _blank(marks, d, usable)
        _four(rows, d, table, width, v)
        for r in range(_4):
            w[r] = 0.0
            if r < many:
                label = np.float64(y[i + r])
                product = dot_of_lanes(here + r * width * _8, there, width // _16)
                weight = _weight(_scaled_label(label, labels) - product, clip, grid)
                w[r] = weight if math.isfinite(label) and usable[r] != 0.0 else 0.0
        a, b, c, e = w[0], w[1], w[2], w[3]
        for j in range(n):
            sums[j] += (v[j] * a + v[w1 + j] * b) + (v[w2 + j] * c + v[w3 + j] * e)
        if i % _FLUSH == _FLUSH - _4:
            _flush(sums, total)
    _flush(sums, total)


@kernel
def load(
    X: np.ndarray, words: np.ndarray, y: np.ndarray, columns: np.ndarray, labels: np.ndarray, negative: np.ndarray,
    clip: float, grid: float, out: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """out_i = −x_i where negative[i] is 1, else x_i; total += Σ_i x_i · trunc(clip_C(y_i) · grid), exact int64.

    out (m, n_columns) int32, int64 or float64; a blank record gives zeros.  The rest as in `gradient`.
    """
    m, d, n = np.uintp(X.shape[0]), np.uintp(X.shape[1]), np.uintp(total.shape[0])
    width = np.uintp(columns.shape[1])
    to = out.dtype.type
    flat, bits, table, target = X.reshape(-1), words.reshape(-1), columns.reshape(-1), out.reshape(-1)
    spare, spare_bits = np.zeros(_4 * d, X.dtype), np.zeros(_4 * d, words.dtype)
    v, sums, usable, w = np.zeros(_4 * width), np.zeros(n), np.zeros(_4), np.zeros(_4)
    if n > d:
        for r in range(_4):
            v[r * width + d] = labels[4]
    w1, w2, w3 = width, width + width, width + width + width
    for i in range(_0, m, _4):
        many = min(_4, m - i)
        rows, marks = flat[i * d :], bits[i * d :]
        if many < _4:
            for j in range(many * d):
                spare[j], spare_bits[j] = rows[j], marks[j]
            rows, marks = spare, spare_bits
        _blank(marks, d, usable)
        _four(rows, d, table, width, v)
        for r in range(_4):
            w[r] = 0.0
            if r < many:
                label = np.float64(y[i + r])
                if math.isfinite(label) and usable[r] != 0.0:
                    w[r] = _weight(_scaled_label(label, labels), clip, grid)
                else:
                    usable[r] = 0.0
                if negative[i + r]:
                    usable[r] = -usable[r]
        a, b, c, e = w[0], w[1], w[2], w[3]
        for j in range(n):
            sums[j] += (v[j] * a + v[w1 + j] * b) + (v[w2 + j] * c + v[w3 + j] * e)
        for r in range(many):
            sign, start, place = usable[r], (i + r) * n, r * width
            for j in range(n):
                target[start + j] = to(v[place + j] * sign)
        if i % _FLUSH == _FLUSH - _4:
            _flush(sums, total)
    _flush(sums, total)
