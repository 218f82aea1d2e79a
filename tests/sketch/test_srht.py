"""The blocked SRHT against its dense definition."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naive import dense_srht
from strategies import real_matrix, sketch_shapes

from fastdp_dask import SRHT
from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError

# A float64 sum of n ≤ 2^8 terms of size ≤ 1 in any order is within n·2^-53 < 1e-13 of the exact one, relative
# to the sum of absolute values.
RELATIVE = 1e-12


def close(a: np.ndarray, b: np.ndarray, size: int) -> bool:
    return bool(np.abs(a - b).max(initial=0.0) <= RELATIVE * size)


@given(sketch_shapes())
@example((1, 1, 1, 0))
@example((3, 4, 2, 5))  # k2 = N
def test_dense_form_is_the_definition(shape: tuple[int, int, int, int]) -> None:
    n, k2, _, seed = shape
    sketch = SRHT(n, k2, seed=seed)
    assert sketch.n_padded == 1 << (n - 1).bit_length()
    assert close(sketch.to_dense(), dense_srht(sketch)[:, :n], 1)


@given(sketch_shapes(), st.integers(0, 9))
@example((1, 1, 1, 0), 3)
@example((200, 256, 3, 1), 2)  # k2 > b: every offset repeats
@example((129, 256, 3, 1), 8)  # one block, 127 rows short
def test_blocks_give_the_dense_product_and_its_adjoint(shape: tuple[int, int, int, int], log_block: int) -> None:
    n, k2, d, seed = shape
    sketch = SRHT(n, k2, block_rows=1 << log_block, seed=seed)
    dense = sketch.to_dense()
    X = real_matrix(n, d, seed)
    assert close(sketch.apply(X), dense @ X, n)
    Z = real_matrix(k2, d, seed + 1)
    assert close(sketch.adjoint(Z), dense.T @ Z, k2)


@given(sketch_shapes(), st.integers(0, 9))
def test_integers_are_exact_and_independent_of_the_block_size(shape: tuple[int, int, int, int], log_block: int) -> None:
    n, k2, d, seed = shape
    X = np.random.default_rng(seed % 2**64).integers(-(2**16), 2**16, (n, d))
    signs = np.rint(SRHT(n, k2, seed=seed).to_dense() * math.sqrt(k2)).astype(np.int64)
    sums = SRHT(n, k2, block_rows=1 << log_block, seed=seed).signed_sums(X)
    assert sums.dtype == np.int64
    assert np.array_equal(sums, signs @ X)


@given(sketch_shapes())
@example((1, 1, 1, 0))
@example((200, 256, 3, 1))
def test_columns_have_norm_one_and_rows_are_orthogonal(shape: tuple[int, int, int, int]) -> None:
    n, k2, _, seed = shape
    padded = SRHT(1 << (n - 1).bit_length(), k2, seed=seed)
    dense = padded.to_dense()
    size = padded.n_padded
    assert close((dense**2).sum(axis=0), np.ones(size), 1)
    assert close(dense @ dense.T, size / k2 * np.eye(k2), size)


def test_a_row_has_the_same_sign_and_place_for_every_n_of_the_same_size() -> None:
    long, short = SRHT(256, 40, seed=3), SRHT(200, 40, seed=3)
    assert np.array_equal(long.to_dense()[:, :200], short.to_dense())


def test_small_types_are_widened_before_any_sum() -> None:
    X = np.full((100, 2), 100, dtype=np.int8)
    sketch = SRHT(100, 64, seed=1)
    expected = sketch.apply(X.astype(float))
    assert np.abs(expected).max() > 127 / 8  # sums that int8 could not hold
    assert close(sketch.apply(X), expected, 100 * 100)
    flags = np.ones((100, 1), dtype=bool)
    assert close(sketch.apply(flags), sketch.apply(flags.astype(float)), 100)


def test_seed_decides_everything_and_travels_in_a_pickle() -> None:
    one, other = SRHT(500, 100, seed=1), SRHT(500, 100, seed=2)
    assert not np.array_equal(one.rows, other.rows)
    assert not np.array_equal(one.sign_bits(0, 500), other.sign_bits(0, 500))
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert np.array_equal(copy.to_dense(), one.to_dense())
    assert len(pickle.dumps(SRHT(10**6, 10**5, seed=1))) < 1000  # a description, not the rows


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"n_rows": 0}, "n_rows"),
        ({"n_rows": 2.5}, "n_rows"),
        ({"sketch_size": 0}, "sketch_size"),
        ({"sketch_size": 129}, "sketch_size"),
        ({"sketch_size": True}, "sketch_size"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**128}, "seed"),
        ({"seed": "x"}, "seed"),
        ({"block_rows": 3}, "block_rows"),
        ({"block_rows": 0}, "block_rows"),
        ({"block_rows": "8"}, "block_rows"),
        ({"block_rows": 1000}, "block_rows"),  # no power of two, although larger than N
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{named} must be .*got .*\. \w"):
        SRHT(**{"n_rows": 100, "sketch_size": 10, "seed": 1, **arguments})


def test_bad_arrays_are_refused() -> None:
    sketch = SRHT(4, 2, seed=0)
    for shape in [(3, 2), (4,), (4, 1, 1)]:
        with pytest.raises(DataShapeError, match="n_rows=4"):
            sketch.apply(np.zeros(shape))
    with pytest.raises(DataTypeError, match="complex"):
        sketch.apply(np.zeros((4, 1), dtype=complex))
