"""The transform of a block in two steps, so that a tile of rows can be made and transformed while it is in the cache.

H_b = (H_{b/t} ⊗ I_t)(I_{b/t} ⊗ H_t): first each tile of t rows by itself, then all tiles together.
"""

from __future__ import annotations

import numpy as np

from fastdp_dask.compiled import kernel
from fastdp_dask.sketch._fwht_kernels import _all_stages, _high_sweeps, _low_rows


def tile_rows(block: np.ndarray) -> int:
    """t, a power of two that divides b: a tile fits the second-level cache."""
    rows, columns = block.shape
    return int(_tile_rows(np.uintp(rows), np.uintp(max(1, columns)), np.uintp(block.itemsize)))


def transform_tiles(block: np.ndarray, start: int, stop: int, tile: int) -> None:
    """Each tile between rows `start` and `stop` of `block` := H_t times it."""
    _transform_tiles(block, np.uintp(start), np.uintp(stop), np.uintp(tile))


@kernel
def _transform_tiles(block: np.ndarray, start: int, stop: int, tile: int) -> None:
    columns = np.uintp(block.shape[1])
    flat = block.reshape(-1)
    for row in range(start, stop, tile):
        _all_stages(flat, row * columns, tile, columns)


def join_tiles(block: np.ndarray, tile: int) -> None:
    """block := (H_{b/t} ⊗ I_t) block: what is left of H_b after every tile has been transformed."""
    rows, columns = block.shape
    _join_tiles(block.reshape(-1), np.uintp(rows), np.uintp(tile), np.uintp(columns))


@kernel
def _join_tiles(flat: np.ndarray, rows: int, tile: int, columns: int) -> None:
    _high_sweeps(flat, rows, tile, columns)


@kernel
def _tile_rows(rows: int, columns: int, itemsize: int) -> int:
    return _low_rows(rows, columns, itemsize)
