"""The sum of squared residuals of scaled rows, in exact integers (no checks inside)."""

from __future__ import annotations

import numpy as np

from fastdp_dask.compiled import kernel
from fastdp_dask.rows._row_kernels import _weights


@kernel
def squared_residuals(rows: np.ndarray, target: np.ndarray, theta: np.ndarray, clip: float, grid: float) -> np.int64:
    """Σ_i trunc(clip_C(target_i − rows_iᵀ theta) · grid)², the residuals as `add_gradient` takes them.

    rows (m, d) int32, C-contiguous; `theta` in units of the row grid.
    """
    weights = _weights(rows, target, theta, clip, grid, np.empty(16))
    total = np.int64(0)
    for i in range(rows.shape[0]):
        total += weights[i] * weights[i]
    return total
