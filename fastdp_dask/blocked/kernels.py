"""What one task does with one chunk: deterministic, no side effects, exact integers out.

Each function takes a raw chunk (m, d), its targets (m, 1) and the global index of its first row.  All rows are
scaled inside, so that no scaled copy of the data ever exists as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastdp_dask.blocked.block_size import block_rows_for
from fastdp_dask.blocked.scratch import borrow, result
from fastdp_dask.blocked.source import native, native_target
from fastdp_dask.rows import sweep
from fastdp_dask.rows.deviation import largest_deviation
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch._gather_kernels import signed_copy
from fastdp_dask.sketch.blocks import pieces
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.sketch.tiles import tile_rows, transform_tiles

_PRODUCT_ROWS = 4096
_DIGIT = 32
_ADJOINT_ROWS = 1 << 17


def sketch_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, sketches: Sequence[SRHT], clip: float, grid: float
) -> np.ndarray:
    """sqrt(k2)·S_t X of this chunk for every sketch t, stacked, and last two digit rows of Σ_i x_i clip_C(y_i).

    (Σ_t k2_t + 2, n_columns) in grid units (sketch rows); `joined_digits` turns the last two rows into grid × residual
    grid units.  int32 where m · largest entry < 2^31, so that no sum of this chunk can overflow, else int64.
    """
    d, m = scaling.n_columns, X.shape[0]
    fits = m * scaling.largest_entry < 2**31
    ends = np.cumsum([0, *(sketch.sketch_size for sketch in sketches)])
    shape, dtype = (int(ends[-1]) + 2, d), np.int32 if fits else np.int64
    if m == 0:
        return np.zeros(shape, dtype)
    out = result(shape, dtype)
    gradient = np.zeros(d, dtype=np.int64)
    X, y = native(X), native_target(y)
    padded, largest = sketches[0].n_padded, scaling.largest_entry
    size = block_rows_for(m, padded, largest=largest, first=first, gathered=int(ends[-1]))
    block = borrow("block", (size, d), np.int32)
    tile = tile_rows(block)
    for piece in pieces(first, first + m, size):
        here, place = slice(piece.first - first, piece.last - first), piece.first - piece.origin
        count = piece.last - piece.first
        add = piece.first > first
        if len(sketches) == 1:
            negative = sketches[0].sign_bits(piece.first, count)
            sweep.load_tiles(scaling, X[here], y[here], negative, block, place, tile, clip, grid, gradient)
            sketches[0].gather(out[: ends[1]], block, tile, piece.index, add=add)
            continue
        rows = borrow("rows", (count, d), np.int32)  # scaled once, and unsigned, as several sketches take them
        sweep.load(scaling, X[here], y[here], np.zeros(count, np.uint8), rows, clip, grid, gradient)
        for t, sketch in enumerate(sketches):
            block[:place] = 0
            block[place + count :] = 0
            signed_copy(block, place, rows, sketch.sign_bits(piece.first, count))
            transform_tiles(block, 0, size, tile)
            sketch.gather(out[ends[t] : ends[t + 1]], block, tile, piece.index, add=add)
    out[-2:] = split_digits(gradient)
    return out


def split_digits(number: np.ndarray) -> np.ndarray:
    """int64 (d,) as two rows (2, d) of digits in base 2^32, each within int32; sums of rows stand for sums."""
    low = number.astype(np.int32).astype(np.int64)  # the last 32 bits, signed
    return np.stack([low, (number - low) >> _DIGIT])


def joined_digits(digits: np.ndarray) -> np.ndarray:
    """int64 (d,) from a sum of rows that `split_digits` made."""
    return np.asarray(digits[0] + (digits[1] << _DIGIT))


def gradient_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, theta: np.ndarray, clip: float, grid: float
) -> np.ndarray:
    """Σ_i x_i clip_C(y_i − x_iᵀθ) of this chunk, (1, n_columns) int64 in grid × residual grid units."""
    out = np.zeros((1, scaling.n_columns), dtype=np.int64)
    X, y = native(X), native_target(y)
    sweep.add_gradient(scaling, X, y, theta / GRID, clip, grid, out[0])
    return out


def gram_chunk(
    X: np.ndarray, y: np.ndarray, first: int, scaling: Scaling, clip: float, grid: float, shift: int
) -> np.ndarray:
    """XᵀX of this chunk in units of (grid · 2^-shift)², and last the row Σ_i x_i clip_C(y_i).

    (n_columns + 1, n_columns) int64.  float64 BLAS adds integers below 2^53 exactly: 4,096 rows of products ≤ 2^32
    stay below 2^44.
    """
    d = scaling.n_columns
    out = np.zeros((d + 1, d), dtype=np.int64)
    X, y = native(X), native_target(y)
    exact = np.empty((min(_PRODUCT_ROWS, X.shape[0]), d))
    positive = np.zeros(len(exact), np.uint8)
    for start in range(0, X.shape[0], _PRODUCT_ROWS):
        here = slice(start, min(start + _PRODUCT_ROWS, X.shape[0]))
        rows = exact[: here.stop - start]
        sweep.load(scaling, X[here], y[here], positive[: len(rows)], rows, clip, grid, out[-1])
        if shift:
            np.trunc(rows / 2.0**shift, out=rows)
        out[:d] += (rows.T @ rows).astype(np.int64)
    return out


def deviation_chunk(
    X: np.ndarray,
    y: np.ndarray,
    first: int,
    scaling: Scaling,
    sketches: Sequence[SRHT],
    units: Sequence[float],
    sums: np.ndarray,
) -> np.ndarray:
    """max_i ‖k2·δ_i‖² over the rows of this chunk, for every sketch: (1, number of sketches) float64, grid units.

    `sums` holds sqrt(k2)·S_t X of all sketches, stacked, in grid units (rows beyond them are ignored); it is coarsened
    by units[t] first.  Every record position counts, blank ones too.
    """
    out = np.zeros((1, len(sketches)))
    X, y = native(X), native_target(y)
    if X.shape[0] == 0:
        return out
    ends = np.cumsum([0, *(sketch.sketch_size for sketch in sketches)])
    size = min(
        block_rows_for(X.shape[0], sketches[0].n_padded, largest=1, first=first, gathered=int(ends[-1])), _ADJOINT_ROWS
    )
    block = borrow("block", (size, scaling.n_columns), np.int64)
    for piece in pieces(first, first + X.shape[0], size):
        here, count = slice(piece.first - first, piece.last - first), piece.last - piece.first
        rows = None if scaling.plain else borrow("rows", (count, scaling.n_columns), np.int32)
        for t, (sketch, unit) in enumerate(zip(sketches, units, strict=True)):
            total = sums[ends[t] : ends[t + 1]]
            if unit > 1:
                total = total // int(unit)
            squared = largest_deviation(sketch, total, block, piece, unit, scaling, X[here], y[here], rows)
            out[0, t] = max(out[0, t], squared)
    return out
