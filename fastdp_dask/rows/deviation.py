"""How far a sketch bends the rows of one block: max ‖k2·δ_i‖² over them."""

from __future__ import annotations

import numpy as np

from fastdp_dask.rows import _deviation_kernels, sweep
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch._joined import rows_together
from fastdp_dask.sketch.blocks import Piece
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.sketch.tiles import join_tiles


def largest_deviation(
    sketch: SRHT,
    sums: np.ndarray,
    block: np.ndarray,
    piece: Piece,
    unit: float,
    scaling: Scaling,
    X: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray | None = None,
) -> float:
    """max_i ‖unit · (sqrt(k2) Sᵀ sums)_i − k2 x_i‖² over the records of `piece`, in grid units.

    sums (k2, d) int64; block (b, d) int64, overwritten; X (m, n_features) and y (m,): the records of the piece, raw;
    rows (m, d) int32, overwritten: room for them scaled; None for plain scalings, which do without.
    """
    tile = sketch.adjoint_tiles(sums, block, piece.index)
    together = rows_together(block.shape[0], tile, block.shape[1], block.itemsize)
    if not together:
        join_tiles(block, tile)
        tile = block.shape[0]
        together = max(1, rows_together(tile, tile, block.shape[1], block.itemsize))
    first, sampled = piece.first - piece.origin, float(sketch.sketch_size)
    negative = sketch.sign_bits(piece.first, len(X))
    if rows is None:
        columns, labels = scaling.tables
        inside = sweep.inside(X, columns.shape[1])
        return float(
            _deviation_kernels.largest_deviation_of_plain(
                block, tile, together, unit, X, inside, y, columns, labels, negative, first, sampled
            )
        )
    sweep.load(scaling, X, y, negative, rows, 1.0, 1.0, np.zeros(scaling.n_columns, np.int64))
    return float(_deviation_kernels.largest_deviation(block, tile, together, unit, rows, first, sampled))
