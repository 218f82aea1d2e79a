"""Calibration: the safe side, within one part in a thousand of the target, fast and finite at every size."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.special import log_ndtr

from fastdp_dask.errors import ArgumentError, CalibrationError
from fastdp_dask.privacy import (
    GaussianEvent,
    MixingEvent,
    calibrate_gamma,
    calibrate_gaussian,
    compose,
    epsilon_of,
    gaussian_rdp,
    rdp_to_epsilon,
    smallest_noise,
)

EPSILONS = [0.01, 0.1, 1.0, 10.0, 50.0]
DELTAS = [1e-5, 1e-7, 1e-9, 1e-12]
PAPER_FLOOR = math.nextafter(3.125, 4.0)


@pytest.mark.parametrize("bound", ["tight", "paper"])
@pytest.mark.parametrize("k1", [1, 96, 600, 10_000])
def test_gamma_spends_the_target_and_no_more(k1: int, bound: str) -> None:
    for epsilon in EPSILONS:
        for delta in DELTAS:
            gamma = calibrate_gamma(epsilon, delta, k1, bound=bound)
            achieved = epsilon_of([MixingEvent(k1, gamma, bound)], delta)
            assert achieved <= epsilon
            assert achieved > 0.999 * epsilon or (bound == "paper" and gamma == PAPER_FLOOR)


def test_gaussian_spends_the_target_and_no_more() -> None:
    for epsilon in EPSILONS:
        for delta in DELTAS:
            for releases in (1, 3, 50):
                sigma = calibrate_gaussian(epsilon, delta, releases)
                achieved = epsilon_of([GaussianEvent(sigma, releases)], delta)
                assert 0.999 * epsilon < achieved <= epsilon


def test_gaussian_noise_is_enough_by_the_exact_formula() -> None:
    """Exact delta of the Gaussian mechanism (Balle & Wang 2018) at the calibrated noise, also for epsilon >
    1."""
    for epsilon in (0.1, 1.0, 5.0, 50.0):
        for delta in (1e-6, 1e-12, 1e-30):
            mu = 1.0 / calibrate_gaussian(epsilon, delta)
            first = log_ndtr(mu / 2 - epsilon / mu)
            second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
            assert first + math.log(-math.expm1(second - first)) <= math.log(delta)


def test_releases_multiply_rows() -> None:
    assert calibrate_gamma(1.0, 1e-9, 100, n_releases=6) == calibrate_gamma(1.0, 1e-9, 600)
    assert calibrate_gaussian(1.0, 1e-9, 4) == pytest.approx(2 * calibrate_gaussian(1.0, 1e-9), rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 50.0, 200.0, 1e3, 1e5])
@pytest.mark.parametrize("delta", [1e-12, 1e-18, 1e-30, 1e-300])
def test_extreme_targets_are_finite_and_fast(epsilon: float, delta: float) -> None:
    for calibrate in (
        lambda: calibrate_gaussian(epsilon, delta),
        lambda: calibrate_gamma(epsilon, delta, 600),
        lambda: calibrate_gamma(epsilon, delta, 600, bound="paper"),
    ):
        began = time.process_time()
        value = calibrate()
        assert time.process_time() - began < 1.0
        assert math.isfinite(value)
        assert value > 0.0
    gamma = calibrate_gamma(epsilon, delta, 600)
    assert 0.999 * epsilon < epsilon_of([MixingEvent(600, gamma)], delta) <= epsilon


def test_stricter_targets_need_more_noise() -> None:
    for calibrate in (calibrate_gaussian, lambda e, d: calibrate_gamma(e, d, 50)):
        assert (np.diff([calibrate(epsilon, 1e-9) for epsilon in np.geomspace(1e-3, 1e3, 12)]) < 0).all()
        assert (np.diff([calibrate(1.0, delta) for delta in np.geomspace(0.01, 1e-300, 12)]) > 0).all()
    assert calibrate_gamma(1.0, 1e-9, 50) < calibrate_gamma(1.0, 1e-9, 50, bound="paper")


def test_paper_floor_is_where_the_lemma_begins() -> None:
    assert calibrate_gamma(1e5, 1e-6, 10, bound="paper") == PAPER_FLOOR


def test_joint_search_over_a_shared_scale_with_a_fixed_part() -> None:
    fixed = GaussianEvent(20.0)

    def joint(scale: float) -> object:
        return compose([MixingEvent(600, 1.0 + 15.0 * scale), GaussianEvent(scale, 3), fixed])

    scale = smallest_noise(joint, 1.0, 1e-9)
    assert 0.999 < rdp_to_epsilon(joint(scale), 1e-9) <= 1.0
    assert rdp_to_epsilon(joint(scale * (1 - 1e-6)), 1e-9) > 1.0
    with pytest.raises(CalibrationError, match=r"no noise scale"):
        smallest_noise(joint, 0.01, 1e-9)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("rows", [1, 600, 10**6])
def test_a_few_trials_find_the_least_scale(rows: int, epsilon: float) -> None:
    """To a part in 1e9, as documented, and not so near that another order of the same sum may exceed the target."""
    tried: list[float] = []

    def curve(scale: float) -> object:
        tried.append(scale)
        return compose([MixingEvent(rows, 1.0 + scale)])

    scale = smallest_noise(curve, epsilon, 1e-9)
    assert scale in tried
    assert len(tried) <= 24
    assert rdp_to_epsilon(curve(scale * (1 - 2e-10)), 1e-9) <= epsilon
    assert rdp_to_epsilon(curve(scale * (1 - 1.1e-9)), 1e-9) > epsilon


def test_limits_of_the_scale_are_respected() -> None:
    def curve(scale: float) -> object:
        return lambda alpha: gaussian_rdp(alpha, scale)

    best = calibrate_gaussian(1.0, 1e-9)
    assert smallest_noise(curve, 1.0, 1e-9, lower=2 * best) == 2 * best
    with pytest.raises(CalibrationError):
        smallest_noise(curve, 1.0, 1e-9, upper=best / 2)
    for start in (1e-100, 1e-6, 1.0, 1e9, 1e100):
        assert smallest_noise(curve, 1.0, 1e-9, start=start) == pytest.approx(best, rel=2e-9)


@pytest.mark.parametrize("bad", [0, 0.0, -1.0, math.nan, math.inf, None, "one", True])
def test_bad_epsilon_is_refused_at_once(bad: object) -> None:
    began = time.process_time()
    for call in (lambda: calibrate_gaussian(bad, 1e-6), lambda: calibrate_gamma(bad, 1e-6, 10)):
        with pytest.raises(ArgumentError, match=r"^epsilon must"):
            call()
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("bad", [0, 1, 1.5, -1, math.nan, None])
def test_bad_delta_is_refused_at_once(bad: object) -> None:
    for call in (lambda: calibrate_gaussian(1.0, bad), lambda: calibrate_gamma(1.0, bad, 10)):
        with pytest.raises(ArgumentError, match=r"^delta must"):
            call()


def test_bad_counts_and_bounds_are_refused() -> None:
    for bad in (0, -1, 1.5, None, True):
        with pytest.raises(ArgumentError, match=r"^n_releases must"):
            calibrate_gaussian(1.0, 1e-6, bad)
        with pytest.raises(ArgumentError, match=r"^k1 must"):
            calibrate_gamma(1.0, 1e-6, bad)
    with pytest.raises(ArgumentError, match=r"^bound must"):
        calibrate_gamma(1.0, 1e-6, 10, bound="loose")
