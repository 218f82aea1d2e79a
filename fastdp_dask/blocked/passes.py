"""The passes over the data: each one blocked map and one tree reduction of a small integer matrix.

A pass sends to every chunk a description (seeds, bounds, a coefficient vector), never rows; what comes back is one
partial of the size of the result, summed in int64, so that the result is bit for bit the same for every chunking,
scheduler, worker count and retry.  Nothing is shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np

from fastdp_dask.blocked import dense, holding, kernels, memory, placement, scratch, tree
from fastdp_dask.blocked.block_size import merged_chunks
from fastdp_dask.blocked.progress import PassProgress, silent
from fastdp_dask.blocked.residuals import residual_chunk
from fastdp_dask.blocked.waiting import computed
from fastdp_dask.rows.grid import GRID, deviation_unit, gram_shift, residual_grid
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.rows.with_target import WithTarget
from fastdp_dask.sketch.srht import SRHT


class BlockedRows:
    """A `fastdp_dask.rows.operator.RowOperator` over Dask arrays: X (n, d) in one column chunk, y (n,) chunked alike.

    Computes on the active `distributed.Client` if there is one, else on Dask's configured scheduler (threads).

    Parameters
    ----------
    X, y : dask.array.Array
        Raw data, private.  y None: zeros, for whoever sketches X alone.
    scaling : Scaling
        Declared bounds, public.
    progress : callable, optional
        Context manager factory told of each pass: see `fastdp_dask.blocked.progress`.
    persist : {"auto", True, False}, default False
        Hold the data in memory from the first pass on; "auto": where they fit with room to spare
        (`fastdp_dask.blocked.holding`).  As a context manager this object lets go of them at the end.
    expected_passes : int, default 2
        With one pass to come nothing is held.

    Attributes
    ----------
    n_passes : int
        Passes over X so far.
    """

    def __init__(
        self,
        X: da.Array,
        y: da.Array | None,
        scaling: Scaling,
        progress: PassProgress = silent,
        *,
        persist: bool | str = False,
        expected_passes: int = 2,
    ) -> None:
        self.scaling = scaling
        self.n_rows = int(X.shape[0])
        self.n_passes = 0
        self._X = X
        self._y = da.zeros(X.shape[0], chunks=(X.chunks[0],)) if y is None else y
        self._progress = progress
        self._sketched: tuple[list[np.ndarray], Any] = ([], None)
        self._counted_by: BlockedRows | None = None
        self._persist = persist if expected_passes > 1 else False
        self._lazy: tuple[da.Array, da.Array] | None = None  # what X and y were before they were held

    def __enter__(self) -> BlockedRows:
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of data and work arrays in memory; later passes read again."""
        if self._sketched[1] is not None:
            holding.release(self._sketched[1])
        if self._lazy is not None:
            holding.release(self._X, self._y)
            self._X, self._y = self._lazy
            self._lazy = None
        self._persist, self._sketched = False, ([], None)
        scratch.forget()

    def with_target(self) -> BlockedRows:
        """The rows [x_i y_i] (n, d + 1), of norm² ≤ 2; their passes are counted and reported as passes of these."""
        joined = BlockedRows(self._X, self._y, WithTarget.of(self.scaling), self._progress)
        joined._counted_by = self
        return joined

    def sketch(self, sketches: Sequence[SRHT], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """sqrt(k2)·S_t X for every sketch, (k2, d) int64 in grid units, and g_0 = Σ_i x_i clip_C(y_i), (d,).

        All sketches share one pass.  The gradient at θ = 0 rides along.  The sums stay with the workers too, where
        `deviation` finds them: a worker that loses its copy recomputes it from the graph.
        """
        sizes = [sketch.sketch_size for sketch in sketches]
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(kernels.sketch_chunk, scaling=self.scaling, sketches=tuple(sketches), clip=clip, grid=grid)
        shape = (sum(sizes) + 2, self.scaling.n_columns)
        work = partial(memory.block_work, columns=shape[1], itemsize=4, blocks=1 if len(sketches) == 1 else 2)
        total, stays = self._run("sketch", kernel, shape, np.int64, np.add, work, stay=True)
        sums = np.split(total[:-2], np.cumsum(sizes)[:-1])
        self._sketched = (sums, stays)
        return sums, kernels.joined_digits(total[-2:]) / (GRID * grid)

    def deviation(self, sketches: Sequence[SRHT], sums: Sequence[np.ndarray]) -> list[float]:
        """m_t = max over all n record positions of ‖δ_i‖, δ_i = row i of S_tᵀ(S_t X) − X, blank records included.

        `sums` are what `sketch` returned.  Integers up to the norm, which is taken in float64 in one fixed order;
        where int64 would overflow the sums are coarsened first and the bound on that error, sqrt(d)·unit/2^q, is
        added.  So m is never below the truth by more than 1e-12 of itself.
        """
        units = tuple(deviation_unit(self.n_rows, sketch.sketch_size) for sketch in sketches)
        kernel = partial(kernels.deviation_chunk, scaling=self.scaling, sketches=tuple(sketches), units=units)
        if len(sums) == len(self._sketched[0]) and all(a is b for a, b in zip(sums, self._sketched[0], strict=True)):
            stays = self._sketched[1]
        else:
            stays = da.from_array(np.concatenate(sums), chunks=(-1, -1))
        given = 16 * sum(total.size for total in sums)  # the sums, and a coarsened copy

        def work(chunk_rows: int) -> int:
            # int64, and int32 rows where they are not scaled as they are met
            return given + memory.block_work(chunk_rows, self.scaling.n_columns, 8 if self.scaling.plain else 12)

        squares, _ = self._run(
            "deviation", kernel, (1, len(sketches)), np.float64, np.maximum, work, sums=dask.delayed(np.asarray)(stays)
        )
        self._sketched = ([], None)
        slack = np.sqrt(self.scaling.n_columns) / GRID
        return [
            float(np.sqrt(square)) / (sketch.sketch_size * GRID) + (slack * unit if unit > 1 else 0.0)
            for square, sketch, unit in zip(squares[0], sketches, units, strict=True)
        ]

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        """XᵀX (d, d) and g_0 = Σ_i x_i clip_C(y_i) (d,), of the scaled rows."""
        shift, grid = gram_shift(self.n_rows), residual_grid(self.n_rows, clip)
        kernel = partial(kernels.gram_chunk, scaling=self.scaling, clip=clip, grid=grid, shift=shift)
        total, _ = self._run("gram", kernel, (self.scaling.n_columns + 1, self.scaling.n_columns), np.int64, np.add)
        unit = GRID / 2.0**shift
        return total[:-1] / unit**2, total[-1] / (GRID * grid)

    def gaussian_sketch(self, size: int, keys: Sequence[int], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """S_t X, (size, d) float64, for a dense standard normal S_t (size, n) under each key, and g_0 (d,).

        Float sums: equal up to rounding, not bit for bit, for other chunkings.
        """
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(dense.gaussian_chunk, scaling=self.scaling, size=size, keys=tuple(keys), clip=clip, grid=grid)
        shape = (len(keys) * size + 1, self.scaling.n_columns)
        total, _ = self._run("Gaussian sketch", kernel, shape, np.float64, np.add)
        return np.split(total[:-1] / GRID, len(keys)), total[-1] / (GRID * grid)

    def gradient(self, theta: np.ndarray, clip: float) -> np.ndarray:
        """Σ_i x_i clip_C(y_i − x_iᵀθ), (d,), of the scaled rows; its sensitivity is at most C."""
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(kernels.gradient_chunk, scaling=self.scaling, theta=theta, clip=clip, grid=grid)
        total, _ = self._run("gradient", kernel, (1, self.scaling.n_columns), np.int64, np.add)
        return total[0] / (GRID * grid)

    def squared_residuals(self, theta: np.ndarray, clip: float) -> float:
        """Σ_i clip_C(y_i − x_iᵀθ)² of the scaled rows; blanking a record moves it by at most C²."""
        grid = residual_grid(self.n_rows, clip)
        kernel = partial(residual_chunk, scaling=self.scaling, theta=theta, clip=clip, grid=grid)
        total, _ = self._run("residual", kernel, (1, 1), np.int64, np.add)
        return float(total[0, 0]) / grid**2

    # -- one pass --------------------------------------------------------------------------------------------

    def _run(
        self,
        name: str,
        kernel: Callable[..., np.ndarray],
        shape: tuple[int, int],
        dtype: Any,
        combine: np.ufunc,
        work: Callable[[int], int] | None = None,
        *,
        stay: bool = False,
        **shared: Any,
    ) -> tuple[np.ndarray, Any]:
        """The result of one pass, (rows, columns), and the same as a Dask array that stays with the workers if asked.

        `work` gives the bytes that the kernel works in, from the rows of the longest chunk; `shared` are Delayed
        values that every chunk gets.

        Raises
        ------
        MemoryLimitError
            If the pass cannot fit the workers of the active client; nothing has been read then.
        """
        X, y = self._merged(shape[0] * shape[1] * self._partial_itemsize(dtype))
        longest = max(X.chunks[0])
        projected = memory.project(
            chunk_rows=longest, n_features=self.scaling.n_features, itemsize=X.dtype.itemsize,
            merged=X is not self._X, shape=shape, partial_itemsize=self._partial_itemsize(dtype),
            work=memory.tile_work(self.scaling.n_columns) if work is None else work(longest),
        )  # fmt: skip
        memory.check(name, projected)
        if self._hold(projected):
            X, y = self._merged(shape[0] * shape[1] * self._partial_itemsize(dtype))
        counted = self if self._counted_by is None else self._counted_by
        self.n_passes += 1
        if counted is not self:
            counted.n_passes += 1
        n_chunks = X.numblocks[0]
        total, stays = None, None
        for number, part in enumerate(tree.parts(X, y, kernel, shape, dtype, combine, shared), start=1):
            title = name if part.n_chunks == n_chunks else f"{name}, part {number}"
            near = placement.side_by_side(part.n_chunks, part.lazy)
            with self._progress(title, counted.n_passes, part.n_rows, part.n_chunks), near:
                if stay:
                    (stays,) = dask.persist(part.lazy if stays is None else combine(stays, part.lazy))
                    total = computed(stays)
                else:
                    found = computed(part.lazy)
                    total = found if total is None else combine(total, found)
        assert total is not None
        return total, stays

    def _hold(self, projected: memory.PassMemory) -> bool:
        """Take the data into memory at the first pass, if that is asked for and possible; whether it was done now."""
        wanted, self._persist = self._persist, False
        if not wanted or (wanted == "auto" and not holding.fits(self._X.nbytes + self._y.nbytes, projected)):
            return False
        self._lazy = (self._X, self._y)
        with placement.side_by_side(self._X.numblocks[0], self._X, self._y):
            self._X, self._y = dask.persist(self._X, self._y)
        return True

    def _partial_itemsize(self, dtype: Any) -> int:
        """Bytes of a number in a chunk's partial: a sketch of int64 totals is made in int32 where no sum overflows."""
        narrow = np.dtype(dtype) == np.int64 and max(self._X.chunks[0]) * self.scaling.largest_entry < 2**31
        return 4 if narrow else np.dtype(dtype).itemsize

    def _merged(self, partial_bytes: int) -> tuple[da.Array, da.Array]:
        row_bytes = self._X.shape[1] * self._X.dtype.itemsize
        chunks = merged_chunks(self._X.chunks[0], row_bytes, partial_bytes)
        if chunks == self._X.chunks[0]:
            return self._X, self._y
        return self._X.rechunk({0: chunks}), self._y.rechunk({0: chunks})
