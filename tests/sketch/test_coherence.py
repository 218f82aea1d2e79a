"""Coherence Δ, block by block, against the largest off-diagonal entry of the dense SᵀS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from naive import coherence as dense_coherence
from strategies import sketch_shapes

from fastdp_dask import SRHT
from fastdp_dask.sketch.coherence import coherence


@given(sketch_shapes(), st.integers(0, 9))
@example((1, 1, 1, 0), 0)
@example((2, 1, 1, 0), 0)
@example((200, 1, 1, 0), 3)
@example((200, 255, 1, 0), 3)
def test_equals_the_dense_definition_for_every_block_size(shape: tuple[int, int, int, int], log_block: int) -> None:
    n, k2, _, seed = shape
    sketch = SRHT(n, k2, seed=seed)
    expected = dense_coherence(sketch)
    # Exact integers over k2 against a sum of 2^8 rounded terms.
    assert coherence(sketch.rows, sketch.n_padded, 1 << log_block) == pytest.approx(expected, abs=1e-12)
    assert coherence(sketch.rows, sketch.n_padded, 1 << log_block) == sketch.coherence()


@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_an_orthonormal_sketch_has_none(n: int) -> None:
    sketch = SRHT(n, 1 << (n - 1).bit_length(), seed=9)
    assert sketch.coherence() == 0.0


def test_one_row_is_fully_coherent() -> None:
    assert SRHT(100, 1, seed=9).coherence() == 1.0


def test_a_subgroup_of_rows_is_fully_coherent() -> None:
    # Rows 0 … 7 of H_64 do not see bit 3: columns 0 and 8 of the sketch are equal.
    assert coherence(np.arange(8, dtype=np.int64), 64, 16) == 1.0
