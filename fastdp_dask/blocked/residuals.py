"""What one task does with one chunk for the sum of squared residuals."""

from __future__ import annotations

import numpy as np

from fastdp_dask.blocked.source import native, native_target
from fastdp_dask.rows import _residual_kernels
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling

_TILE_BYTES = 2**20  # scaled rows made, used and forgotten in the caches


def residual_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, theta: np.ndarray, clip: float, grid: float
) -> np.ndarray:
    """Σ_i clip_C(y_i − x_iᵀθ)² of this chunk, (1, 1) int64 in squares of residual grid units.

    Residuals are truncated towards zero.  With C ≤ 1 the sum of n squares stays below 2^62 on the grid that
    `residual_grid` gives, and below 2^63 for C up to √2.
    """
    out = np.zeros((1, 1), dtype=np.int64)
    X, y = native(X), native_target(y)
    most = min(4096, max(64, _TILE_BYTES // (4 * max(1, scaling.n_columns))))
    rows, target = np.empty((most, scaling.n_columns), dtype=np.int32), np.empty(most)
    for start in range(0, X.shape[0], most):
        part = X[start : start + most], y[start : start + most]
        made, scaled = scaling.rows(*part, rows[: len(part[0])], target[: len(part[0])])
        out[0, 0] += _residual_kernels.squared_residuals(made, scaled, theta / GRID, clip, grid)
    return out
