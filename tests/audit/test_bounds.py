"""The bounds: against SciPy's intervals, hand calculation, and their stated confidence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fastdp_dask import privacy
from fastdp_dask.audit import bounds
from fastdp_dask.audit.bounds import CONFIDENCE, Claim, lower_bound
from fastdp_dask.privacy import GaussianEvent

CURVE = privacy.compose([GaussianEvent(2.0, 1)])
CLAIM = Claim(privacy.rdp_to_epsilon(CURVE, 1e-5), 1e-5, CURVE)


def gaussian_runs(mean: float, scale: float, runs: int, seed: int) -> np.ndarray:
    return mean + scale * np.random.default_rng(seed).standard_normal((runs, 1))


def test_limits_are_clopper_pearson() -> None:
    for hits, runs in ((0, 50), (1, 50), (20, 50), (49, 50), (50, 50), (3, 100_000)):
        for failure in (0.05, 1e-7):
            low, high = bounds._limits(np.array([hits]), runs, np.array([hits]), runs, failure)
            test = stats.binomtest(hits, runs).proportion_ci(1 - 2 * failure, "exact")
            # SciPy finds them by root search to 1e-12 or so.
            np.testing.assert_allclose([low[0], high[0]], [test.low, test.high], rtol=1e-6, atol=1e-11)


def test_curve_bound_by_hand() -> None:
    """One order at a time: D_α of two coins over α/(2σ²)."""
    p, q, failure = 0.3, 0.1, 1e-3
    a = bounds._ORDERS[bounds._ORDERS < 50]  # beyond them the powers leave the floats, and lower orders are worse
    both = (p - failure) ** a * q ** (1 - a) + (1 - p - failure) ** a * (1 - q) ** (1 - a)
    expected = np.max(np.log(both) / (a - 1) / (a / 8))
    claim = Claim(1.0, 1e-5, CURVE, failure)
    found = bounds._factor(np.array([p]), np.array([q]), claim, np.asarray(CURVE(bounds._ORDERS)))
    assert found[0] == pytest.approx(expected, rel=1e-9)
    assert bounds._factor(np.array([q]), np.array([p]), claim, np.asarray(CURVE(bounds._ORDERS)))[0] == 0.0


def test_a_gaussian_at_its_claim_stays_within_and_comes_near() -> None:
    pairs = [(CLAIM, (gaussian_runs(1.0, 2.0, 200_000, 1), gaussian_runs(0.0, 2.0, 200_000, 2)))]
    found = lower_bound(pairs)
    assert 0.7 * CLAIM.epsilon < found.epsilon <= CLAIM.epsilon
    assert found.direct < 0.9 * found.curve


def test_a_claim_sharper_than_its_curve_is_refuted_only_with_the_curve() -> None:
    outcomes = gaussian_runs(1.0, 2.0, 100_000, 11), gaussian_runs(0.0, 2.0, 100_000, 12)
    sharp = Claim(0.7 * CLAIM.epsilon, 1e-5, CURVE)
    found, plain = (lower_bound([(claim, outcomes)]) for claim in (sharp, CLAIM))
    assert plain.curve > sharp.epsilon  # what the curve alone would say
    assert found.curve == pytest.approx(0.7 * plain.curve, rel=1e-9)
    assert found.curve < sharp.epsilon
    loose = Claim(1.5 * CLAIM.epsilon, 1e-5, CURVE)
    assert lower_bound([(loose, outcomes)]).curve == plain.curve


def test_half_the_noise_is_refuted() -> None:
    found = lower_bound([(CLAIM, (gaussian_runs(1.0, 1.0, 20_000, 3), gaussian_runs(0.0, 1.0, 20_000, 4)))])
    assert found.epsilon > 1.2 * CLAIM.epsilon


def test_the_order_of_neighbours_does_not_matter() -> None:
    here, there = gaussian_runs(1.0, 1.0, 5000, 5), gaussian_runs(0.0, 1.0, 5000, 6)
    assert lower_bound([(CLAIM, (here, there))]) == lower_bound([(CLAIM, (there, here))])


def test_equal_laws_give_nothing_and_disjoint_ones_much() -> None:
    same = [(CLAIM, (gaussian_runs(0.0, 1.0, 20_000, 7), gaussian_runs(0.0, 1.0, 20_000, 8)))]
    assert lower_bound(same).epsilon == 0.0
    # Two constants: of 1,500 runs each, none on the wrong side.  p ≥ 1 − x, q ≤ x with (1 − x)^1500 = failure.
    apart = [(CLAIM, (np.ones((2000, 1)), np.zeros((2000, 1))))]
    x = -math.expm1(math.log((1 - CONFIDENCE) / 8) / 1500)
    assert lower_bound(apart).direct == pytest.approx(math.log((1 - x - 1e-5) / x), rel=1e-6)


def test_only_one_score_of_many_tells() -> None:
    noise = np.random.default_rng(9).standard_normal((2, 20_000, 5))
    noise[0, :, 3] -= 1.0
    assert lower_bound([(CLAIM, (noise[0], noise[1]))]).epsilon > CLAIM.epsilon


def test_coverage_at_a_low_confidence() -> None:
    """Randomized response attains its claim: it may exceed it in at most 1 − confidence of all audits.

    At confidence 0.8 more than 97 of 300 audits would do so by chance with probability 1e-6 or less.
    """
    epsilon = 1.0
    truth = 1 / (1 + math.exp(-epsilon))
    random = np.random.default_rng(10)

    def flat(alpha: Any) -> Any:  # D_α of the two answers
        a = np.asarray(alpha)
        powers = np.logaddexp(
            a * math.log(truth) + (1 - a) * math.log(1 - truth), a * math.log(1 - truth) + (1 - a) * math.log(truth)
        )
        return powers / (a - 1)

    claim = Claim(epsilon, 1e-5, flat)
    above = 0
    ceiling = privacy.rdp_to_epsilon(flat, 1e-5)
    for _ in range(300):
        here, there = (random.random((400, 1)) < p for p in (truth, 1 - truth))
        found = lower_bound([(claim, (here.astype(float), there.astype(float)))], confidence=0.8)
        above += found.direct > epsilon or found.curve > ceiling
    assert stats.binom.sf(97, 300, 0.2) < 1e-6
    assert above <= 97
