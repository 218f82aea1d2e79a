"""Rows chosen by algebra: their coherence is what the formula says, and far below that of random rows."""

from __future__ import annotations

import numpy as np
import pytest

from fastdp_dask import SRHT
from fastdp_dask.errors import ArgumentError
from fastdp_dask.rng import derive_key
from fastdp_dask.sketch import low_coherence
from fastdp_dask.sketch.coherence import coherence


@pytest.mark.parametrize("bits", range(3, 15))
@pytest.mark.parametrize("m", range(3, 13))
def test_coherence_never_exceeds_the_formula_and_attains_it_for_odd_m(bits: int, m: int) -> None:
    n_padded, size = 1 << bits, 1 << m
    if not low_coherence.fits(n_padded, size):
        assert m > bits or 2 * m < bits
        return
    rows = low_coherence.rows(derive_key(bits, m), n_padded, size)
    assert rows.shape == (size,)
    assert rows.dtype == np.int64
    assert np.all(np.diff(rows) > 0)  # distinct
    assert 0 <= rows[0] <= rows[-1] < n_padded
    exact, bound = coherence(rows, n_padded), low_coherence.coherence_bound(n_padded, size)
    assert exact <= bound
    if m % 2 and bits > m:
        assert exact == bound == np.sqrt(2 / size)


def test_far_below_random_rows() -> None:
    known = SRHT(1 << 17, 1 << 13, seed=5, design="low_coherence")
    random = SRHT(1 << 17, 1 << 13, seed=5)
    assert known.coherence() == known.coherence_bound() == 2.0**-6
    assert random.coherence_bound() == random.coherence() > 2.5 * known.coherence()


def test_the_map_is_random_and_depends_on_the_seed_alone() -> None:
    first, again, other = (SRHT(5000, 256, seed=seed, design="low_coherence").rows for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("m", range(2, 24))
def test_the_modulus_is_irreducible(m: int) -> None:
    """No polynomial of degree at most m/2 divides it (by brute force up to degree 11)."""
    modulus = low_coherence._irreducible(m)
    assert modulus.bit_length() == m + 1
    assert all(low_coherence._remainder(modulus, p) for p in range(2, 1 << (min(m // 2, 11) + 1)))


def test_products_form_a_field() -> None:
    m, random = 7, np.random.default_rng(0)
    a, b, c = (random.integers(1, 1 << m, 500, dtype=np.uint64) for _ in range(3))
    times = low_coherence._multiply
    assert np.array_equal(times(a, b, m), times(b, a, m))
    assert np.array_equal(times(times(a, b, m), c, m), times(a, times(b, c, m), m))
    assert np.array_equal(times(a, b ^ c, m), times(a, b, m) ^ times(a, c, m))
    power = a
    for _ in range(m):
        power = times(power, power, m)
    assert np.array_equal(power, a)  # a^(2^m) = a


def test_the_sketch_keeps_its_identities() -> None:
    sketch = SRHT(300, 32, seed=3, design="low_coherence")
    dense = SRHT(512, 32, seed=3, design="low_coherence").to_dense()
    assert np.allclose(dense @ dense.T, 16 * np.eye(32), atol=1e-12)
    assert np.allclose(np.linalg.norm(sketch.to_dense(), axis=0), 1.0, atol=1e-12)
    data = np.random.default_rng(1).integers(-99, 99, (300, 4))
    assert np.allclose(sketch.apply(data), sketch.to_dense() @ data, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize(("rows", "size"), [(1000, 100), (1 << 20, 512), (64, 4)])
def test_sizes_without_such_rows_are_refused(rows: int, size: int) -> None:
    with pytest.raises(ArgumentError, match=r"sketch_size must be a power of two.*got sketch_size=.*Choose"):
        SRHT(rows, size, seed=0, design="low_coherence")
