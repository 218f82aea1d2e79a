"""The claimed epsilon is never below the exact one of a rank-one pair: K chi-square rows and a Gaussian.

With an orthonormal sketch (m = 0) and one column, K rows are N(0, gamma) before and N(0, gamma - 1) after a
record is blanked: the sum of squares is sufficient, T ~ chi2_K before and (1 - 1/gamma) chi2_K after, and
delta(epsilon) is a difference of two chi-square tails.  Adding a Gaussian release of T rounds needs one
quadrature.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2

from fastdp_dask.privacy import GaussianEvent, MixingEvent, epsilon_of


def crossing(epsilon: float, gamma: float, rows: int) -> float:
    """T at which log p/q = (K/2) log(1 - 1/gamma) + T / (2 (gamma - 1)) equals epsilon."""
    return 2 * (gamma - 1) * (epsilon - rows / 2 * np.log1p(-1 / gamma))


def mixing_delta(epsilon: float, gamma: float, rows: int, swapped: bool) -> float:
    """Exact delta of K rows alone; swapped: the blanked data set comes first."""
    shrink = 1 - 1 / gamma
    if swapped:
        at = max(crossing(-epsilon, gamma, rows), 0.0)
        return chi2.cdf(at / shrink, rows) - np.exp(epsilon) * chi2.cdf(at, rows)
    at = crossing(epsilon, gamma, rows)
    return chi2.sf(at, rows) - np.exp(epsilon) * chi2.sf(at / shrink, rows)


def joint_delta(epsilon: float, gamma: float, rows: int, mu: float) -> float:
    """Exact delta of K rows and a Gaussian with mean shift mu: average of the Gaussian's delta over T ~
    chi2_K."""

    def integrand(total: float) -> float:
        left = epsilon - (rows / 2 * np.log1p(-1 / gamma) + total / (2 * (gamma - 1)))
        gauss = ndtr(mu / 2 - left / mu) - np.exp(left) * ndtr(-mu / 2 - left / mu)
        return chi2.pdf(total, rows) * max(gauss, 0.0)

    centre, spread = rows, np.sqrt(2 * rows)
    edges = np.clip(centre + spread * np.array([-9.0, -3.0, 0.0, 3.0, 6.0, 10.0, 16.0]), 0.0, None)
    pieces = itertools.pairwise(edges)
    return sum(quad(integrand, a, b, epsabs=0.0, epsrel=1e-8, limit=200)[0] for a, b in pieces if b > a)


@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize(("rows", "gamma"), [(1, 1.5), (1, 20.0), (30, 4.0), (600, 60.0), (600, 400.0), (3000, 300.0)])
def test_rows_alone(rows: int, gamma: float, delta: float) -> None:
    claimed = epsilon_of([MixingEvent(rows, gamma)], delta)
    for swapped in (False, True):
        assert mixing_delta(claimed, gamma, rows, swapped) <= delta
    # Not by much: Rényi accounting is known to be 5 to 10 per cent, and at one row up to a half, above the
    # truth.
    truth = brentq(lambda epsilon: mixing_delta(epsilon, gamma, rows, False) - delta, 0.0, claimed)
    assert truth > 0.5 * claimed
    if rows >= 30:
        assert truth > 0.85 * claimed


@pytest.mark.parametrize(
    ("rows", "gamma", "sigma", "rounds", "delta"),
    [
        (600, 60.0, 20.0, 3, 1e-6),
        (600, 20.0, 10.0, 3, 1e-6),
        (3000, 300.0, 30.0, 3, 1e-9),
        (40, 8.0, 4.0, 1, 1e-5),
    ],
)
def test_rows_and_gradients(rows: int, gamma: float, sigma: float, rounds: int, delta: float) -> None:
    claimed = epsilon_of([MixingEvent(rows, gamma), GaussianEvent(sigma, rounds)], delta)
    mu = np.sqrt(rounds) / sigma
    assert joint_delta(claimed, gamma, rows, mu) <= delta
    assert joint_delta(0.85 * claimed, gamma, rows, mu) > delta


def test_quadrature_agrees_with_the_tails_when_the_gaussian_vanishes() -> None:
    for epsilon in (0.3, 1.0):
        exact = mixing_delta(epsilon, 60.0, 300, False)
        assert joint_delta(epsilon, 60.0, 300, 1e-3) == pytest.approx(exact, rel=1e-3)
