"""Random streams by name and index."""

from __future__ import annotations

import numpy as np

from fastdp_dask import SRHT, rng


def test_a_hundred_thousand_streams_are_all_different() -> None:
    """Keys by index never collide, unlike seeds drawn from 32 bits (dask#719: 44 % at 50,000 chunks)."""
    keys = {rng.derive_key(5, "block", index) for index in range(100_000)}
    assert len(keys) == 100_000
    assert len({rng.derive_key(seed, "block", 0) for seed in range(10_000)} & keys) == 1  # that of seed 5


def test_a_row_keeps_its_column_of_the_sketch_when_rows_follow() -> None:
    """One row more, or any other chunking, leaves the sketch of a given row as it is (dask#1684)."""
    first, second = (SRHT(n, 16, seed=9).to_dense() for n in (900, 901))
    assert np.array_equal(first, second[:, :900])
