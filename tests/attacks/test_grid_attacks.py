"""Attacks on the sensitivities of the machine's own numbers: blank one record and compare, in exact integers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import chunked
from hypothesis import given
from hypothesis import strategies as st
from strategies import numbers

from fastdp_dask import SRHT
from fastdp_dask.blocked import passes
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.linalg import bounded
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare

SCALINGS = (
    declare(3, bounds_X=(-1.5, 1.0), bounds_y=(-1, 2)),
    declare(3, bounds_X=(0.0, 1.0), bounds_y=(-1, 1), groups=[[0, 1]]),
    declare(3, data_norm=0.7, bounds_y=(-1, 1), fit_intercept=False),
    declare(3, data_norm=1e-3, bounds_y=(-1e9, 1)),
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, Scaling]:
    """Hostile records, the one to blank, and a declaration."""
    n = draw(st.integers(1, 9))
    values = np.array(draw(st.lists(numbers(), min_size=4 * n, max_size=4 * n))).reshape(n, 4)
    return values[:, :3].copy(), values[:, 3].copy(), draw(st.integers(0, n - 1)), draw(st.sampled_from(SCALINGS))


def operators(X: np.ndarray, y: np.ndarray, index: int, scaling: Scaling) -> tuple[BlockedRows, BlockedRows]:
    """The two data sets of a neighbouring pair, chunked differently."""
    blank = X.copy()
    blank[index] = np.nan
    return BlockedRows(*chunked(X, y, 2), scaling), BlockedRows(*chunked(blank, y, 3), scaling)


@given(pairs(), st.integers(0, 2**64))
def test_a_sketch_moves_by_one_signed_row_of_norm_at_most_one(
    case: tuple[np.ndarray, np.ndarray, int, Scaling], seed: int
) -> None:
    X, y, index, scaling = case
    sketch = SRHT(len(X), 1 + seed % (1 << (len(X) - 1).bit_length()), seed=seed)
    (before, g), (after, h) = (rows.sketch([sketch], 1.0) for rows in operators(X, y, index, scaling))
    moved = before[0] - after[0]
    row = moved[0]
    assert sum(int(v) ** 2 for v in row) <= GRID**2  # ‖x‖ ≤ 1, in integers
    signs = np.rint(sketch.to_dense()[:, index] * np.sqrt(sketch.sketch_size)).astype(np.int64)
    np.testing.assert_array_equal(moved, np.outer(signs * signs[0], row))
    # The gradient that rides along: x clip(y), of norm at most C = 1; its grid is a power of two, so differences are
    # exact.
    assert np.linalg.norm(g - h) <= 1.0


@given(pairs(), st.integers(0, 3))
def test_a_gram_matrix_moves_by_a_square_of_norm_at_most_one(
    case: tuple[np.ndarray, np.ndarray, int, Scaling], shift: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "gram_shift", lambda n: shift)  # rows coarsened as for very many of them
        (before, _), (after, _) = (rows.gram(1.0) for rows in operators(*case))
    moved = before - after
    unit = GRID / 2.0**shift
    assert (np.rint(moved * unit**2) == moved * unit**2).all()
    x = np.sqrt(np.diag(moved)) * np.where(moved[np.argmax(np.diag(moved))] < 0, -1.0, 1.0)
    np.testing.assert_array_equal(moved, np.outer(x, x))
    assert np.trace(moved) <= 1.0


@given(pairs(), st.lists(numbers(), min_size=4, max_size=4), st.sampled_from([0.25, 1.0, 3.0]))
def test_a_gradient_moves_by_at_most_the_clip(
    case: tuple[np.ndarray, np.ndarray, int, Scaling], theta: list[float], clip: float
) -> None:
    at = bounded(np.array(theta)[: case[3].n_columns])  # what a solver may pass
    before, after = (rows.gradient(at, clip) for rows in operators(*case))
    assert np.linalg.norm(before - after) <= clip


def test_the_worst_record_comes_close_to_every_bound() -> None:
    """So that the limits above are the right ones: a record on its bounds uses all but 2^-15 of them."""
    X, y = np.array([[1.0, 1.0, 1.0], [0.2, -0.3, 0.1]]), np.array([5.0, 0.0])
    scaling = declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1))
    before, after = operators(X, y, 0, scaling)
    (gram, g), (blank, h) = before.gram(1.0), after.gram(1.0)
    assert np.trace(gram - blank) > 1 - 2.0**-14
    assert np.linalg.norm(g - h) > 1 - 2.0**-14
