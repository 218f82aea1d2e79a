"""What a solver may ask of the data: the seam between the algorithms and the blocked computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.srht import SRHT


class RowOperator(Protocol):
    """Scaled rows x_i (norm ≤ 1) and targets y_i in [−1, 1]; every method is one pass over them.

    What comes back is private: only the solver sees it, and it releases noisy functions of it.
    """

    @property
    def scaling(self) -> Scaling: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def n_passes(self) -> int: ...

    def sketch(self, sketches: Sequence[SRHT], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """sqrt(k2)·S_t X in grid units, (k2, d) int64 for every sketch, and g_0 = Σ_i x_i clip_C(y_i), (d,)."""
        ...

    def deviation(self, sketches: Sequence[SRHT], sums: Sequence[np.ndarray]) -> list[float]:
        """m_t = max_i ‖row i of S_tᵀ(S_t X) − X‖ over all n record positions."""
        ...

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        """XᵀX (d, d) and g_0 (d,)."""
        ...

    def gradient(self, theta: np.ndarray, clip: float) -> np.ndarray:
        """Σ_i x_i clip_C(y_i − x_iᵀθ), (d,)."""
        ...

    def squared_residuals(self, theta: np.ndarray, clip: float) -> float:
        """Σ_i clip_C(y_i − x_iᵀθ)²."""
        ...


@runtime_checkable
class SketchedRows(RowOperator, Protocol):
    """Rows that solvers of sketched least squares can use too: with their target, or under a dense sketch."""

    def with_target(self) -> RowOperator:
        """The rows [x_i y_i], of norm² ≤ 2, as d + 1 columns, y_i on the grid too; passes are counted here."""
        ...

    def gaussian_sketch(self, size: int, keys: Sequence[int], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """S_t X, (size, d) float64, for a dense Gaussian S_t (size, n) under each key, and g_0 (d,)."""
        ...
