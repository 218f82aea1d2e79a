"""Records as rows [x y] of d + 1 grid columns, for solvers that sketch the target along with the features."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling


@dataclass(frozen=True)
class WithTarget(Scaling):
    """A `Scaling` whose rows carry the scaled target, truncated towards zero to the grid, as their last column.

    ‖[x y]‖² ≤ 2, since ‖x‖ ≤ 1 and |y| ≤ 1 on the grid.  Everything else is that of the scaling it is made of.
    """

    @classmethod
    def of(cls, scaling: Scaling) -> WithTarget:
        """The same declaration, with the target as last column."""
        parts: dict[str, Any] = {field.name: getattr(scaling, field.name) for field in fields(Scaling)}
        return cls(**parts)

    @property
    def n_columns(self) -> int:
        """d + 1."""
        return super().n_columns + 1

    @property
    def plain(self) -> bool:
        """False: the target is a column too."""
        return False

    @property
    def largest_entry(self) -> int:
        """2^q − 1: a target may fill the grid."""
        return GRID - 1

    def rows(
        self, X: np.ndarray, y: np.ndarray, out: np.ndarray | None = None, target: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grid rows [x y], (m, d + 1) int32, and scaled targets (m,) float64 in [−1, 1]."""
        columns = super().n_columns
        plain = np.empty((X.shape[0], columns), dtype=np.int32)
        target = np.empty(X.shape[0]) if target is None else target
        super().rows(X, y, plain, target)
        out = np.empty((X.shape[0], columns + 1), dtype=np.int32) if out is None else out
        out[:, :columns] = plain
        out[:, columns] = np.clip(np.trunc(target * GRID), 1 - GRID, GRID - 1)
        return out, target
