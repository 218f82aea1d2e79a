"""The passes for y of several columns: X is read once, its sketch or Gram matrix is made once, gradients for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from fastdp_dask.blocked import kernels, memory
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.progress import PassProgress, silent
from fastdp_dask.rows.grid import GRID, gram_shift, residual_grid
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.rows.targets import whole_records
from fastdp_dask.sketch.srht import SRHT


class SeveralTargets(BlockedRows):
    """`BlockedRows` with y (n, t): gradients are matrices (d, t), column j that of target j alone.

    Parameters
    ----------
    X, y : dask.array.Array
        (n, d) and (n, t), each in one column chunk.
    scalings : sequence of t Scaling
        Alike but for y.
    progress, **options
        As in `BlockedRows`.

    Notes
    -----
    Blanking one record moves the gradient matrix by x rᵀ, ‖x rᵀ‖_F ≤ ‖r‖ ≤ C sqrt(t).  A record without one of its
    targets is blank for all.
    """

    def __init__(
        self, X: da.Array, y: da.Array, scalings: Sequence[Scaling], progress: PassProgress = silent, **options: Any
    ) -> None:
        super().__init__(X, y, scalings[0], progress, **options)
        self.scalings = tuple(scalings)

    def sketch(self, sketches: Sequence[SRHT], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """As `BlockedRows.sketch`, with g_0 (d, t)."""
        sizes = [sketch.sketch_size for sketch in sketches]
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(_sketch_chunk, scalings=self.scalings, sketches=tuple(sketches), clip=clip, grid=grid)
        shape = (sum(sizes) + 2 * self._count, self.scaling.n_columns)
        work = partial(memory.block_work, columns=shape[1], itemsize=4, blocks=1 if len(sketches) == 1 else 2)
        total, stays = super()._run("sketch", kernel, shape, np.int64, np.add, work, stay=True)
        sums = np.split(total[: sum(sizes)], np.cumsum(sizes)[:-1])
        self._sketched = (sums, stays)
        digits = total[sum(sizes) :].reshape(self._count, 2, -1)
        return sums, np.stack([kernels.joined_digits(pair) for pair in digits], axis=1) / (GRID * grid)

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        """As `BlockedRows.gram`, with g_0 (d, t)."""
        shift, grid, d = gram_shift(self.n_rows), residual_grid(self.n_rows, clip), self.scaling.n_columns
        kernel = partial(_gram_chunk, scalings=self.scalings, clip=clip, grid=grid, shift=shift)
        total, _ = super()._run("gram", kernel, (d + self._count, d), np.int64, np.add)
        unit = GRID / 2.0**shift
        return total[:d] / unit**2, total[d:].T / (GRID * grid)

    def gradient(self, theta: np.ndarray, clip: float) -> np.ndarray:
        """Σ_i x_i clip_C(y_ij − x_iᵀθ_j) in column j, (d, t), for θ (d, t)."""
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(_gradient_chunk, scalings=self.scalings, theta=theta, clip=clip, grid=grid)
        total, _ = super()._run("gradient", kernel, (self._count, self.scaling.n_columns), np.int64, np.add)
        return total.T / (GRID * grid)

    @property
    def _count(self) -> int:
        return len(self.scalings)

    def _run(self, name: str, kernel: Callable[..., np.ndarray], *args: Any, **kwargs: Any) -> tuple[np.ndarray, Any]:
        """A pass of `BlockedRows` that needs y only to know which records are blank."""
        return super()._run(name, partial(_of_records, kernel=kernel), *args, **kwargs)


def blocked_rows(
    X: da.Array, y: da.Array, scalings: Sequence[Scaling], progress: PassProgress = silent, **options: Any
) -> BlockedRows:
    """The rows of a fit: for one target `BlockedRows`, for several `SeveralTargets`."""
    if len(scalings) == 1:
        return BlockedRows(X, y, scalings[0], progress, **options)
    return SeveralTargets(X, y, scalings, progress, **options)


def _of_records(
    X: np.ndarray, y: np.ndarray, first: int, kernel: Callable[..., np.ndarray], **shared: Any
) -> np.ndarray:
    return kernel(X, whole_records(y)[:, :1], first, **shared)


def _sketch_chunk(
    X: np.ndarray,
    y: np.ndarray,
    first: int,
    scalings: Sequence[Scaling],
    sketches: Sequence[SRHT],
    clip: float,
    grid: float,
) -> np.ndarray:
    """`kernels.sketch_chunk` of the first target, and two digit rows of the first gradient of each other one."""
    y = whole_records(y)
    made = kernels.sketch_chunk(X, y[:, :1], first, scalings[0], sketches, clip, grid)
    others = [kernels.split_digits(row) for row in _others(X, y, first, scalings, clip, grid)]
    return np.concatenate([made, *(pair.astype(made.dtype) for pair in others)])


def _gram_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scalings: Sequence[Scaling], clip: float, grid: float, shift: int
) -> np.ndarray:
    """`kernels.gram_chunk` of the first target, and a row for the first gradient of each other one."""
    y = whole_records(y)
    made = kernels.gram_chunk(X, y[:, :1], first, scalings[0], clip, grid, shift)
    return np.concatenate([made, _others(X, y, first, scalings, clip, grid)])


def _others(
    X: np.ndarray, y: np.ndarray, first: int, scalings: Sequence[Scaling], clip: float, grid: float
) -> np.ndarray:
    theta = np.zeros((scalings[0].n_columns, len(scalings) - 1))
    return _gradient_chunk(X, y[:, 1:], first, scalings[1:], theta, clip, grid)


def _gradient_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scalings: Sequence[Scaling], theta: np.ndarray, clip: float, grid: float
) -> np.ndarray:
    """One row of `kernels.gradient_chunk` for each target, (t, n_columns) int64."""
    y = whole_records(y)
    rows = [
        kernels.gradient_chunk(X, y[:, j : j + 1], first, scaling, np.ascontiguousarray(theta[:, j]), clip, grid)
        for j, scaling in enumerate(scalings)
    ]
    return np.concatenate(rows)
