"""Every pass, over random chunkings, against its dense definition: exact for integers, bounded elsewhere."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import naive
import numpy as np
import pytest
from helpers import chunked, untouchable
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import chunkings, real_matrix, sketch_shapes

from fastdp_dask import SRHT
from fastdp_dask.blocked import tree as tree_module
from fastdp_dask.blocked.block_size import block_rows_for, merged_chunks
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.source import as_blocks
from fastdp_dask.rows.grid import GRID, MAX_BLOCK_ROWS
from fastdp_dask.rows.scaling import Scaling, declare

CLIP = 1.0


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def setting(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, Scaling]:
    X = real_matrix(n, d, seed)
    y = real_matrix(n, 1, seed + 1)[:, 0]
    X[::7, 0] = np.nan  # blank records
    return X, y, declare(d, bounds_X=(-1, 1), bounds_y=(-1, 1))


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, int, int, int], tuple[int, ...]]:
    shape = draw(sketch_shapes())
    return shape, draw(chunkings(shape[0]))


class Unmerged(BlockedRows):
    """Every chunk by itself, empty ones too."""

    def _merged(self, partial_bytes: int) -> tuple[da.Array, da.Array]:
        return self._X, self._y


SPECIAL = [
    ((1, 1, 1, 0), (1,)),
    ((5, 8, 2, 1), (0, 5, 0)),  # k2 = N, empty chunks
    ((200, 256, 3, 1), (1,) * 200),  # chunks of one row; k2 far above the block size
    ((200, 30, 3, 1), (37, 1, 0, 99, 63)),
]


def with_examples(test: Any) -> Any:
    for special in SPECIAL:
        test = example(special)(test)
    return given(cases())(test)


@with_examples
def test_sketch_is_exactly_the_dense_product(case: Any) -> None:
    (n, k2, d, seed), rows = case
    X, y, scaling = setting(n, d, seed)
    exact, target = scaling.rows(X, y)
    sketches = [SRHT(n, k2, seed=seed), SRHT(n, max(1, k2 // 2), seed=seed ^ 1)]
    for merge in (True, False):
        blocked = (BlockedRows if merge else Unmerged)(*chunked(X, y, rows), scaling)
        sums, gradient = blocked.sketch(sketches, CLIP)
        for sketch, total in zip(sketches, sums, strict=True):
            signs = np.rint(sketch.to_dense() * math.sqrt(sketch.sketch_size)).astype(np.int64)
            assert total.dtype == np.int64
            assert np.array_equal(total, signs @ exact)
        assert_gradient(gradient, exact / GRID, target, np.zeros(scaling.n_columns))
        assert blocked.n_passes == 1


@with_examples
def test_deviation_counts_every_record_position(case: Any) -> None:
    (n, k2, d, seed), rows = case
    X, y, scaling = setting(n, d, seed)
    exact, _ = scaling.rows(X, y)
    sketches = [SRHT(n, k2, seed=seed), SRHT(n, max(1, k2 // 2), seed=seed ^ 1)]
    blocked = BlockedRows(*chunked(X, y, rows), scaling)
    sums, _ = blocked.sketch(sketches, CLIP)
    found = blocked.deviation(sketches, sums)
    expected = [naive.deviation(sketch, exact / GRID) for sketch in sketches]
    # Exact integers and one float64 norm here; sums of n rounded terms of size ≤ 1 in the twin.
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12 * n)
    if k2 == sketches[0].n_padded:
        assert found[0] == 0.0


def test_deviation_is_largest_at_a_blank_record() -> None:
    # One record x = e_1 and blanks: ‖δ_i‖ = |(SᵀS)_i0|·‖x‖ for i ≠ 0 and δ_0 = 0.
    X, y = np.full((50, 1), np.nan), np.zeros(50)
    X[0] = 1.0
    scaling = declare(1, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    sketch = SRHT(50, 10, seed=4)
    blocked = BlockedRows(*chunked(X, y, 16), scaling)
    sums, _ = blocked.sketch([sketch], CLIP)
    norm = scaling.rows(X, y)[0][0, 0] / GRID
    expected = np.abs(sketch.to_dense().T @ sketch.to_dense())[1:, 0].max() * norm
    assert blocked.deviation([sketch], sums)[0] == pytest.approx(expected, rel=1e-12)


@with_examples
def test_gram_and_gradient(case: Any) -> None:
    (n, _, d, seed), rows = case
    X, y, scaling = setting(n, d, seed)
    exact, target = scaling.rows(X, y)
    blocked = BlockedRows(*chunked(X, y, rows), scaling)
    gram, first = blocked.gram(CLIP)
    assert np.array_equal(gram, exact.astype(np.int64).T @ exact.astype(np.int64) / GRID**2)
    assert_gradient(first, exact / GRID, target, np.zeros(scaling.n_columns))
    theta = np.linspace(-2, 3, scaling.n_columns)
    found = blocked.gradient(theta, CLIP)
    assert_gradient(found, exact / GRID, target, theta)
    assert found.tobytes() == BlockedRows(*chunked(X, y, n), scaling).gradient(theta, CLIP).tobytes()


def assert_gradient(found: np.ndarray, X: np.ndarray, y: np.ndarray, theta: np.ndarray) -> None:
    """A residual is truncated to multiples of 2^-16: each column is within 2^-16 Σ|x_ij| of the definition."""
    allowed = np.abs(X).sum(axis=0) / 2**16 + 1e-12
    assert (np.abs(found - naive.gradient(X, y, theta, CLIP)) <= allowed).all()


def test_gradient_survives_coefficients_beyond_all_range() -> None:
    X, y, scaling = setting(20, 2, 0)
    blocked = BlockedRows(*chunked(X, y, 7), scaling)
    for theta in ([1e100, -1e100, 1e100], [np.inf, -np.inf, 0.0], [np.nan, 0.0, 0.0]):
        assert np.isfinite(blocked.gradient(np.array(theta), CLIP)).all()


def test_a_clip_above_one_keeps_its_sensitivity() -> None:
    X, y = np.ones((1, 1)), np.ones(1)
    scaling = declare(1, bounds_X=(-1, 1), bounds_y=(-1, 1))
    found = BlockedRows(*chunked(X, y, 1), scaling).gradient(np.array([-100.0, -100.0]), 2.5)
    assert 2.4999 < np.linalg.norm(found) <= 2.5


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", ">i4", "u8", "f2", ">f4", "f4", ">f8", "g"])
def test_small_and_foreign_types_sum_exactly(dtype: str) -> None:
    # A Gram matrix of int8 in its own arithmetic would wrap to 64 here instead of 40,000.
    X = np.full((4, 1), 100 if dtype != "?" else 1, dtype=dtype)
    scaling = declare(1, bounds_X=(0, float(X[0, 0])), bounds_y=(-1, 1), fit_intercept=False)
    gram, gradient = BlockedRows(*chunked(X, np.ones(4, dtype=dtype), 3), scaling).gram(CLIP)
    entry = 65535 / 65536  # the grid's largest
    assert gram[0, 0] == 4 * entry**2
    assert gradient[0] == 4 * entry


def test_nothing_is_computed_before_a_pass_and_meta_is_never_called() -> None:
    scaling = declare(2, bounds_X=(-1, 1), bounds_y=(-1, 1))
    blocked = BlockedRows(untouchable((30, 2)), untouchable((30,)), scaling)
    assert blocked.n_passes == 0
    with pytest.raises(AssertionError, match="data was read"):
        blocked.gradient(np.zeros(3), CLIP)


def test_a_pass_is_a_tree_with_partials_of_the_size_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    fold = tree_module.fold

    def watched(blocks: Any, axis: Any = None, keepdims: bool = True, *, combine: np.ufunc) -> np.ndarray:
        parts = list(tree_module.flatten(blocks))
        assert {part.shape for part in parts} == {(1, 3)}
        folded.append(len(parts))
        return fold(blocks, axis, keepdims, combine=combine)

    monkeypatch.setattr(tree_module, "fold", watched)
    X, y, scaling = setting(100, 2, 0)
    blocked = Unmerged(*chunked(X, y, 1), scaling)
    blocked.gradient(np.zeros(3), CLIP)
    assert max(folded) <= 8
    assert sum(folded) >= 100


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 10**4), st.integers(1, 10**9))
def test_merging_keeps_the_rows_and_bounds_the_chunk(sizes: list[int], row_bytes: int, partial: int) -> None:
    chunks = tuple(sizes)
    merged = merged_chunks(chunks, row_bytes, partial)
    assert sum(merged) == sum(chunks)
    assert set(np.cumsum(merged)) <= set(np.cumsum(chunks))  # edges of chunks only: nothing is cut
    wanted = max(1, min(partial, 256 * 2**20) // row_bytes)
    assert max(merged) <= max(2 * wanted, *chunks, 1)
    assert all(a + b > wanted for a, b in pairwise(merged))


@given(st.integers(0, 10**9), st.integers(0, 40))
def test_block_size_fits_the_transform(rows: int, log_padded: int) -> None:
    size = block_rows_for(rows, 1 << log_padded)
    assert size & (size - 1) == 0
    assert 1 <= size <= min(MAX_BLOCK_ROWS, 1 << log_padded)
    assert size * (GRID - 1) < 2**31


def test_columns_in_several_chunks_are_joined_with_a_warning() -> None:
    X, y, scaling = setting(60, 3, 2)
    split = da.from_array(X, chunks=(20, 2))
    with pytest.warns(UserWarning, match="X is chunked along its columns"):
        features, target, _ = as_blocks(split, y)
    assert target is not None
    found = BlockedRows(features, target, scaling).gram(CLIP)[0]
    assert np.array_equal(found, BlockedRows(*chunked(X, y, 60), scaling).gram(CLIP)[0])
