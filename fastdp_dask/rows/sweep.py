"""Scaled rows put to use as they are made: summed into a gradient, or loaded into a block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastdp_dask.rows import _plain_kernels, _row_kernels
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.tiles import transform_tiles

TILE_BYTES = 2**20
"""Scaled rows made, used and forgotten in the caches; much smaller runs of them cost calls."""


def add_gradient(
    scaling: Scaling, X: np.ndarray, y: np.ndarray, theta: np.ndarray, clip: float, grid: float, total: np.ndarray
) -> None:
    """total += Σ_i x_i · trunc(clip_C(y_i − x_iᵀ theta) · grid), exact (n_columns,) int64; x_i scaled, on the grid.

    X (m, n_features) and y (m,) as in `Scaling.rows`; `theta` (n_columns,) is in units of the row grid.
    """
    if _in_one_sweep(scaling, clip, grid):
        columns, labels = scaling.tables
        padded = np.zeros(columns.shape[1])
        padded[: theta.size] = theta
        _plain_kernels.gradient(X, inside(X, columns.shape[1]), y, columns, labels, padded, clip, grid, total)
        return
    for here, rows, target in tiles(scaling, X.shape[0]):
        scaling.rows(X[here], y[here], rows, target)
        _row_kernels.add_gradient(rows, target, theta, clip, grid, total)


def load(
    scaling: Scaling,
    X: np.ndarray,
    y: np.ndarray,
    negative: np.ndarray,
    out: np.ndarray,
    clip: float,
    grid: float,
    total: np.ndarray,
) -> None:
    """out_i := −x_i where negative[i] is 1, else x_i; total += Σ_i x_i · trunc(clip_C(y_i) · grid), exact int64.

    out (m, n_columns) int32, int64 or float64, C-contiguous; negative (m,) uint8.  The rest as in `add_gradient`.
    """
    if _in_one_sweep(scaling, clip, grid):
        columns, labels = scaling.tables
        _plain_kernels.load(X, inside(X, columns.shape[1]), y, columns, labels, negative, clip, grid, out, total)
        return
    none = np.zeros(scaling.n_columns)
    for here, rows, target in tiles(scaling, X.shape[0]):
        scaling.rows(X[here], y[here], rows, target)
        _row_kernels.add_gradient(rows, target, none, clip, grid, total)
        np.multiply(rows, 1 - 2 * negative[here, None].astype(np.int32), out=out[here])


def load_tiles(
    scaling: Scaling,
    X: np.ndarray,
    y: np.ndarray,
    negative: np.ndarray,
    block: np.ndarray,
    place: int,
    tile: int,
    clip: float,
    grid: float,
    total: np.ndarray,
) -> None:
    """As `load` into rows place, place + 1, … of `block` (b, n_columns) int32, with zeros elsewhere; then every tile of
    `tile` rows is transformed.
    """
    if _in_one_sweep(scaling, clip, grid):
        columns, labels = scaling.tables
        bits = inside(X, columns.shape[1])
        _plain_kernels.load_tiles(X, bits, y, columns, labels, negative, clip, grid, block, place, tile, total)
        return
    block[:place] = 0
    block[place + len(X) :] = 0
    load(scaling, X, y, negative, block[place : place + len(X)], clip, grid, total)
    transform_tiles(block, 0, len(block), tile)


def tiles(scaling: Scaling, count: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Runs of `count` rows, and memory for them and their targets scaled, the same each time."""
    most = min(4096, max(64, TILE_BYTES // (4 * max(1, scaling.n_columns))))
    rows, target = np.empty((most, scaling.n_columns), dtype=np.int32), np.empty(most)
    for start in range(0, count, most):
        stop = min(start + most, count)
        yield slice(start, stop), rows[: stop - start], target[: stop - start]


def _in_one_sweep(scaling: Scaling, clip: float, grid: float) -> bool:
    return scaling.plain and clip * grid <= _plain_kernels.LARGEST_WEIGHT


def inside(X: np.ndarray, width: int) -> np.ndarray:
    """All bits of a number but its sign, as an integer of its size, for each column; then 0 up to `width`."""
    bits = np.zeros(width, np.int32 if X.itemsize == 4 else np.int64)
    bits[: X.shape[1]] = 2 ** (8 * X.itemsize - 1) - 1
    return bits
