"""Rows used as they are scaled give the bits of rows that are scaled first and used then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import numbers

from fastdp_dask.rows import _plain_kernels, _row_kernels, sweep
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.rows.with_target import WithTarget


def apart(scaling: Scaling, X: Any, y: Any, theta: Any, clip: float, grid: float) -> tuple[np.ndarray, np.ndarray]:
    rows, target = scaling.rows(X, y)
    total = np.zeros(scaling.n_columns, dtype=np.int64)
    _row_kernels.add_gradient(rows, target, theta, clip, grid, total)
    return rows, total


def check(scaling: Scaling, X: Any, y: Any, theta: Any, clip: float, grid: float) -> None:
    negative = (np.arange(len(X)) % 3 == 1).astype(np.uint8)
    rows, at_zero = apart(scaling, X, y, np.zeros(scaling.n_columns), clip, grid)
    _, expected = apart(scaling, X, y, theta, clip, grid)
    found = np.ones(scaling.n_columns, dtype=np.int64)  # added to
    sweep.add_gradient(scaling, X, y, theta, clip, grid, found)
    assert np.array_equal(found - 1, expected)
    for dtype in (np.int32, np.int64, np.float64):
        out, total = np.full(rows.shape, 7, dtype), np.ones(scaling.n_columns, dtype=np.int64)
        sweep.load(scaling, X, y, negative, out, clip, grid, total)
        assert np.array_equal(out, np.where(negative[:, None], -rows, rows))
        assert np.array_equal(total - 1, at_zero)


SCALINGS = {
    "plain": declare(17, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2)),
    "sixteen columns and the intercept": declare(16, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2)),
    "fifteen and the intercept": declare(15, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2)),
    "sixteen columns": declare(16, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2), fit_intercept=False),
    "through the origin": declare(17, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2), fit_intercept=False),
    "groups": declare(17, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2), groups=[[0, 1, 2], [5, 9]]),
    "norm": declare(17, data_norm=2.0, bounds_y=(-1, 2)),
    "with target": WithTarget.of(declare(17, bounds_X=(-1.0, 0.3), bounds_y=(-1, 2))),
}


@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_one_sweep_gives_the_bits_of_two(scaling: Scaling, dtype: str) -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((9003, 17)).astype(dtype)  # two flushes of 4,096 rows, and three rows of a four
    y = generator.standard_normal(9003)
    X[::11, 3], X[5::13, 16], X[2::17, 0], y[::19] = np.nan, np.inf, -np.inf, np.nan
    X[1, 1] = np.finfo(dtype).max
    X = np.ascontiguousarray(X[:, : scaling.n_features])
    theta = generator.standard_normal(scaling.n_columns) / 2**16
    for count in (9003, 1, 2, 3, 4, 0):
        check(scaling, X[:count], y[:count], theta, 1.0, 65536.0)
    check(scaling, X, y, theta, 700.0, 65536.0)  # beyond what one sweep can sum exactly
    for bad in (np.inf, np.nan, 1e300):
        theta[0] = bad
        check(scaling, X[:50], y[:50], theta, 1.0, 65536.0)


@given(st.lists(st.lists(numbers(), min_size=3, max_size=3), min_size=1, max_size=9))
@example([[1.7e308, -1.7e308, 1.0]] * 5)
@example([[5e-324, -0.0, 1e-320]])
def test_any_record_is_scaled_alike(records: list[list[float]]) -> None:
    data = np.array(records)
    scaling = declare(2, bounds_X=([-1.0, -0.25], [1.0, 0.3]), bounds_y=(-1, 1))
    X, y = np.ascontiguousarray(data[:, :2]), np.ascontiguousarray(data[:, 2])
    check(scaling, X, y, np.array([0.3, -1.0, 0.1]) / 2**16, 1.0, 65536.0)


def test_sums_of_the_largest_rows_and_weights_are_exact() -> None:
    scaling = declare(1, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    X, y = np.ones((10_000, 1)), np.ones(10_000)
    total = np.zeros(1, dtype=np.int64)
    grid = _plain_kernels.LARGEST_WEIGHT
    sweep.add_gradient(scaling, X, y, np.zeros(1), 1.0, grid, total)
    assert total[0] == 10_000 * 65535 * int(grid)
