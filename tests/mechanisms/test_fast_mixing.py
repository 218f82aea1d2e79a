"""The private steps: their formulas, and the law and scale of every noise over 2,000 seeded releases.

The seeds are fixed; were they drawn anew, each statistical test would raise a false alarm with probability at
most 1e-6, and each must reject two thirds and three halves of the claimed scale at that level.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastdp_dask import PrivacyLeakWarning, rng
from fastdp_dask.mechanisms import fast_mixing
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.solvers import fast_ihm_paper
from fastdp_dask.solvers.common import release_gradient

FALSE_ALARM = 1e-6
RELEASES = 2000


def noises(count: int = RELEASES) -> list[rng.NoiseSource]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return [rng.NoiseSource(seed) for seed in range(count)]


def assert_law(sample: np.ndarray, law: Callable[[np.ndarray], np.ndarray]) -> None:
    """`sample` follows the cumulative distribution `law`, and not 2/3 or 3/2 of its scale."""
    assert stats.kstest(sample, law).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(sample * wrong, law).pvalue < FALSE_ALARM


PLAN = fast_ihm_paper.make_plan(1000, 3, epsilon=1.0, delta=1e-6, n_iter=2)


def test_noise_on_a_gradient() -> None:
    gradient = np.array([1.0, -2.0, 0.5])
    sample = []
    for noise in noises():
        value = release_gradient("gradient_0", gradient, PLAN, noise, ReleaseLog())
        sample.append((value - gradient) / (PLAN.noise_multiplier * PLAN.clip))
    columns = np.array(sample)
    assert_law(columns.ravel(), stats.norm.cdf)
    # Squared length: chi-square with d degrees, so the coordinates are independent as well as normal.
    assert_law((columns**2).sum(axis=1), stats.chi2(3).cdf)


def test_noise_on_the_deviation() -> None:
    deviation, coherence = 0.7, 0.2
    sample = [fast_ihm_paper._m_tilde(noise.stream("m_tilde_0"), deviation, coherence, PLAN) for noise in noises()]
    scale = PLAN.omega * coherence
    assert_law((np.array(sample) - deviation - scale * PLAN.tau) / scale, stats.laplace.cdf)


def test_noise_on_the_eigenvalue() -> None:
    Z, m_tilde = np.diag([3e4, 2e4, 1e4]), 5.0  # so large that the floor at 0 is never met
    streams = [noise.stream("lambda_tilde_0") for noise in noises()]
    sample = [fast_mixing.private_eigenvalue(1e8, m_tilde, PLAN.omega, PLAN.tau, z) for z in streams]
    scale = PLAN.omega * (1 + 2 * m_tilde)
    assert_law((np.array(sample) - 1e8 + scale * PLAN.tau) / scale, stats.laplace.cdf)
    # The solver releases the same numbers; a few are enough, since each one counts threads anew.
    released = [fast_ihm_paper._lambda_tilde(noise.stream("lambda_tilde_0"), Z, m_tilde, PLAN) for noise in noises(20)]
    assert released == pytest.approx(sample[:20], rel=1e-12)


def test_mixing_has_the_claimed_covariance_and_is_normal() -> None:
    generator = np.random.default_rng(0)
    Z, added, k1 = generator.standard_normal((40, 3)) * [3.0, 1.0, 0.1], 4.0, 5
    covariance = Z.T @ Z + added * np.eye(3)
    releases = np.array([fast_mixing.mixing(Z, added, k1, noise.stream("hessian_0")) for noise in noises()])
    assert releases.shape == (RELEASES, k1, 3)
    # Whitened by the claimed covariance, every number is standard normal and every row's length chi-square.
    white = np.linalg.solve(np.linalg.cholesky(covariance), releases.reshape(-1, 3).T).T
    assert_law(white[::k1].ravel(), stats.norm.cdf)
    assert_law((white**2).sum(axis=1)[:RELEASES], stats.chi2(3).cdf)
    # The mean of X̃ᵀX̃/k1: entry (a, b) of one product has variance S_aa S_bb + S_ab².
    mean = np.einsum("rka,rkb->ab", releases, releases) / (RELEASES * k1)
    spread = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / (RELEASES * k1))
    score = np.abs(mean - covariance) / spread
    # 6 different entries; by the central limit theorem with 10,000 terms, and one more for its error.
    limit = stats.norm.isf(FALSE_ALARM / 6 / 2) + 1
    assert score.max() < limit
    for wrong in (Z.T @ Z, Z.T @ Z + added * (9 / 4) * np.eye(3), covariance * 9 / 4, covariance * 4 / 9):
        assert (np.abs(mean - wrong) / spread).max() > limit


def test_rows_of_a_release_are_uncorrelated() -> None:
    Z = np.ones((4, 1))
    releases = np.array([fast_mixing.mixing(Z, 1.0, 4, noise.stream("x"))[:, 0] for noise in noises()]) / math.sqrt(5)
    correlation = releases.T @ releases / RELEASES - np.eye(4)
    limit = (stats.norm.isf(FALSE_ALARM / 12) + 1) * math.sqrt(2 / RELEASES)
    assert np.abs(correlation).max() < limit


def test_slabs_make_no_difference_to_the_covariance() -> None:
    # Rows of Z on either side of a slab's edge must enter, and the last: each is a third of the variance here.
    k1 = 1 << 12
    slab = (1 << 22) // k1
    Z = np.zeros((slab + 3, 1))
    Z[[slab - 1, slab, -1]] = 10.0
    release = fast_mixing.mixing(Z, 0.0, k1, np.random.default_rng(1))
    assert_law(release[:, 0] / math.sqrt(300), stats.norm.cdf)


class Drawn:
    """A stream whose Laplace numbers are z."""

    def __init__(self, z: float) -> None:
        self._z = z

    def discrete_laplace(self, scale: int, size: int) -> np.ndarray:
        return np.full(size, math.ceil(self._z * scale))


@given(
    st.floats(0, 1e6),
    st.just(0.0) | st.floats(1e-6, 1),
    st.floats(0.1, 100),
    st.floats(1, 50),
    st.floats(-60, 60),
    st.floats(4, 1e4),
)
def test_formulas(m: float, coherence: float, omega: float, tau: float, z: float, gamma: float) -> None:
    m = m if coherence else 0.0  # no coherence, no deviation
    noise: Any = Drawn(z)
    m_tilde = fast_mixing.private_deviation(m, coherence, omega, tau, noise)
    close = {"rel": 1e-10, "abs": 1e-10 * omega * (abs(tau) + abs(z))}
    assert m_tilde == pytest.approx(max(0.0, m + omega * coherence * (tau - z)), **close)
    lambda_tilde = fast_mixing.private_eigenvalue(m, m_tilde, omega, tau, noise)
    close["abs"] *= 1 + 2 * m_tilde
    assert lambda_tilde == pytest.approx(max(0.0, m - omega * (1 + 2 * m_tilde) * (tau - z)), **close)
    added = fast_mixing.added_variance(gamma, m_tilde, lambda_tilde)
    assert added == max(0.0, gamma * (1 + 2 * m_tilde) - lambda_tilde)
    if z <= tau:  # both estimates on their safe side: the floor that the accounting needs holds
        assert m + added >= gamma * (1 + 2 * m) * (1 - 1e-12) or m >= gamma * (1 + 2 * m)
