"""The transform of a block in two steps, so that a tile of rows can be made and transformed while it is in the cache.

H_b = (H_{b/t} ⊗ I_t)(I_{b/t} ⊗ H_t): first each tile of t rows by itself, then all tiles together.
"""

from __future__ import annotations

import numpy as np

from fastdp_dask.sketch._fwht_kernels import _all_stages, _high_sweeps, _low_rows


def tile_rows(block: np.ndarray) -> int:
    """t, a power of two that divides b: a tile fits the second-level cache."""
    rows, columns = block.shape
    return int(_low_rows(np.uintp(rows), np.uintp(max(1, columns)), np.uintp(block.itemsize)))


def transform_tile(block: np.ndarray, start: int, tile: int) -> None:
    """Rows start … start + t − 1 of `block` := H_t times them."""
    columns = block.shape[1]
    _all_stages(block.reshape(-1), np.uintp(start * columns), np.uintp(tile), np.uintp(columns))


def join_tiles(block: np.ndarray, tile: int) -> None:
    """block := (H_{b/t} ⊗ I_t) block: what is left of H_b after every tile has been transformed."""
    rows, columns = block.shape
    _high_sweeps(block.reshape(-1), np.uintp(rows), np.uintp(tile), np.uintp(columns))
