"""The certified exact curve: never below the exact one of any pair, of either order, and hardly above it.

The oracle shares no code with the package: Gauss-Legendre quadrature over chi-square densities of the Gaussian
mechanism's closed form, or closed forms where there are some.
"""

from __future__ import annotations

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, log_ndtr, ndtr
from scipy.stats import chi2

from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import (
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    MixingEvent,
    certified_epsilon,
    epsilon_of,
    mixing_delta,
    mixing_epsilon,
)
from fastdp_dask.privacy._losses import LIBRARY_SLACK
from fastdp_dask.privacy.exact import _Curve

# The quadrature has 20 nodes to a panel narrower than a tenth of a standard deviation; kinks (mu = 0) cost it most.
QUADRATURE = 1e-6


def gaussian_delta(epsilon: np.ndarray, mu: float) -> np.ndarray:
    """Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu); (1 - exp(e))+ for mu = 0."""
    if mu == 0.0:
        return np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0)
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.maximum(np.exp(first) - np.exp(second), 0.0)


def nodes(rows: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of a chi-square variable and their masses."""
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(chi2.ppf(1e-14, rows), chi2.isf(1e-35, rows), points // 20 + 1)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    at = (middle[:, None] + half[:, None] * x).ravel()
    return at, (half[:, None] * w).ravel() * np.exp(chi2.logpdf(at, rows))


def pair_delta(epsilon: float | np.ndarray, rows: int, a: float, b: float, mu: float, points: int = 2000) -> np.ndarray:
    """delta of N(0, I) against N(0, diag(1 - a, 1 + b)), `rows` times, and a Gaussian with shift mu."""
    u, mass_u = nodes(rows, points) if a else (np.zeros(1), np.ones(1))
    v, mass_v = nodes(rows, points if a == 0.0 else 400) if b else (np.zeros(1), np.ones(1))
    loss = rows / 2 * (np.log1p(-a) + np.log1p(b)) + (a / (1 - a) * u[:, None] - b / (1 + b) * v) / 2
    return np.array([mass_u @ gaussian_delta(e - loss, mu) @ mass_v for e in np.atleast_1d(epsilon)])


SETTINGS = [
    (600, 60.0, 0.0866, 1e-6),
    (600, 60.0, 0.0866, 1e-18),
    (1024, 262.0, 0.132, 1e-10),
    (40, 3.0, 0.2, 1e-5),
    (2, 1.5, 0.3, 1e-8),
]


@pytest.mark.parametrize(("rows", "gamma", "mu", "delta"), SETTINGS)
def test_no_pair_of_the_triangle_costs_more_and_rank_one_hardly_less(
    rows: int, gamma: float, mu: float, delta: float
) -> None:
    epsilon = mixing_epsilon(rows, gamma, mu, delta)
    for share in (1.0, 0.99, 0.9, 0.6, 0.3, 0.0):
        a, b = share / gamma, (1 - share) / gamma
        assert pair_delta(epsilon, rows, a, b, mu)[0] <= delta * (1 + QUADRATURE)
    assert pair_delta(epsilon * (1 - 5e-4), rows, 1 / gamma, 0.0, mu)[0] > delta


@pytest.mark.parametrize(
    ("rows", "gamma", "delta", "renyi", "exact"),
    [(600, 60.0, 1e-6, 1.4856, 1.3653), (600, 20.0, 1e-6, 5.122, 4.7382), (3000, 300.0, 1e-9, 0.7776, 0.7342)],
)
def test_rows_alone_by_chi_square_tails(rows: int, gamma: float, delta: float, renyi: float, exact: float) -> None:
    shrink = 1 - 1 / gamma

    def truth(epsilon: float) -> float:
        at = 2 * (gamma - 1) * (epsilon - rows / 2 * np.log1p(-1 / gamma))
        return float(chi2.sf(at, rows) - np.exp(epsilon) * chi2.sf(at / shrink, rows) - delta)

    found, rank_one = mixing_epsilon(rows, gamma, 0.0, delta), brentq(truth, 0.0, 10.0, xtol=1e-12)
    assert rank_one <= found <= rank_one * (1 + 2e-4)
    assert found == pytest.approx(exact, rel=3e-4)
    assert epsilon_of([MixingEvent(rows, gamma)], delta) == pytest.approx(renyi, rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(size=st.floats(0, 5), deviation=st.floats(-2.5, 1), exponent=st.floats(-30, -2))
def test_rows_alone_in_fifty_digits(size: float, deviation: float, exponent: float) -> None:
    rows, delta = int(10**size), 10**exponent
    gamma = 1 + math.sqrt(rows / 2) / 10**deviation
    epsilon = mixing_epsilon(rows, gamma, 0.0, delta)
    with mp.workdps(50):
        level, half = mp.mpf(gamma), mp.mpf(rows) / 2
        at = 2 * (level - 1) * (epsilon - half * mp.log(1 - 1 / level))
        before, after = (mp.gammainc(half, x / 2, mp.inf, regularized=True) for x in (at, at / (1 - 1 / level)))
        truth = before - mp.exp(epsilon) * after
    assert truth <= delta
    assert epsilon == 0.0 or truth > 0.97 * delta


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-18, 1e-100])
def test_gaussians_alone_by_their_closed_form(delta: float) -> None:
    for mu in (1e-3, 0.1, 1.0, 5.0):
        with mp.workdps(40):

            def truth(epsilon: float, mu: float = mu) -> mp.mpf:
                x = mp.mpf(epsilon) / mu
                return mp.ncdf(mu / 2 - x) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - x)

            found = mixing_epsilon(0, 2.0, mu, delta)
            if found == 0.0:
                assert truth(0.0) <= delta
            else:
                assert truth(found) <= delta < truth(found * (1 - 3e-4))
                assert truth(found) <= mixing_delta(found, 0, 2.0, mu) <= truth(found) * 1.05
    assert mixing_delta(0.0, 0, 2.0, 0.0) <= 1e-12  # nothing was released: rounding only
    assert mixing_epsilon(0, 2.0, 0.0, delta) == 0.0


def test_rank_one_in_high_precision_down_to_a_small_delta() -> None:
    rows, gamma, mu = 12, 6.0, 0.4
    epsilon = mixing_epsilon(rows, gamma, mu, 1e-18)
    with mp.workdps(30):
        half, level = mp.mpf(rows) / 2, mp.mpf(gamma)

        def integrand(u: mp.mpf) -> mp.mpf:
            left = mp.mpf(epsilon) - half * mp.log(1 - 1 / level) - u / (2 * (level - 1))
            gauss = mp.ncdf(mu / 2 - left / mu) - mp.exp(left) * mp.ncdf(-mu / 2 - left / mu)
            return u ** (half - 1) * mp.exp(-u / 2) / (2**half * mp.gamma(half)) * gauss

        truth = mp.quad(integrand, [0, 20, 40, 60, 80, 100, 120, 140, 180, 260, 400])
    assert truth <= 1e-18
    assert truth >= 0.97e-18
    assert truth <= mixing_delta(epsilon, rows, gamma, mu) <= 1.03 * truth


def test_random_records_in_both_orders() -> None:
    """Random covariances, records and deviations at the floor: the eigenvalues of the change, then the exact delta."""
    rng = np.random.default_rng(41)
    rows, gamma, mu = 64, 12.0, 0.15
    levels = np.array([0.1, 0.8, 2.0])
    bound = np.array([mixing_delta(e, rows, gamma, mu) for e in levels])
    largest = 0.0
    for _ in range(40):
        m = 10 ** rng.uniform(-2, 1)
        beta = gamma * (1 + 2 * m)
        sigma = np.diag(beta * np.array([1.0, 1.0 + rng.exponential() * rng.integers(0, 2)]))
        x, deviation = np.array([1.0, 0.0]), np.array([rng.choice([-1.0, 1.0]), 0.0])
        x, deviation = (z + rng.choice([0.0, 0.2, 1.0]) * rng.normal(size=2) for z in (x, deviation))
        x, deviation = x / np.linalg.norm(x), m * deviation / np.linalg.norm(deviation)
        change = np.outer(x, x) + np.outer(x, deviation) + np.outer(deviation, x)
        root = np.linalg.inv(np.linalg.cholesky(sigma))
        for sign in (1.0, -1.0):  # the first data set has the record, or has it blanked
            e = np.linalg.eigvalsh(root @ (sign * change) @ root.T)
            a, b = max(e[1], 0.0), max(-e[0], 0.0)
            assert a + b <= (1 + 1e-9) / gamma
            exact = pair_delta(levels, rows, a, b, mu, points=400)
            assert (exact <= bound * (1 + QUADRATURE)).all()
            largest = max(largest, float((exact / bound).max()))
    assert largest > 0.9  # the attack comes near


def test_a_block_that_answers_to_an_earlier_release() -> None:
    """After the Gaussian's value y, the adversary picks the pair (a, b) that is worst for it."""
    rows, gamma, mu = 30, 3.0, 1.2
    x, w = np.polynomial.legendre.leggauss(40)
    y, mass = 12 * x, 12 * w * np.exp(-((12 * x) ** 2) / 2) / math.sqrt(2 * math.pi)  # under P: N(0, 1)
    loss = mu**2 / 2 - mu * y
    for epsilon in (0.0, 4.0):
        best = np.zeros_like(y)
        for share in (1.0, 0.5, 0.0):
            best = np.maximum(
                best, pair_delta(epsilon - loss, rows, share / gamma, (1 - share) / gamma, 0.0, points=600)
            )
        # Curves with a kink, 40 nodes: a thousandth.
        assert mass @ best <= mixing_delta(epsilon, rows, gamma, mu) * (1 + 1e-3)


def test_rank_one_alone_would_not_do() -> None:
    """Below zero the pair (0, 1/gamma) is worse than (1/gamma, 0), and the curve covers it."""
    rows, gamma = 600, 60.0
    grown = pair_delta(-0.5, rows, 0.0, 1 / gamma, 0.0)[0]
    shrunk = pair_delta(-0.5, rows, 1 / gamma, 0.0, 0.0)[0]
    assert grown > shrunk * 1.001
    assert _Curve(rows, gamma, 0.0, 1e-30, corners=1).delta(-0.5) < grown <= _Curve(rows, gamma, 0.0, 1e-30).delta(-0.5)


@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-18])
def test_never_above_the_renyi_sum(delta: float) -> None:
    for rows, gamma, mu in itertools.product((1, 40, 1000), (1.0001, 2.0, 60.0, 1e4), (0.0, 0.05, 2.0)):
        events = [MixingEvent(rows, gamma)] + ([GaussianEvent(1 / mu)] if mu else [])
        # The Gaussian is written as 1/mu, rounded: 2**-50.
        assert mixing_epsilon(rows, gamma, mu, delta) <= epsilon_of(events, delta) * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 5000),
    excess=st.floats(-3, 4),
    mu=st.floats(0, 4),
    exponent=st.floats(-20, -3),
)
def test_monotone_in_every_noise(rows: int, excess: float, mu: float, exponent: float) -> None:
    gamma, delta = 1 + 10**excess, 10**exponent
    here = mixing_epsilon(rows, gamma, mu, delta)
    # Rounding up costs about 1e-4 of epsilon, and not always the same: half of that for the comparison.
    for less in (
        mixing_epsilon(rows, 1 + 10**excess * 1.02, mu, delta),
        mixing_epsilon(rows, gamma, mu * 0.98, delta),
        mixing_epsilon(max(1, rows - rows // 20), gamma, mu, delta),
        mixing_epsilon(rows, gamma, mu, delta * 1.1),
    ):
        assert less <= here * (1 + 5e-5)
    if here > 0:
        assert mixing_delta(here, rows, gamma, mu) <= delta * (1 + 1e-3) or here == pytest.approx(
            epsilon_of([MixingEvent(rows, gamma), GaussianEvent(1 / max(mu, 1e-9))], delta), rel=1e-9
        )


def test_large_blocks_within_a_second() -> None:
    started = time.process_time()
    values = [mixing_epsilon(100_000, gamma, 0.1, 1e-18) for gamma in (1e5, 1e3, 1.5)]
    mixing_delta(values[0], 100_000, 1e5, 0.1)
    assert time.process_time() - started < 1.0
    assert values == sorted(values)


def test_tails_of_the_library_are_as_exact_as_assumed() -> None:
    probabilities = (1e-300, 1e-100, 1e-30, 1e-18, 1e-9, 1e-3, 0.2, 0.5)
    with mp.workdps(40):
        for rows, p in itertools.product((1, 2, 7, 39, 41, 401, 1000, 10_000, 30_000, 100_000), probabilities):
            half = rows / 2
            above, below = float(gammainccinv(half, p)), float(gammaincinv(half, p))
            exact = mp.gammainc(half, above, mp.inf, regularized=True)
            assert abs(float(gammaincc(half, above)) / exact - 1) < LIBRARY_SLACK
            if below > 0:
                exact = mp.gammainc(half, 0, below, regularized=True)
                assert abs(float(gammainc(half, below)) / exact - 1) < LIBRARY_SLACK
        for z in np.linspace(-37, 1, 77):
            assert abs(float(ndtr(z)) / mp.ncdf(z) - 1) < LIBRARY_SLACK


def test_events_take_the_smaller_of_both_bounds() -> None:
    block, gradients = MixingEvent(600, 60.0), GaussianEvent(20.0, 3)
    exact = mixing_epsilon(600, 60.0, math.sqrt(3) / 20, 9e-7)
    assert certified_epsilon([block, gradients, FailureEvent(5e-8, 2)], 1e-6) == pytest.approx(exact, rel=1e-6)
    renyi_only = (
        [block, MixingEvent(600, 61.0), gradients],  # two covariances
        [MixingEvent(600, 60.0, "paper"), gradients],
        [block, gradients, LaplaceEvent(30.0)],
        [gradients, gradients],
    )
    for events in renyi_only:
        assert certified_epsilon(events, 1e-6) == epsilon_of(events, 1e-6)
    with pytest.raises(ArgumentError, match="failure probabilities"):
        certified_epsilon([block, FailureEvent(1e-6)], 1e-6)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rows", (-1, 2.0, 0.1, 1e-6)),
        ("gamma", (5, 1.0, 0.1, 1e-6)),
        ("mu", (5, 2.0, -0.1, 1e-6)),
        ("mu", (5, 2.0, math.nan, 1e-6)),
        ("delta", (5, 2.0, 0.1, 0.0)),
    ],
)
def test_arguments_are_named(name: str, arguments: tuple[int, float, float, float]) -> None:
    with pytest.raises(ArgumentError, match=name):
        mixing_epsilon(*arguments)
    if name != "delta":
        with pytest.raises(ArgumentError, match=name):
            mixing_delta(1.0, *arguments[:3])
