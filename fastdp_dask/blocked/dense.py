"""A dense Gaussian sketch by blocks of rows: the slow way, kept to measure what the fast one saves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastdp_dask import rng
from fastdp_dask.blocked.source import native, native_target
from fastdp_dask.rows import sweep
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.blocks import pieces

BLOCK_ROWS = 512
"""Columns of S_t drawn together: k1 × 512 normals, a few MiB."""


def gaussian_chunk(
    X: np.ndarray,
    y: np.ndarray,
    first: int,
    scaling: Scaling,
    size: int,
    keys: Sequence[int],
    clip: float,
    grid: float,
) -> np.ndarray:
    """S_t X of this chunk in grid units for every key t, stacked, and last the row Σ_i x_i clip_C(y_i).

    (len(keys) · size + 1, n_columns) float64.  The columns of S_t that belong to a block of rows are a function of the
    key and of the block's index alone: the same S_t for every chunking, at the price of drawing a cut block twice.
    """
    d = scaling.n_columns
    out = np.zeros((len(keys) * size + 1, d))
    total = np.zeros(d, dtype=np.int64)
    X, y = native(X), native_target(y)
    positive = np.zeros(BLOCK_ROWS, np.uint8)
    for piece in pieces(first, first + X.shape[0], BLOCK_ROWS):
        here = slice(piece.first - first, piece.last - first)
        inside = slice(piece.first - piece.origin, piece.last - piece.origin)
        exact = np.empty((piece.last - piece.first, d))
        sweep.load(scaling, X[here], y[here], positive[: len(exact)], exact, clip, grid, total)
        for t, key in enumerate(keys):
            normals = rng.standard_normals(rng.derive_key(key, "block", piece.index), (BLOCK_ROWS, size))
            out[t * size : (t + 1) * size] += normals[inside].T @ exact
    out[-1] = total
    return out
