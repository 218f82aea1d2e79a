"""A block made of several tiles: the transform in two steps, and passes whose blocks are that large."""

from __future__ import annotations

import math
from typing import Any

import dask
import numpy as np
import pytest
from helpers import chunked

from fastdp_dask import SRHT, fwht
from fastdp_dask.blocked import kernels
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import declare
from fastdp_dask.sketch.tiles import join_tiles, tile_rows, transform_tiles


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_tiles_and_then_their_join_are_the_transform(dtype: Any) -> None:
    block = np.random.default_rng(0).integers(-1000, 1000, (8192, 65)).astype(dtype)
    expected = fwht(block)
    tile = tile_rows(block)
    assert 1 < tile < 8192
    transform_tiles(block, 0, 4096, tile)
    transform_tiles(block, 4096, 8192, tile)
    join_tiles(block, tile)
    assert np.array_equal(block, expected)


@pytest.mark.parametrize("chunks", [(20_000,), (12_000, 7_999, 1), (16_384, 3_616)])
@pytest.mark.parametrize("norm", [None, 1.0])
def test_passes_over_large_blocks_are_exact(chunks: tuple[int, ...], norm: float | None) -> None:
    # With a norm the entries are larger, so that int32 allows blocks of half the size, and sums of a chunk need int64.
    n, d = 20_000, 40
    generator = np.random.default_rng(1)
    X, y = generator.uniform(-1, 1, (n, d)), generator.uniform(-1, 1, n)
    X[::9] = np.nan
    bounds: dict[str, Any] = {"bounds_X": (-1, 1)} if norm is None else {"data_norm": norm}
    scaling = declare(d, bounds_y=(-1, 1), **bounds)
    exact, target = scaling.rows(X, y)
    assert np.abs(exact).max() <= scaling.largest_entry
    sketches = [SRHT(n, 300, seed=3), SRHT(n, 31, seed=4)]
    for used in (sketches, sketches[:1]):
        blocked = BlockedRows(*chunked(X, y, chunks), scaling)
        with dask.config.set(scheduler="synchronous"):
            sums, gradient = blocked.sketch(used, 1.0)
            deviations = blocked.deviation(used, sums)
        weights = np.trunc(target * 2.0**16).astype(np.int64)
        assert np.array_equal(gradient, exact.astype(np.int64).T @ weights / (GRID * 2.0**16))
        for sketch, total, deviation in zip(used, sums, deviations, strict=True):
            signs = np.rint(sketch.to_dense() * math.sqrt(sketch.sketch_size))
            assert np.array_equal(total, np.rint(signs @ exact).astype(np.int64))
            # Integers below 2^53 and one norm: the same number but for the rounding of that norm.
            difference = signs.T @ total.astype(np.float64) - sketch.sketch_size * exact.astype(np.float64)
            expected = math.sqrt((difference**2).sum(axis=1).max()) / (sketch.sketch_size * GRID)
            assert deviation == pytest.approx(expected, rel=1e-12)


def test_partials_are_narrow_only_where_no_sum_can_overflow() -> None:
    d = 1
    scaling = declare(d, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    assert scaling.largest_entry == GRID - 1
    sketch = SRHT(1 << 16, 1 << 16, seed=0)  # every row is sampled, so one sum has all signs right
    signs = 1.0 - 2.0 * sketch.sign_bits(0, 1 << 16)
    for m, dtype in ((1 << 15, np.int32), (1 << 16, np.int64)):
        found = kernels.sketch_chunk(signs[:m, None], np.zeros(m), 0, scaling, [sketch], 1.0, 65536.0)
        assert found.dtype == dtype
        assert int(found[:-2].max()) == m * (GRID - 1)
