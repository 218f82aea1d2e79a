"""Per-row kernels: declared bounds to grid integers, and the clipped gradient (no checks inside).

Every row is computed by itself in one fixed order of operations, without fast-math, so that its value does not
depend on which chunk, block or machine it is in.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask.compiled import inner, kernel


@inner
def _finite(X: np.ndarray, i: int) -> bool:
    """Whether row i holds neither infinity nor nan: v − v is 0 for those alone.  No branch: the loop is vectorised."""
    found = np.int32(0)
    for j in range(X.shape[1]):
        value = X[i, j]
        found |= np.int32(value - value != 0)
    return found == 0


@kernel
def scale_plain(
    X: np.ndarray,
    y: np.ndarray,
    center: np.ndarray,
    factor: np.ndarray,
    lowest: np.ndarray,
    highest: np.ndarray,
    intercept: int,
    y_lower: float,
    y_upper: float,
    y_center: float,
    y_factor: float,
    out: np.ndarray,
    target: np.ndarray,
) -> None:
    """As `scale_bounded` without groups, several times faster: the bounds are applied to the scaled value.

    `lowest` and `highest` are the scaled bounds, cut to ±limit.  Subtraction of a constant and multiplication by a
    positive one are monotone, rounded or not, so clipping before or after them gives the same bits.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        label = np.float64(y[i])
        if not (math.isfinite(label) and _finite(X, i)):
            for j in range(out.shape[1]):
                out[i, j] = 0
            target[i] = 0.0
            continue
        for j in range(d):
            value = (np.float64(X[i, j]) - center[j]) * factor[j]
            value = lowest[j] if value < lowest[j] else value
            value = highest[j] if value > highest[j] else value
            out[i, j] = np.int32(value)  # towards zero
        if intercept > 0:
            out[i, d] = intercept
        scaled_label = (min(max(label, y_lower), y_upper) - y_center) * y_factor
        target[i] = min(max(scaled_label, -1.0), 1.0)


@kernel
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


@kernel
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


@inner
def _weights(
    rows: np.ndarray, target: np.ndarray, theta: np.ndarray, clip: float, grid: float, lanes: np.ndarray
) -> np.ndarray:
    """trunc(clip_C(target_i − rows_iᵀ theta) · grid), (m,) int64; see `add_gradient`."""
    # Unsigned indices, and a number of lanes that the compiler does not know: so the loops over lanes are vectorised,
    # with the additions of each lane in the order written here on every machine.
    d, width = np.uintp(rows.shape[1]), np.uintp(lanes.shape[0])
    flat = rows.reshape(-1)
    whole = d - d % width
    uses_theta = False
    for j in range(d):
        uses_theta |= theta[j] != 0
    weights = np.empty(rows.shape[0], dtype=np.int64)
    for i in range(np.uintp(rows.shape[0])):
        product = 0.0
        if uses_theta:
            start = i * d
            for j in range(width):
                lanes[j] = 0.0
            for k in range(np.uintp(0), whole, width):
                for j in range(width):
                    lanes[j] += flat[start + k + j] * theta[k + j]
            for j in range(d - whole):
                lanes[j] += flat[start + whole + j] * theta[whole + j]
            a = b = c = e = 0.0
            for j in range(np.uintp(0), width, np.uintp(4)):
                a += lanes[j]
                b += lanes[j + np.uintp(1)]
                c += lanes[j + np.uintp(2)]
                e += lanes[j + np.uintp(3)]
            product = (a + b) + (c + e)
        residual = target[i] - product
        if residual != residual:
            residual = 0.0
        residual = min(max(residual, -clip), clip)
        weights[i] = np.int64(residual * grid)  # towards zero
    return weights


@kernel
def add_gradient(
    rows: np.ndarray, target: np.ndarray, theta: np.ndarray, clip: float, grid: float, total: np.ndarray
) -> None:
    """total += Σ_i rows_i · trunc(clip_C(target_i − rows_iᵀ theta) · grid), in exact int64.

    `theta` is in units of the row grid.  The products are summed in sixteen lanes, joined in one fixed order.
    A residual that is not a number (theta beyond all range) counts as 0.  rows (m, d) int32, C-contiguous; a few
    hundred kilobytes of them stay in the caches between the two sweeps.
    """
    weights = _weights(rows, target, theta, clip, grid, np.empty(16))
    d, m = np.uintp(rows.shape[1]), np.uintp(rows.shape[0])
    flat = rows.reshape(-1)
    fours = m - m % np.uintp(4)
    for i in range(np.uintp(0), fours, np.uintp(4)):
        a, b, c, e = weights[i], weights[i + np.uintp(1)], weights[i + np.uintp(2)], weights[i + np.uintp(3)]
        p0 = i * d
        p1, p2, p3 = p0 + d, p0 + d + d, p0 + d + d + d
        for j in range(d):
            total[j] += (flat[p0 + j] * a + flat[p1 + j] * b) + (flat[p2 + j] * c + flat[p3 + j] * e)
    for i in range(fours, m):
        for j in range(d):
            total[j] += flat[i * d + j] * weights[i]
