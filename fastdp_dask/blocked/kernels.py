"""What one task does with one chunk: deterministic, no side effects, exact integers out.

Each function takes a raw chunk (m, d), its targets (m, 1) and the global index of its first row.  All rows are
scaled inside, so that no scaled copy of the data ever exists as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastdp_dask.blocked.block_size import block_rows_for
from fastdp_dask.blocked.source import native, native_target
from fastdp_dask.rows import _row_kernels
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.blocks import pieces
from fastdp_dask.sketch.srht import SRHT

_ROWS_AT_ONCE = 4096  # rows of a gradient pass scaled together: stays in cache


def sketch_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, sketches: Sequence[SRHT], clip: float, grid: float
) -> np.ndarray:
    """sqrt(k2)·S_t X of this chunk for every sketch t, stacked, and last the row Σ_i x_i clip_C(y_i).

    (Σ_t k2_t + 1, n_columns) int64, in grid units (sketch rows) and grid × residual grid units (last row).
    """
    d = scaling.n_columns
    sizes = [sketch.sketch_size for sketch in sketches]
    out = np.zeros((sum(sizes) + 1, d), dtype=np.int64)
    X, y = native(X), native_target(y)
    size = block_rows_for(X.shape[0], sketches[0].n_padded) if X.shape[0] else 1
    block = np.empty((size, d), dtype=np.int32)
    rows, target = np.empty_like(block), np.empty(size)
    theta = np.zeros(d)
    for piece in pieces(first, first + X.shape[0], size):
        here = slice(piece.first - first, piece.last - first)
        inside = slice(piece.first - piece.origin, piece.last - piece.origin)
        count = piece.last - piece.first
        scaling.rows(X[here], y[here], rows[:count], target[:count])
        _row_kernels.add_gradient(rows[:count], target[:count], theta, clip, grid, out[-1])
        offset = 0
        for sketch, rows_of in zip(sketches, sizes, strict=True):
            block[: inside.start] = 0
            block[inside] = rows[:count]
            block[inside.stop :] = 0
            sketch.add_block(out[offset : offset + rows_of], block, piece.index, piece.first, count)
            offset += rows_of
    return out


def gradient_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, theta: np.ndarray, clip: float, grid: float
) -> np.ndarray:
    """Σ_i x_i clip_C(y_i − x_iᵀθ) of this chunk, (1, n_columns) int64 in grid × residual grid units."""
    out = np.zeros((1, scaling.n_columns), dtype=np.int64)
    X, y = native(X), native_target(y)
    in_grid_units = theta / GRID
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows, target = scaling.rows(X[start : start + _ROWS_AT_ONCE], y[start : start + _ROWS_AT_ONCE])
        _row_kernels.add_gradient(rows, target, in_grid_units, clip, grid, out[0])
    return out


def gram_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, clip: float, grid: float, shift: int
) -> np.ndarray:
    """XᵀX of this chunk in units of (grid · 2^-shift)², and last the row Σ_i x_i clip_C(y_i).

    (n_columns + 1, n_columns) int64.  float64 BLAS adds integers below 2^53 exactly: 4,096 rows of products ≤ 2^32
    stay below 2^44.
    """
    d = scaling.n_columns
    out = np.zeros((d + 1, d), dtype=np.int64)
    X, y = native(X), native_target(y)
    theta = np.zeros(d)
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows, target = scaling.rows(X[start : start + _ROWS_AT_ONCE], y[start : start + _ROWS_AT_ONCE])
        _row_kernels.add_gradient(rows, target, theta, clip, grid, out[-1])
        exact = np.trunc(rows / 2.0**shift)
        out[:d] += (exact.T @ exact).astype(np.int64)
    return out


def deviation_chunk(
    X: np.ndarray,
    y: np.ndarray,
    first: int,
    scaling: Scaling,
    sketches: Sequence[SRHT],
    units: Sequence[float],
    sums: np.ndarray,
) -> np.ndarray:
    """max_i ‖k2·δ_i‖² over the rows of this chunk, for every sketch: (1, number of sketches) float64, grid units.

    `sums` holds sqrt(k2)·S_t X of all sketches, stacked, in grid units (rows beyond them are ignored); it is coarsened
    by units[t] first.  Every record position counts, blank ones too.
    """
    out = np.zeros((1, len(sketches)))
    X, y = native(X), native_target(y)
    if X.shape[0] == 0:
        return out
    size = block_rows_for(X.shape[0], sketches[0].n_padded)
    block = np.empty((size, scaling.n_columns), dtype=np.int64)
    for piece in pieces(first, first + X.shape[0], size):
        here = slice(piece.first - first, piece.last - first)
        rows, _ = scaling.rows(X[here], y[here])
        offset = 0
        for t, (sketch, unit) in enumerate(zip(sketches, units, strict=True)):
            total = sums[offset : offset + sketch.sketch_size]
            offset += sketch.sketch_size
            if unit > 1:
                total = total // int(unit)
            sketch.adjoint_block(total, block, piece.index, piece.first, piece.last - piece.first)
            largest = _row_kernels.largest_deviation(
                block, unit, piece.first - piece.origin, rows, float(sketch.sketch_size)
            )
            out[0, t] = max(out[0, t], largest)
    return out
