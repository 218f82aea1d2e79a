"""The public map from records to grid rows: what it is, that it bounds every norm, and its way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naive import exact_normed_row, exact_row
from strategies import numbers

from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare


@st.composite
def declarations(draw: st.DrawFn) -> tuple[Scaling, dict[str, Any]]:
    """A scaling by bounds with disjoint groups, and what it was declared from."""
    d = draw(st.integers(1, 5))
    lower = draw(st.lists(st.floats(-1e3, 1e3), min_size=d, max_size=d))
    upper = [low + draw(st.floats(1e-2, 1e3)) for low in lower]
    labels = draw(st.lists(st.integers(0, 2), min_size=d, max_size=d))  # 0: no group
    groups = [[j for j in range(d) if labels[j] == k] for k in (1, 2)]
    facts = {
        "lower": lower, "upper": upper, "groups": [g for g in groups if g],
        "fit_intercept": draw(st.booleans()),
    }  # fmt: skip
    scaling = declare(
        d,
        bounds_X=(lower, upper),
        groups=facts["groups"],
        bounds_y=(-2.0, 6.0),
        fit_intercept=facts["fit_intercept"],
    )
    return scaling, facts


def records(scaling: Scaling, facts: dict[str, Any]) -> st.SearchStrategy[list[list[float]]]:
    """A few records: hostile, inside, or exactly on the bounds; indicators in steps of 1/8."""
    member = {column for group in facts.get("groups", ()) for column in group}
    columns = []
    for j in range(scaling.n_features):
        low, high = float(scaling.lower[j]), float(scaling.upper[j])
        inside = st.integers(-4, 12).map(lambda k: k / 8) if j in member else st.floats(low, high)
        columns.append(st.sampled_from([low, high]) | inside | numbers())
    return st.lists(st.tuples(*columns, numbers() | st.floats(-2, 6)).map(list), min_size=1, max_size=5)


def squared_norms(rows: np.ndarray) -> list[int]:
    return [sum(int(entry) ** 2 for entry in row) for row in rows]  # Python integers: no overflow


@given(st.data())
def test_bounds_rows_are_the_documented_map_and_at_most_one_long(data: st.DataObject) -> None:
    scaling, facts = data.draw(declarations())
    batch = np.array(data.draw(records(scaling, facts)))
    X, y = np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, -1])
    rows, target = scaling.rows(X, y)
    assert rows.dtype == np.int32
    assert max(squared_norms(rows)) <= 2**32
    for i in range(len(X)):
        # Truncation towards zero loses less than one unit; float64 against rationals far less than another.
        exact = np.array(exact_row(X[i].tolist(), float(y[i]), **facts))
        assert (np.abs(rows[i]) <= np.abs(exact) + 1e-3).all()
        assert (np.abs(rows[i] - exact) < 1.0 + 1e-3).all()
        usable = np.isfinite(batch[i]).all()
        assert target[i] == pytest.approx((min(max(y[i], -2), 6) - y_center(facts)) / y_half(facts) if usable else 0)
        assert -1 <= target[i] <= 1
        for group in facts["groups"]:
            assert np.count_nonzero(rows[i, group]) <= 1


def y_center(facts: dict[str, Any]) -> float:
    return 2.0 if facts["fit_intercept"] else 0.0


def y_half(facts: dict[str, Any]) -> float:
    return 4.0 if facts["fit_intercept"] else 6.0


@given(st.integers(1, 6), st.sampled_from([1.0, 3.7, 1e-140, 1e140]), st.booleans(), st.data())
@example(2, 1.0, True, None)
def test_normed_rows_are_the_documented_map_and_at_most_one_long(
    d: int, radius: float, fit_intercept: bool, data: Any
) -> None:
    scaling = declare(d, data_norm=radius, bounds_y=(-1, 1), fit_intercept=fit_intercept)
    if data is None:
        batch = np.array([[0.6, 0.8, 0.0], [1.0, 0.0, 0.0], [-1e308, 1e308, 1.0], [5e-324, 0.0, 1.0]])
    else:
        entry = numbers() | st.floats(-2 * radius, 2 * radius) | st.sampled_from([radius, -radius])
        size = {"min_size": d + 1, "max_size": d + 1}
        batch = np.array(data.draw(st.lists(st.lists(entry, **size), min_size=1, max_size=5)))
    X, y = np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, -1])
    rows, _ = scaling.rows(X, y)
    assert max(squared_norms(rows)) <= 2**32
    for i in range(len(X)):
        exact = np.array(exact_normed_row(X[i].tolist(), float(y[i]), radius, fit_intercept))
        assert (np.abs(rows[i] - exact) < 1.0 + 1e-3).all()


@pytest.mark.parametrize("d", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_longest_rows_of_all_stay_within_one(d: int, fit_intercept: bool, dtype: type) -> None:
    corner = np.where(np.arange(d) % 2, 1e30, -1e30).astype(dtype)[None, :].repeat(40, axis=0)
    rim = np.random.default_rng(d).standard_normal((40, d))
    rim = (rim / np.linalg.norm(rim, axis=1, keepdims=True)).astype(dtype)  # rounded to either side of one
    for X in (corner, rim, rim * dtype(2), np.sign(rim)):
        for options in ({"bounds_X": (-1, 1)}, {"data_norm": 1.0}):
            scaling = declare(d, bounds_y=(0, 1), fit_intercept=fit_intercept, **options)
            rows, _ = scaling.rows(X, np.ones(40))
            norms = squared_norms(rows)
            assert np.abs(rows).max() <= GRID - 1  # what a block transform in int32 has room for
            assert max(norms) <= 2**32
    assert max(norms) > 0.99 * 2**32  # and the bound is not loose


@given(st.data())
def test_a_row_does_not_see_its_neighbours(data: st.DataObject) -> None:
    scaling, facts = data.draw(declarations())
    batch = np.array(data.draw(records(scaling, facts)))
    X, y = np.ascontiguousarray(batch[:, :-1]), np.ascontiguousarray(batch[:, -1])
    rows, target = scaling.rows(X, y)
    for i in range(len(X)):
        alone, label = scaling.rows(X[i : i + 1], y[i : i + 1])
        assert np.array_equal(alone[0], rows[i])
        assert label[0] == target[i]
    backwards, labels = scaling.rows(np.ascontiguousarray(X[::-1]), np.ascontiguousarray(y[::-1]))
    assert np.array_equal(backwards[::-1], rows)
    assert np.array_equal(labels[::-1], target)


def test_any_non_finite_entry_blanks_the_record_intercept_included() -> None:
    X, y = np.ones((8, 2)), np.ones(8)
    X[0, 0] = X[1, 1] = np.nan
    X[2, 0], X[3, 1] = np.inf, -np.inf
    y[4], y[5], y[6] = np.nan, np.inf, -np.inf
    for options in ({"bounds_X": (-1, 1)}, {"data_norm": 1.0}):
        rows, target = declare(2, bounds_y=(-1, 1), **options).rows(X, y)
        assert not rows[:7].any()
        assert not target[:7].any()
        assert rows[7].all()


def test_one_record_counts_no_more_than_its_clipped_self() -> None:
    X, y = np.array([[1e6, -1e6, 0.25]]), np.array([1e6])
    scaling = declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1))
    rows, target = scaling.rows(X, y)
    clipped, label = scaling.rows(np.clip(X, -1, 1), np.clip(y, -1, 1))
    assert np.array_equal(rows, clipped)
    assert np.array_equal(target, label)


def test_a_violated_group_keeps_its_largest_entry() -> None:
    scaling = declare(4, bounds_X=(0, 1), groups=[[1, 2, 3]], bounds_y=(0, 1), fit_intercept=False)
    X = np.array([[0, 1, 1, 1], [0, 0.25, 1, 0.5], [0, -5, 0, 7], [0, 0, 0, 0], [1, 0.5, 0.25, 0]], dtype=float)
    rows, _ = scaling.rows(X, np.zeros(5))
    full = int(GRID / np.sqrt(2))
    assert rows.tolist() == [
        [0, full, 0, 0], [0, 0, full, 0], [0, 0, 0, full], [0, 0, 0, 0], [full, full // 2, 0, 0],
    ]  # fmt: skip


@given(st.data())
def test_coefficients_return_to_the_users_units(data: st.DataObject) -> None:
    """Prediction by grid rows and by mapped coefficients differ by the truncation alone: Σ|θ_j|·2^-16."""
    scaling, facts = data.draw(declarations())
    theta = np.array(data.draw(st.lists(st.floats(-10, 10), min_size=scaling.n_columns, max_size=scaling.n_columns)))
    generator = np.random.default_rng(1)
    X = generator.uniform(scaling.lower, scaling.upper, (20, scaling.n_features))
    for group in facts["groups"]:
        X[:, group] = np.eye(len(group) + 1)[generator.integers(0, len(group) + 1, 20)][:, : len(group)]
    slope, intercept = scaling.to_user(theta)
    by_rows = y_center(facts) + y_half(facts) * (scaling.rows(X, np.zeros(20))[0] / GRID @ theta)
    allowed = y_half(facts) * np.abs(theta).sum() / GRID + 1e-9
    assert (np.abs(X @ slope + intercept - by_rows) <= allowed).all()


@pytest.mark.parametrize("options", [{"bounds_X": ([-3, 10, 0], [5, 30, 1e-3])}, {"data_norm": 40.0}])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_noiseless_fit_finds_the_true_coefficients(options: dict[str, Any], fit_intercept: bool) -> None:
    generator = np.random.default_rng(2)
    X = generator.uniform([-3, 10, 0], [5, 30, 1e-3], (4000, 3))
    scale = np.array([1, 1, 1e-3])
    true, shift = np.array([2.0, -0.5, 30.0]), 7.0 * fit_intercept
    scaling = declare(3, bounds_y=(-40, 40), fit_intercept=fit_intercept, **options)
    rows, target = scaling.rows(X, X @ true + shift)
    slope, intercept = scaling.to_user(np.linalg.lstsq(rows / GRID, target, rcond=None)[0])
    if "data_norm" in options:  # a column a thousandth wide next to a norm of 40 is below the grid
        slope, true = slope[:2], true[:2]
        scale = scale[:2]
    # Truncation is an error in the variables of relative size 2^-16·c: well below 1 % of each effect.
    assert np.abs((slope - true) * scale).max() < 0.01
    assert abs(intercept - shift) < 0.05
    if not fit_intercept:
        assert intercept == 0.0


def test_bounds_are_copied_and_may_be_lists_tuples_arrays_or_scalars() -> None:
    lower, upper = np.zeros(2), np.ones(2)
    scaling = declare(2, bounds_X=(lower, upper), bounds_y=[0, 1])
    lower[:] = -9
    assert scaling.lower.tolist() == [0, 0]
    for other in ([0, 1], (0, 1), [[0, 0], [1, 1]], (0, [1, 1]), np.array([0, 1])):
        assert declare(2, bounds_X=other, bounds_y=np.array([0, 1])).to_dict() == scaling.to_dict()
