"""The floors on beta: against small dense sketches, adversarial data and 50-digit arithmetic."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from privacy_oracles import assert_just_above
from scipy.linalg import hadamard

from fastdp_dask.errors import ArgumentError, CalibrationError
from fastdp_dask.privacy import (
    beta_free,
    beta_leverage,
    beta_public,
    choose_floor,
    coherence_bound_public,
    coherence_bound_uniform,
    leverage_bound,
)


def dense_srht(rng: np.random.Generator, n: int, k2: int) -> np.ndarray:
    rows = rng.choice(n, k2, replace=False)
    return hadamard(n)[rows] * rng.choice([-1.0, 1.0], n) / math.sqrt(k2)


def nuclear(sigma: np.ndarray, x: np.ndarray, delta: np.ndarray) -> float:
    root = np.linalg.inv(np.linalg.cholesky(sigma))
    change = np.outer(x, x) + np.outer(delta, x) + np.outer(x, delta)
    return float(np.abs(np.linalg.eigvalsh(root @ change @ root.T)).sum())


def data_sets(rng: np.random.Generator, sketch: np.ndarray, n: int, d: int) -> list[np.ndarray]:
    """Row norms at most one: random, collinear, sparse, and aligned by sign with one row of SᵀS (the worst
    for m)."""
    random = rng.normal(size=(n, d))
    collinear = np.outer(np.ones(n), rng.normal(size=d))
    sparse = np.where(rng.random((n, 1)) < 0.05, random, 0.0)
    aligned = np.outer(np.sign((sketch.T @ sketch)[3] + 1e-12), rng.normal(size=d))
    found = []
    for x in (random, collinear, sparse, aligned):
        norms = np.linalg.norm(x, axis=1, keepdims=True)
        found.append(x / np.where(norms > 0, norms, 1.0))
    return found


def test_public_routes_against_fifty_digits() -> None:
    for n, k2, delta in ((2**20, 2**15, 1e-12), (2**33, 2**18, 1e-9), (8, 4, 0.5), (2**40, 1, 1e-300)):
        with mp.workdps(60):
            truth = mp.sqrt(mp.mpf(n) / k2 - 1) * mp.sqrt(2 * mp.log(2 / mp.mpf(delta)))
        assert_just_above(coherence_bound_public(n, k2, delta), truth)
    assert coherence_bound_public(1024, 1024, 1e-9) == 0.0
    for gamma in (0.5, 1.0, 112.4, 1e6, 1e12):
        with mp.workdps(60):
            g = mp.mpf(gamma)
            assert_just_above(beta_public(gamma, 3.7), g * (1 + 2 * mp.mpf(3.7)))
            assert_just_above(beta_free(gamma), (g + mp.sqrt(g**2 + g)) ** 2)
            for q in (1e-9, 0.013, 0.9):
                assert_just_above(beta_leverage(gamma, q), (g * mp.mpf(q) + mp.sqrt((g * mp.mpf(q)) ** 2 + g)) ** 2)


@pytest.mark.parametrize("chi", [0.02, 0.3, 0.5, 0.97])
def test_leverage_arithmetic_against_fifty_digits(chi: float) -> None:
    for n, d, k2, first, second in ((2**20, 32, 2**17, 3e-13, 2e-13), (2**33, 200, 2**20, 1e-12, 1e-14)):
        bound, failure = leverage_bound(n, d, k2, 0.0146, first, second, chi)
        with mp.workdps(60):
            b, c, x = mp.mpf(first), mp.mpf(second), mp.mpf(chi)
            truth = mp.mpf(0.0146) * (mp.sqrt(d) + mp.sqrt(8 * mp.log(1 / b))) / mp.sqrt(1 - x)
            spread = (mp.sqrt(d) + mp.sqrt(8 * mp.log(n / c))) ** 2 / k2
            chance = b + c + d * (mp.exp(-x) / (1 - x) ** (1 - x)) ** (1 / spread)
        assert_just_above(bound, truth)
        # The exponent, up to 50 here, carries a deliberate 2**-30 towards safety.
        assert_just_above(failure, chance, relative=1e-6)


def test_betas_give_exactly_the_level() -> None:
    """At the returned beta the bound on N is 1/gamma, from below and closely."""
    for gamma in (1.1, 30.0, 1e5):
        for q in (1e-6, 0.2, 1.0):
            beta = beta_free(gamma) if q == 1.0 else beta_leverage(gamma, q)
            level = 1 / beta + 2 * q / math.sqrt(beta)
            assert (1 - 1e-9) / gamma < level <= (1 + 1e-15) / gamma


def test_free_route_holds_for_every_sketch_and_all_data() -> None:
    rng = np.random.default_rng(3)
    worst = 0.0
    for trial in range(60):
        n, d = 64, int(rng.integers(1, 6))
        sketch = dense_srht(rng, n, int(rng.choice([4, 16, 64])))
        if trial % 3 == 0:  # any unit columns will do
            sketch = rng.normal(size=sketch.shape) ** 3
            sketch /= np.linalg.norm(sketch, axis=0)
        for x in data_sets(rng, sketch, n, d):
            z = sketch @ x
            for beta in 10 ** rng.uniform(-1, 4, 3):
                eta2 = max(0.0, beta - np.linalg.eigvalsh(z.T @ z)[0])
                sigma = z.T @ z + eta2 * np.eye(d)
                bound = 1 / beta + 2 / math.sqrt(beta)
                for i in (3, int(rng.integers(n))):
                    delta = x.T @ (sketch.T @ sketch[:, i]) - x[i]
                    blank = z - np.outer(sketch[:, i], x[i])
                    floor = max(0.0, beta - np.linalg.eigvalsh(blank.T @ blank)[0])
                    at_blank = blank.T @ blank + floor * np.eye(d)
                    for covariance in (sigma, at_blank):
                        ratio = nuclear(covariance, x[i], delta) / bound
                        worst = max(worst, ratio)
                        assert ratio <= 1 + 1e-9
    assert worst > 0.5


def test_public_route_holds_for_fresh_signs() -> None:
    """Data fixed first, 4 sets x 60 fresh sketches x 1 row: chance of a false alarm at most 240 * 4e-9 <
    1e-6."""
    rng = np.random.default_rng(8)
    n, k2, d, gamma = 128, 16, 3, 20.0
    old = dense_srht(rng, n, k2)  # the data may know another sketch
    m_star = coherence_bound_public(n, k2, 4e-9)
    beta = beta_public(gamma, m_star)
    largest = 0.0
    for x in data_sets(rng, old, n, d):
        for _ in range(60):
            sketch = dense_srht(rng, n, k2)
            delta = x.T @ (sketch.T @ sketch[:, 3]) - x[3]
            largest = max(largest, np.linalg.norm(delta))
            assert np.linalg.norm(delta) <= m_star
            z = sketch @ x
            floor = max(0.0, beta - np.linalg.eigvalsh(z.T @ z)[0])
            assert nuclear(z.T @ z + floor * np.eye(d), x[3], delta) <= (1 + 1e-12) / gamma
    assert largest > 0.2 * m_star
    # Data aligned with this very sketch breaks the bound: independence is a condition, not a formality.
    aligned = data_sets(rng, old, n, d)[3]
    assert np.linalg.norm(aligned.T @ (old.T @ old[:, 3]) - aligned[3]) > 1.5 * coherence_bound_public(n, k2, 0.1)


def test_leverage_route_holds_given_the_embedding() -> None:
    """Concentration step with the measured distortion: 4 x 60 draws, false alarm at most 240 * 3e-9 <
    1e-6."""
    rng = np.random.default_rng(12)
    n, k2, d = 256, 128, 3
    checked, closest = 0, 0.0
    for x in data_sets(rng, dense_srht(rng, n, k2), n, d):
        basis = np.linalg.svd(x, full_matrices=False)[0][:, : np.linalg.matrix_rank(x)]
        for _ in range(60):
            sketch = dense_srht(rng, n, k2)
            gram = sketch.T @ sketch
            coherence = np.abs(gram - np.eye(n)).max()
            embedded = sketch @ basis
            chi = 1 - np.linalg.eigvalsh(embedded.T @ embedded)[0]
            if not 0 < chi < 1:
                continue
            bound, _ = leverage_bound(n, d, k2, coherence, 3e-9, 1e-9, chi)
            delta = x.T @ gram[:, 3] - x[3]
            z = sketch @ x
            beta = 0.01
            sigma = z.T @ z + beta * np.eye(d)
            q = math.sqrt(delta @ np.linalg.solve(sigma, delta))
            assert q <= bound
            closest = max(closest, q / bound)
            assert nuclear(sigma, x[3], delta) <= 1 / beta + 2 * bound / math.sqrt(beta)
            checked += 1
    assert checked > 150
    assert closest > 0.05  # Q is generous: the logarithm of 1/delta_b alone adds 12.5 to sqrt(d) = 1.7


def test_bound_on_the_coherence_of_uniform_rows() -> None:
    """100 draws, each within the bound except with probability 1e-8."""
    rng = np.random.default_rng(2)
    for n, k2 in ((256, 32), (256, 200), (1024, 512)):
        bound = coherence_bound_uniform(n, k2, 1e-8)
        for _ in range(100):
            indicator = np.zeros(n)
            indicator[rng.choice(n, k2, replace=False)] = 1.0
            coherence = np.abs(hadamard(n) @ indicator)[1:].max() / k2
            assert 0.2 * bound < coherence <= bound


def test_the_least_route_is_taken_and_only_its_delta_is_paid() -> None:
    sizes = {"d": 32, "delta": 1e-12}
    small = choose_floor(100.0, n_padded=2**20, sketch_size=2**15, **sizes)
    assert (small.name, small.failure_delta) == ("public", 1e-12)
    assert small.beta == pytest.approx(8481, rel=1e-3)
    large = choose_floor(100.0, n_padded=2**33, sketch_size=2**20, **sizes)
    assert large.name == "leverage"
    assert 0 < large.failure_delta <= 1e-12
    tiny = choose_floor(100.0, n_padded=2**33, sketch_size=2**10, **sizes)
    assert (tiny.name, tiny.failure_delta) == ("free", 0.0)
    assert tiny.beta == pytest.approx(40200, rel=1e-3)
    gram = choose_floor(100.0, n_padded=2**12, sketch_size=2**12, **sizes)
    assert (gram.name, gram.failure_delta) == ("gram", 0.0)
    assert gram.beta == pytest.approx(100.0, rel=1e-9)
    for floor in (small, large, tiny, gram):
        assert floor.reason


def test_auto_is_the_least_of_the_named_routes_and_a_known_coherence_helps() -> None:
    for n, k2 in ((2**20, 2**17), (2**26, 2**17), (2**33, 2**20)):
        arguments = {"n_padded": n, "d": 32, "sketch_size": k2, "delta": 1e-12}
        named = [choose_floor(100.0, route=route, **arguments) for route in ("public", "leverage", "free")]
        assert choose_floor(100.0, **arguments).beta == min(floor.beta for floor in named)
        typical = math.sqrt(2 * math.log(n) / k2)
        known = choose_floor(100.0, route="leverage", coherence=typical, **arguments)
        assert known.beta < named[1].beta
        assert known.failure_delta <= 1e-12


def test_refusals_name_the_argument() -> None:
    with pytest.raises(ArgumentError, match=r"^n_padded must be a power of two"):
        coherence_bound_public(1000, 10, 1e-9)
    with pytest.raises(ArgumentError, match=r"^sketch_size must be <= n_padded"):
        coherence_bound_public(16, 17, 1e-9)
    with pytest.raises(ArgumentError, match=r"^delta must"):
        coherence_bound_public(16, 4, 0.0)
    with pytest.raises(ArgumentError, match=r"^m_star must"):
        beta_public(3.0, -1e-9)
    with pytest.raises(ArgumentError, match=r"^gamma must"):
        beta_free(1e200)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(ArgumentError, match=r"^chi must"):
            leverage_bound(16, 2, 4, 0.5, 0.1, 0.1, bad)
    with pytest.raises(ArgumentError, match=r"^route must"):
        choose_floor(9.0, n_padded=16, d=2, sketch_size=4, delta=1e-9, route="best")
    with pytest.raises(ArgumentError, match=r"^sketch_size must equal"):
        choose_floor(9.0, n_padded=16, d=2, sketch_size=4, delta=1e-9, route="gram")
    with pytest.raises(CalibrationError, match=r"larger sketch"):
        choose_floor(9.0, n_padded=16, d=2, sketch_size=4, delta=1e-9, route="leverage")
