"""Rényi curves against 50 digits: never below the truth, at most 1e-9 above; and their refusals."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privacy_oracles import assert_just_above, gaussian, laplace, phi, phi_bar

from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import fast_mixing_rdp_paper, gaussian_rdp, laplace_rdp, mixing_rdp

NEAR_ONE = [1.0 + 2.0**-52, 1.0 + 1e-12, 1.0 + 1e-6, 1.001]
FRACTIONS = [0.0, 1e-9, 1e-4, 0.01, 0.1, 0.3, 0.49, 0.51, 0.7, 0.9, 0.999, 1.0 - 1e-9, 1.0 - 2.0**-50]
GAMMAS = [1.0 + 1e-9, 1.001, 1.3, 2.0, 2.9, 3.2, 10.0, 123.4, 1e4, 1e8, 1e12]


def orders_below(upper: float) -> list[float]:
    grid = NEAR_ONE + [1.0 + (upper - 1.0) * fraction for fraction in FRACTIONS]
    return [order for order in grid if 1.0 < order < upper]


@pytest.mark.parametrize("gamma", GAMMAS)
def test_tight_curve_is_just_above_the_truth(gamma: float) -> None:
    orders = orders_below(gamma)
    for order, value in zip(orders, mixing_rdp(np.array(orders), gamma), strict=True):
        assert_just_above(value, phi(order, gamma))


@pytest.mark.parametrize("gamma", [math.nextafter(3.125, 4.0)] + [gamma for gamma in GAMMAS if gamma > 3.125])
def test_paper_curve_is_just_above_the_truth(gamma: float) -> None:
    orders = orders_below(0.8 * gamma)
    for order, value in zip(orders, fast_mixing_rdp_paper(np.array(orders), gamma), strict=True):
        assert_just_above(value, phi_bar(order, gamma))


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.1, 0.9, 1.0, 1.1, 30.0, 1e4, 1e9])
def test_laplace_curve_is_just_above_the_truth(scale: float) -> None:
    orders = [*NEAR_ONE, 1.2, 1.9, 2.0, 3.0, 17.0, 1e3, 1e6, 1e15]
    for order, value in zip(orders, laplace_rdp(np.array(orders), scale, 0.7), strict=True):
        with mp.workdps(120):
            if (order - 1) * 0.7 / scale > 1e7:  # beyond, exp is a waste even for mpmath: the limit is exact
                truth = mp.mpf(0.7) / mp.mpf(scale) + mp.log(mp.mpf(order) / (2 * mp.mpf(order) - 1)) / (
                    mp.mpf(order) - 1
                )
            else:
                truth = laplace(order, scale, 0.7)
        assert_just_above(value, truth)


@given(
    alpha=st.floats(1.0000001, 1e9),
    sigma=st.floats(1e-3, 1e9),
    sensitivity=st.floats(1e-6, 1e6),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_gaussian_curve_is_just_above_the_truth(alpha: float, sigma: float, sensitivity: float) -> None:
    assert_just_above(gaussian_rdp(alpha, sigma, sensitivity), gaussian(alpha, sigma, sensitivity))


@given(excess=st.floats(1e-9, 1e12), position=st.floats(1e-6, 1.0, exclude_max=True))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_tight_curve_at_random_levels(excess: float, position: float) -> None:
    gamma = 1.0 + excess
    alpha = 1.0 + position * (gamma - 1.0)
    if 1.0 < alpha < gamma:
        assert_just_above(mixing_rdp(alpha, gamma), phi(alpha, gamma))


def test_underflow_is_not_zero_cost() -> None:
    for value in (mixing_rdp(1.5, 1e200), gaussian_rdp(1.5, 1e200), laplace_rdp(1.5, 1e200)):
        assert value > 0.0


def test_orders_outside_the_range_cost_infinity() -> None:
    outside = np.array([-1.0, 0.0, 0.5, 1.0, 10.0, 11.0, np.inf])
    assert np.isposinf(mixing_rdp(outside, 10.0)).all()
    assert np.isposinf(fast_mixing_rdp_paper(np.array([1.0, 8.0, 9.0]), 10.0)).all()
    assert np.isfinite(fast_mixing_rdp_paper(math.nextafter(8.0, 0.0), 10.0))
    assert np.isposinf(gaussian_rdp(np.array([0.5, 1.0, np.inf]), 1.0)).all()
    assert np.isposinf(laplace_rdp(np.array([0.5, 1.0]), 1.0)).all()
    assert laplace_rdp(np.inf, 4.0, 2.0) == pytest.approx(0.5, rel=1e-9)


def test_shapes_are_kept() -> None:
    orders = np.full((2, 3), 1.5)
    for curve in (mixing_rdp(orders, 9.0), fast_mixing_rdp_paper(orders, 9.0), laplace_rdp(orders, 2.0)):
        assert isinstance(curve, np.ndarray)
        assert curve.shape == (2, 3)
    assert isinstance(mixing_rdp(1.5, 9.0), float)
    assert isinstance(gaussian_rdp(1.5, 9.0), float)
    assert mixing_rdp([], 9.0).shape == (0,)


def test_tight_never_exceeds_paper_at_equal_noise() -> None:
    for gamma in np.geomspace(3.13, 1e9, 40):
        orders = 1.0 + (0.8 * gamma - 1.0) * np.linspace(1e-6, 0.999999, 50)
        ratio = fast_mixing_rdp_paper(orders, gamma) / mixing_rdp(orders, gamma)
        assert ratio.min() > 1.4
        assert np.isfinite(ratio).all()


def test_published_size_of_the_gain() -> None:
    # The papers' curve is 1.5 to 1.76 times the tight one up to gamma/2, and about 2.3 times at 3 gamma/4.
    for gamma in (50.0, 1e3, 1e6):
        half = np.linspace(1.5, gamma / 2, 100)
        ratio = fast_mixing_rdp_paper(half, gamma) / mixing_rdp(half, gamma)
        assert 1.49 < ratio.min() < ratio.max() < 1.77
        late = fast_mixing_rdp_paper(0.75 * gamma, gamma) / mixing_rdp(0.75 * gamma, gamma)
        assert 2.29 < late < 2.45


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0, None, "3", True, 1 + 2j])
def test_unusable_noise_is_refused_by_name(bad: object) -> None:
    for name, call in (
        ("gamma", lambda: mixing_rdp(1.5, bad)),
        ("gamma", lambda: fast_mixing_rdp_paper(1.5, bad)),
        ("sigma", lambda: gaussian_rdp(1.5, bad)),
        ("sensitivity", lambda: gaussian_rdp(1.5, 1.0, bad)),
        ("scale", lambda: laplace_rdp(1.5, bad)),
        ("sensitivity", lambda: laplace_rdp(1.5, 1.0, bad)),
    ):
        with pytest.raises(ArgumentError, match=rf"^{name} must be"):
            call()


@pytest.mark.parametrize("curve", [mixing_rdp, fast_mixing_rdp_paper, gaussian_rdp, laplace_rdp])
def test_nan_orders_and_low_levels_are_refused(curve: object) -> None:
    with pytest.raises(ArgumentError, match=r"alpha"):
        curve(np.array([1.5, np.nan]), 5.0)
    with pytest.raises(ArgumentError, match=r"gamma must be > 1"):
        mixing_rdp(1.5, 1.0)
    with pytest.raises(ArgumentError, match=r"gamma must be > 3.125"):
        fast_mixing_rdp_paper(1.5, 3.125)
