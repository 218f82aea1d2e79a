"""Conversion to (epsilon, delta): against 50 digits, against exact Gaussian privacy, at the ends of the
floats."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from privacy_oracles import assert_just_above, gaussian, laplace, minimum_epsilon, phi
from scipy.special import log_ndtr

from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import epsilon_and_order, gaussian_rdp, laplace_rdp, mixing_rdp, rdp_to_epsilon

DELTAS = [1e-5, 1e-12, 1e-18, 1e-30, 1e-300]


@pytest.mark.parametrize("delta", [0.1, *DELTAS])
@pytest.mark.parametrize("sigma", [0.003, 0.7, 40.0, 1e5])
def test_gaussian_minimum(sigma: float, delta: float) -> None:
    truth = minimum_epsilon(lambda a: gaussian(a, sigma, 1), delta, mp.mpf("1e-9"), mp.mpf("1e30"))
    value = rdp_to_epsilon(lambda a: gaussian_rdp(a, sigma), delta)
    if truth > 0:
        assert_just_above(value, truth)
    else:
        assert value == 0.0


@pytest.mark.parametrize("delta", [1e-6, 1e-300])
@pytest.mark.parametrize(("gamma", "rows"), [(1.0001, 1), (1.5, 600), (30.0, 1), (400.0, 600), (1e5, 10**6)])
def test_mixing_minimum(gamma: float, rows: int, delta: float) -> None:
    top = mp.mpf(gamma) - 1
    truth = minimum_epsilon(lambda a: rows * phi(a, gamma) if a < gamma else mp.inf, delta, top * mp.mpf("1e-12"), top)
    assert_just_above(rdp_to_epsilon(lambda a: rows * mixing_rdp(a, gamma), delta), truth)


def test_laplace_never_costs_more_than_pure_privacy_plus_rounding() -> None:
    for delta in (1e-6, 1e-300):
        value = rdp_to_epsilon(lambda a: laplace_rdp(a, 2.0), delta)
        truth = minimum_epsilon(lambda a: laplace(a, 2, 1), delta, mp.mpf("1e-6"), mp.mpf("1e5"))
        assert value <= 0.5 * (1 + 1e-9)
        assert value <= float(truth) * (1 + 1e-9)


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """log of the exact delta of one Gaussian release (Balle & Wang 2018), by logarithms of normal tails."""
    mu = 1.0 / sigma
    first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return first + math.log(-math.expm1(second - first))


@pytest.mark.parametrize("sigma", [0.05, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_never_below_the_exact_gaussian(sigma: float, delta: float) -> None:
    epsilon = rdp_to_epsilon(lambda a: gaussian_rdp(a, sigma), delta)
    assert math.isfinite(epsilon)
    assert gaussian_log_delta(epsilon, sigma) <= math.log(delta)


def test_nothing_costs_nothing_and_epsilon_is_never_negative() -> None:
    for delta in (0.9, 0.5, 1e-9, 1e-300):
        assert rdp_to_epsilon(np.zeros_like, delta) == 0.0
    assert rdp_to_epsilon(lambda a: gaussian_rdp(a, 5.0), 0.9) == 0.0
    assert rdp_to_epsilon(lambda a: np.full(a.shape, np.inf), 1e-6) == math.inf
    assert math.isnan(epsilon_and_order(lambda a: np.full(a.shape, np.inf), 1e-6)[1])


def test_the_reported_order_attains_the_minimum_and_respects_its_limit() -> None:
    def curve(alpha: np.ndarray) -> np.ndarray:
        return np.asarray(gaussian_rdp(alpha, 3.0))

    epsilon, order = epsilon_and_order(curve, 1e-9)
    t = order - 1.0
    by_hand = gaussian_rdp(order, 3.0) + (math.log(1e9) + t * math.log(t / order) - math.log(order)) / t
    assert by_hand == pytest.approx(epsilon, rel=1e-9)
    limited, last = epsilon_and_order(curve, 1e-9, alpha_max=4.0)
    assert last < 4.0
    assert last == pytest.approx(4.0, rel=1e-12)
    assert limited > epsilon
    seen: list[float] = []
    rdp_to_epsilon(lambda a: seen.append(a.max()) or curve(a), 1e-9, alpha_max=1.0 + 2.0**-51)
    assert max(seen) < 1.0 + 2.0**-51


def test_never_cheaper_with_a_smaller_delta() -> None:
    costs = [rdp_to_epsilon(lambda a: 600 * mixing_rdp(a, 100.0), delta) for delta in np.geomspace(0.9, 1e-300, 60)]
    assert (np.diff(costs) > 0).all()


@pytest.mark.parametrize("bad", [0, 0.0, 1, 1.5, -1, math.nan, math.inf, None, "small", 1e-301])
def test_bad_delta_is_refused_by_name(bad: object) -> None:
    with pytest.raises(ArgumentError, match=r"^delta must"):
        rdp_to_epsilon(lambda a: gaussian_rdp(a, 1.0), bad)


def test_bad_curves_and_limits_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^rdp must"):
        rdp_to_epsilon(lambda a: 1.0, 1e-6)
    with pytest.raises(ArgumentError, match=r"^rdp must"):
        rdp_to_epsilon(lambda a: np.full(a.shape, np.nan), 1e-6)
    for bad in (1.0, 0.5, math.nan, -math.inf, None):
        with pytest.raises(ArgumentError, match=r"^alpha_max must"):
            rdp_to_epsilon(lambda a: gaussian_rdp(a, 1.0), 1e-6, alpha_max=bad)


def test_the_terms_of_the_conversion_are_rounded_up_too() -> None:
    """A free curve leaves only the conversion's own terms: at the order used they are not below 50 digits."""
    for delta in np.geomspace(0.01, 1e-300, 40):
        for alpha_max in (1.0 + 1e-9, 1.3, 2.0, 7.0):
            value, order = epsilon_and_order(np.zeros_like, delta, alpha_max)
            with mp.workdps(50):
                alpha = mp.mpf(order)
                price = (mp.log(1 / mp.mpf(delta)) - mp.log(alpha)) / (alpha - 1)
                truth = price + mp.log(1 - 1 / alpha)
            if truth > 0:
                assert value >= truth
