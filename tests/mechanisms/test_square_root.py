"""The root that a mixing release multiplies: right for every positive semi-definite matrix, an error for none."""

from __future__ import annotations

import numpy as np
import pytest

from fastdp_dask.linalg import square_root


@pytest.mark.parametrize("rank", [0, 1, 5, 8])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_every_matrix_has_a_root(rank: int, scale: float) -> None:
    """Relative to the largest entry: rounding of an 8 × 8 product."""
    rows = np.random.default_rng(rank).standard_normal((rank, 8))
    gram = scale * (rows.T @ rows)
    root = square_root(gram)
    np.testing.assert_allclose(root @ root.T, gram, atol=1e-13 * scale)


def test_a_matrix_that_is_not_quite_positive_has_a_root_too() -> None:
    gram = np.diag([1.0, 1e-17, -1e-17])  # what rounding leaves of a singular matrix
    root = square_root(gram)
    np.testing.assert_allclose(root @ root.T, gram, atol=1e-16)
