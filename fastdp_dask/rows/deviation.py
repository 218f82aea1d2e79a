"""How far a sketch bends the rows of one block: max ‖k2·δ_i‖² over them."""

from __future__ import annotations

import numpy as np

from fastdp_dask.rows._deviation_kernels import largest_deviation as measure
from fastdp_dask.sketch._joined import rows_together
from fastdp_dask.sketch.blocks import Piece
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.sketch.tiles import join_tiles


def largest_deviation(
    sketch: SRHT, sums: np.ndarray, block: np.ndarray, piece: Piece, unit: float, rows: np.ndarray
) -> float:
    """max_i ‖unit · (sqrt(k2) Sᵀ sums)_i − k2 x_i‖² over the records of `piece`, in grid units.

    sums (k2, d) int64; block (b, d) int64, overwritten; rows (m, d) int32: the scaled records of the piece times
    their signs.
    """
    tile = sketch.adjoint_tiles(sums, block, piece.index)
    together = rows_together(block.shape[0], tile, block.shape[1], block.itemsize)
    if not together:
        join_tiles(block, tile)
        tile = block.shape[0]
        together = max(1, rows_together(tile, tile, block.shape[1], block.itemsize))
    first = piece.first - piece.origin
    return float(measure(block, tile, together, unit, rows, first, float(sketch.sketch_size)))
