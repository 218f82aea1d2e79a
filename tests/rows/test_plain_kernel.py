"""The fast kernel for bounds without groups gives the bits of the general one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import numbers

from fastdp_dask.rows import _row_kernels
from fastdp_dask.rows.grid import GRID, entry_limit
from fastdp_dask.rows.scaling import declare


@given(st.lists(st.lists(numbers(), min_size=3, max_size=3), min_size=1, max_size=5), st.booleans())
@example([[1.7e308, -1.7e308, 1.0]], True)
@example([[math.nextafter(1.0, 2.0), math.nextafter(-0.25, -1.0), 5e-324]], False)
def test_clipping_after_scaling_gives_the_bits_of_clipping_before(records: list[list[float]], intercept: bool) -> None:
    scaling = declare(2, bounds_X=([-1.0, -0.25], [1.0, 0.3]), bounds_y=(-1, 1), fit_intercept=intercept)
    data = np.array(records)
    X, y = np.ascontiguousarray(data[:, :2]), np.ascontiguousarray(data[:, 2])
    rows, target = np.empty((len(X), scaling.n_columns), dtype=np.int32), np.empty(len(X))
    limit = entry_limit(scaling.parts)
    _row_kernels.scale_bounded(
        X, y, scaling.lower, scaling.upper, scaling.center, GRID / math.sqrt(scaling.parts) / scaling.half,
        scaling.group, 0, limit, limit if intercept else 0, *scaling.y_bounds, scaling.y_center, 1 / scaling.y_half,
        rows, target,
    )  # fmt: skip
    found, found_target = scaling.rows(X, y)
    assert np.array_equal(found, rows)
    assert np.array_equal(found_target, target)


def dotted(row: np.ndarray, theta: np.ndarray) -> float:
    """The documented order: sixteen lanes, then four, then one."""
    lanes = np.zeros(16)
    for start in range(0, len(row), 16):
        part = row[start : start + 16] * theta[start : start + 16]
        lanes[: len(part)] += part
    a, b, c, e = (lanes[k::4] for k in range(4))
    sums = []
    for lane in (a, b, c, e):
        total = 0.0
        for value in lane:
            total += value
        sums.append(total)
    return float((sums[0] + sums[1]) + (sums[2] + sums[3]))


@pytest.mark.parametrize("d", [1, 15, 16, 17, 65])
def test_residuals_are_summed_in_the_documented_order(d: int) -> None:
    generator = np.random.default_rng(d)
    rows = generator.integers(-GRID, GRID, (7, d)).astype(np.int32)
    target, theta = generator.uniform(-1, 1, 7), generator.standard_normal(d) / GRID
    expected: Any = np.zeros(d, dtype=np.int64)
    grid = 2.0**40  # fine enough to show the last bits of a residual
    for row, label in zip(rows, target, strict=True):
        expected += row * np.int64(min(max(label - dotted(row, theta), -1.0), 1.0) * grid)
    found = np.zeros(d, dtype=np.int64)
    _row_kernels.add_gradient(rows, target, theta, 1.0, grid, found)
    assert np.array_equal(found, expected)
