"""Per-row kernels: declared bounds to grid integers, and the clipped gradient (no checks inside).

Every row is computed by itself in one fixed order of operations, without fast-math, so that its value does not
depend on which chunk, block or machine it is in.
"""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(nogil=True, cache=True)
def scale_bounded(
    X: np.ndarray,
    y: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    center: np.ndarray,
    factor: np.ndarray,
    group: np.ndarray,
    n_groups: int,
    limit: int,
    intercept: int,
    y_lower: float,
    y_upper: float,
    y_center: float,
    y_factor: float,
    out: np.ndarray,
    target: np.ndarray,
) -> None:
    """Rows of (X, y) under per-feature bounds, as integers into `out` (m, d + 0 or 1) and floats into `target` (m,).

    `factor` maps a clipped, centred value to grid units; |entry| ≤ limit.  group[j] is −1 for a numeric column;
    of each group's columns only the largest entry (the first of equals) is kept.  A record with a non-finite entry
    becomes the zero record.
    """
    d = X.shape[1]
    best = np.empty(n_groups, dtype=np.int64)
    for i in range(X.shape[0]):
        label = np.float64(y[i])
        usable = math.isfinite(label)
        for j in range(d):
            if not math.isfinite(X[i, j]):
                usable = False
        if not usable:
            for j in range(out.shape[1]):
                out[i, j] = 0
            target[i] = 0.0
            continue
        for k in range(n_groups):
            best[k] = -1
        for j in range(d):
            value = min(max(np.float64(X[i, j]), lower[j]), upper[j])
            scaled = min(max((value - center[j]) * factor[j], -float(limit)), float(limit))
            entry = int(scaled)  # towards zero
            k = group[j]
            if k >= 0 and entry != 0:
                previous = best[k]
                if previous >= 0 and out[i, previous] >= entry:
                    entry = 0
                else:
                    if previous >= 0:
                        out[i, previous] = 0
                    best[k] = j
            out[i, j] = entry
        if intercept > 0:
            out[i, d] = intercept
        scaled_label = (min(max(label, y_lower), y_upper) - y_center) * y_factor
        target[i] = min(max(scaled_label, -1.0), 1.0)


@numba.njit(nogil=True, cache=True)
def scale_normed(
    X: np.ndarray,
    y: np.ndarray,
    radius: float,
    top: float,
    intercept: int,
    y_lower: float,
    y_upper: float,
    y_center: float,
    y_factor: float,
    out: np.ndarray,
    target: np.ndarray,
) -> None:
    """Rows of (X, y) under one Euclidean bound: rows longer than `radius` are scaled down to it.

    `top` = 2^q, over sqrt 2 with an intercept, is the grid length of a row of norm `radius`.  The norm is taken of
    x / max|x|, which neither overflows nor underflows.  Rounding leaves Σ entry² ≤ top² · (1 + 1e-10) < top² + 1/2;
    both sides are integers (top² is 2^32 or 2^31), so Σ entry² ≤ top² exactly.
    """
    d = X.shape[1]
    factor = top / radius
    limit = min(top, 65535.0)
    for i in range(X.shape[0]):
        label = np.float64(y[i])
        usable = math.isfinite(label)
        largest = 0.0
        for j in range(d):
            value = np.float64(X[i, j])
            if not math.isfinite(value):
                usable = False
            largest = max(largest, abs(value))
        if not usable:
            for j in range(out.shape[1]):
                out[i, j] = 0
            target[i] = 0.0
            continue
        scale = factor
        shrink = 1.0
        if largest > 0.0:
            total = 0.0
            for j in range(d):
                ratio = np.float64(X[i, j]) / largest
                total += ratio * ratio
            length = math.sqrt(total)
            # length · largest > radius, without forming a product that may overflow
            if largest > radius / length:
                shrink = largest
                scale = top / length
        for j in range(d):
            scaled = np.float64(X[i, j]) / shrink * scale
            out[i, j] = int(min(max(scaled, -limit), limit))
        if intercept > 0:
            out[i, d] = intercept
        scaled_label = (min(max(label, y_lower), y_upper) - y_center) * y_factor
        target[i] = min(max(scaled_label, -1.0), 1.0)


@numba.njit(nogil=True, cache=True)
def add_gradient(
    rows: np.ndarray, target: np.ndarray, theta: np.ndarray, clip: float, grid: float, total: np.ndarray
) -> None:
    """total += Σ_i rows_i · trunc(clip_C(target_i − rows_iᵀ theta) · grid), in exact int64.

    `theta` is in units of the row grid.  The products are summed in four lanes and joined in one fixed order.
    A residual that is not a number (theta beyond all range) counts as 0.
    """
    d = rows.shape[1]
    whole = d - d % 4
    for i in range(rows.shape[0]):
        a = 0.0
        b = 0.0
        c = 0.0
        e = 0.0
        for j in range(0, whole, 4):
            a += rows[i, j] * theta[j]
            b += rows[i, j + 1] * theta[j + 1]
            c += rows[i, j + 2] * theta[j + 2]
            e += rows[i, j + 3] * theta[j + 3]
        for j in range(whole, d):
            a += rows[i, j] * theta[j]
        residual = target[i] - ((a + b) + (c + e))
        if residual != residual:
            residual = 0.0
        residual = min(max(residual, -clip), clip)
        weight = np.int64(residual * grid)  # towards zero
        for j in range(d):
            total[j] += rows[i, j] * weight


@numba.njit(nogil=True, cache=True)
def largest_deviation(block: np.ndarray, unit: float, offset: int, rows: np.ndarray, sampled: float) -> float:
    """max_i ‖unit · block[offset + i] − sampled · rows[i]‖², in one fixed order per row.

    block = (sqrt(k2)·S)ᵀ(sqrt(k2)·S X) for one block, in grid integers divided by `unit`; rows are X's.
    """
    largest = 0.0
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            difference = unit * np.float64(block[offset + i, j]) - sampled * np.float64(rows[i, j])
            total += difference * difference
        largest = max(largest, total)
    return largest
