"""Rows [x y] and dense Gaussian sketches: the same numbers for every chunking, passes counted where they belong."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pytest
from helpers import chunked
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings, real_matrix

from fastdp_dask import SRHT, rng
from fastdp_dask.blocked.dense import BLOCK_ROWS
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def setting(n: int, seed: int, **options: Any) -> tuple[np.ndarray, np.ndarray, Scaling]:
    X, y = real_matrix(n, 3, seed), real_matrix(n, 1, seed + 1)[:, 0]
    X[::7, 0] = np.nan
    y[:2] = (5.0, -5.0)[: len(y[:2])]  # on the bound: the ends of the grid
    return X, y, declare(3, bounds_y=(-1, 1), **(options or {"bounds_X": (-1, 1)}))


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.just(n), chunkings(n))), st.booleans())
@settings(max_examples=20)
def test_rows_with_their_target(case: tuple[int, tuple[int, ...]], normed: bool) -> None:
    n, rows = case
    X, y, scaling = setting(n, n, **({"data_norm": 1.0} if normed else {}))
    plain, target = scaling.rows(X, y)
    expected = np.column_stack([plain, np.clip(np.trunc(target * GRID), 1 - GRID, GRID - 1)]).astype(np.int64)
    assert ((expected**2).sum(axis=1) <= 2 * GRID**2).all()
    blocked = BlockedRows(*chunked(X, y, rows), scaling)
    joined = blocked.with_target()
    gram, _ = joined.gram(1.0)
    assert np.array_equal(gram * GRID**2, expected.T @ expected)
    sketch = SRHT(n, max(1, n // 2), seed=1)
    (sums,), _ = joined.sketch([sketch], 1.0)
    assert np.array_equal(sums, sketch.signed_sums(expected))
    (deviation,) = joined.deviation([sketch], [sums])
    away = sketch.adjoint(sketch.apply(expected / GRID)) - expected / GRID
    assert deviation == pytest.approx(np.linalg.norm(away, axis=1).max(), rel=1e-9, abs=1e-12)
    assert (blocked.n_passes, joined.n_passes) == (3, 3)
    blocked.gram(1.0)
    assert blocked.n_passes == 4


def test_dense_sketch_is_the_product_with_one_matrix_for_every_chunking() -> None:
    n, size, keys = 3 * BLOCK_ROWS + 11, 7, (5, 6)
    X, y, scaling = setting(n, 3)
    plain, target = scaling.rows(X, y)
    found = []
    for rows in (n, 100, (BLOCK_ROWS, 1, n - BLOCK_ROWS - 1)):
        blocked = BlockedRows(*chunked(X, y, rows), scaling)
        sketches, gradient = blocked.gaussian_sketch(size, keys, 1.0)
        assert blocked.n_passes == 1
        assert gradient == pytest.approx(plain.T / GRID @ np.trunc(target * 2**16) / 2**16, rel=1e-12)
        found.append(np.concatenate(sketches))
    for other in found[1:]:
        # Sums of n products in another order.
        assert other == pytest.approx(found[0], abs=1e-11)
    dense = [
        np.concatenate(
            [rng.standard_normals(rng.derive_key(key, "block", g), (BLOCK_ROWS, size)) for g in range(4)]
        )[:n]
        for key in keys
    ]
    assert found[0] == pytest.approx(np.concatenate([S.T @ plain / GRID for S in dense]), abs=1e-11)
    assert abs(np.corrcoef(dense[0][:, 0], dense[1][:, 0])[0, 1]) < 5 / np.sqrt(n)  # keys differ: false alarm 6e-7
