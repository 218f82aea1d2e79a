"""Work that is done on rows while they are in the cache gives the bits of the same work in separate sweeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdp_dask.rows import sweep
from fastdp_dask.rows.deviation import largest_deviation
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.rows.with_target import WithTarget
from fastdp_dask.sketch.blocks import Piece
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.sketch.tiles import tile_rows, transform_tiles

BLOCK = 256


def plain(n_features: int, fit_intercept: bool = True) -> Scaling:
    return declare(n_features, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2), fit_intercept=fit_intercept)


SCALINGS = {
    "1": plain(1), "15 and the intercept": plain(15), "16": plain(16, False), "16 and the intercept": plain(16),
    "37": plain(37), "1,100": plain(1100), "with target": WithTarget.of(plain(5)),
}  # fmt: skip
PLAIN = {name: scaling for name, scaling in SCALINGS.items() if scaling.plain}


def records(scaling: Scaling, count: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(count)
    X = generator.standard_normal((count, scaling.n_features)).astype(dtype)
    y = generator.standard_normal(count).astype(dtype)
    X[3::7, 0], X[5::11, -1], y[::13] = np.nan, np.inf, np.nan
    return X, y


@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
@pytest.mark.parametrize(("place", "count"), [(0, BLOCK), (0, 1), (70, 130), (255, 1), (5, 0)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_tiles_loaded_and_transformed(scaling: Scaling, place: int, count: int, dtype: Any) -> None:
    X, y = records(scaling, count, dtype)
    negative = (np.arange(count) % 3 == 1).astype(np.uint8)
    apart, together = (np.full((BLOCK, scaling.n_columns), 7, np.int32) for _ in range(2))
    totals = np.zeros((2, scaling.n_columns), np.int64)
    for tile in {tile_rows(apart), 16}:
        apart[:place], apart[place + count :] = 0, 0
        sweep.load(scaling, X, y, negative, apart[place : place + count], 1.0, 65536.0, totals[0])
        transform_tiles(apart, 0, BLOCK, tile)
        sweep.load_tiles(scaling, X, y, negative, together, place, tile, 1.0, 65536.0, totals[1])
        assert np.array_equal(together, apart)
        assert np.array_equal(*totals)


@pytest.mark.parametrize("scaling", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize(("place", "count"), [(0, BLOCK), (0, 1), (70, 130), (255, 1), (13, 3)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_deviation_of_rows_scaled_as_they_are_met(scaling: Scaling, place: int, count: int, dtype: Any) -> None:
    X, y = records(scaling, count, dtype)
    sketch = SRHT(4 * BLOCK, 64, seed=3)
    sums = np.random.default_rng(1).integers(-(2**30), 2**30, (64, scaling.n_columns))
    piece = Piece(2, 2 * BLOCK, 2 * BLOCK + place, 2 * BLOCK + place + count)
    block, room = np.empty((BLOCK, scaling.n_columns), np.int64), np.empty((count, scaling.n_columns), np.int32)
    for unit in (1.0, 4.0):
        expected = largest_deviation(sketch, sums, block, piece, unit, scaling, X, y, room)
        assert expected > 0
        assert largest_deviation(sketch, sums, block, piece, unit, scaling, X, y) == expected
