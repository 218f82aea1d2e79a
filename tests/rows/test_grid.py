"""The public constants of the grid: nothing overflows, for any n."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.rows.grid import (
    GRID,
    GRID_BITS,
    MAX_BLOCK_ROWS,
    deviation_unit,
    entry_limit,
    gram_shift,
    residual_grid,
)

SIZES = st.integers(1, 2**45)


@given(st.integers(1, 10**6))
def test_entries_are_as_large_as_the_norm_allows(parts: int) -> None:
    limit = entry_limit(parts)
    assert parts * limit**2 <= GRID**2
    assert limit == GRID - 1 or parts * (limit + 1) ** 2 > GRID**2


def test_a_block_transform_fits_int32() -> None:
    assert MAX_BLOCK_ROWS * (GRID - 1) < 2**31


@given(SIZES, st.floats(0.01, 100))
def test_a_sum_of_gradients_fits_int64(n: int, clip: float) -> None:
    grid = residual_grid(n, clip)
    assert grid <= 2**16
    assert n * GRID * max(clip, 1.0) * grid <= 2**63


@given(SIZES)
def test_a_gram_matrix_fits_int64(n: int) -> None:
    assert n * 2 ** (2 * (GRID_BITS - gram_shift(n))) <= 2**63
    assert n > 2**30 or gram_shift(n) == 0


@given(SIZES, st.integers(1, 2**30))
def test_the_adjoint_fits_int64(n: int, k2: int) -> None:
    assert n * k2 * GRID / deviation_unit(n, k2) <= 2**63
