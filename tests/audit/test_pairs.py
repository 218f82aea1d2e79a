"""The pairs are neighbours, keep their declaration, and have the extreme that each is made for."""

from __future__ import annotations

import numpy as np
import pytest

from fastdp_dask.audit import pairs
from fastdp_dask.audit.pairs import Pair
from fastdp_dask.sketch.srht import SRHT

SKETCH = SRHT(64, 8, seed=3)
PAIRS = [
    pairs.rank_one(4, 2),
    pairs.weakest_direction(9.3),
    pairs.aligned_with(SKETCH, 3.0),
    pairs.clipped_residual()[0],
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_neighbours_differ_in_one_whole_record(pair: Pair) -> None:
    (X, y), (Xb, yb) = pair.sides
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    assert np.abs(y).max() <= 1
    assert np.linalg.norm(X[0]) == pytest.approx(1.0)
    assert not Xb[0].any()
    assert yb[0] == 0
    np.testing.assert_array_equal(X[1:], Xb[1:])
    np.testing.assert_array_equal(y[1:], yb[1:])


def test_energy_of_the_weakest_direction() -> None:
    pair = pairs.weakest_direction(9.3)
    gram, blank = (side.gram(1.0)[0] for side in pair.rows())
    # Rows are truncated to multiples of 2^-16: about 3 · 2^-16 of each of 160 rows at most.
    np.testing.assert_allclose(np.linalg.eigvalsh(gram), [9.3, 8 * 9.3, 8 * 9.3], atol=0.01)
    assert np.linalg.eigvalsh(blank)[0] == pytest.approx(8.3, abs=0.01)


def test_rows_aligned_with_the_sketch_have_the_deviation_asked_for() -> None:
    for wanted, least in ((0.5, 0.5), (3.0, 3.0), (1e9, 4.0)):
        side = pairs.aligned_with(SKETCH, wanted).rows()[0]
        sums, _ = side.sketch([SKETCH], 1.0)
        dense = SKETCH.to_dense()
        X = pairs.aligned_with(SKETCH, wanted).X
        row_zero = np.linalg.norm((dense.T @ (dense @ X) - X)[0])
        assert row_zero >= least * 0.999
        assert side.deviation([SKETCH], sums)[0] >= row_zero * 0.999


def test_the_clipped_record_moves_the_gradient_by_c() -> None:
    pair, theta = pairs.clipped_residual()
    here, there = (side.gradient(theta, 1.0) for side in pair.rows())
    assert np.linalg.norm(here - there) == pytest.approx(1.0, abs=1e-3)
    loose = [side.gradient(theta, 1e3) for side in pair.rows()]
    assert np.linalg.norm(loose[0] - loose[1]) == pytest.approx(4.0, abs=1e-3)
    assert np.linalg.norm(loose[1]) > 1.0
