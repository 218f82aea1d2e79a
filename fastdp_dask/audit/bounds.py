"""From outcomes of two neighbouring data sets to lower confidence bounds on ε.

An event of probability p on one data set and q on the other refutes a claim in two ways.

* *Directly*: an (ε, δ)-private mechanism has p ≤ e^ε q + δ, so ε ≥ log((p − δ)/q).
* *Along the curve*: one with Rényi curve ρ, outside a failure event of probability f, has for every order α
  (p − f)^α q^(1−α) + (1 − p − f)^α (1 − q)^(1−α) ≤ exp((α − 1) ρ(α))   (data processing), so that it needs the curve
  c ρ with c the largest ratio of the two exponents.  The bound is the ε to which c ρ converts at δ: the least that the
  same accountant could claim.  It uses the bulk of the outcomes where the direct bound needs the tail beyond δ.

p and q are Clopper–Pearson limits on runs that were not used to choose the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from fastdp_dask.privacy import rdp_to_epsilon
from fastdp_dask.privacy.conversion import RenyiCurve

CONFIDENCE = 1.0 - 1e-6
_CHOOSING = 0.25  # share of the runs that chooses the events
_THRESHOLDS = 96
_ORDERS = 1.0 + np.geomspace(1e-2, 1e4, 121)

Outcomes = tuple[np.ndarray, np.ndarray]
"""Scores of the runs on a data set and on its neighbour, (runs, scores) each, any number that the attacker computes."""


@dataclass(frozen=True)
class Claim:
    """What a mechanism promises.

    Attributes
    ----------
    epsilon, delta : float
    curve : callable
        Rényi curve behind it, outside a failure event.
    failure : float
        Probability of the failure event, paid within delta.
    """

    epsilon: float
    delta: float
    curve: RenyiCurve
    failure: float = 0.0


@dataclass(frozen=True)
class LowerBound:
    """Lower bounds on ε at the claimed δ, both with the stated confidence together."""

    direct: float
    curve: float

    @property
    def epsilon(self) -> float:
        """The larger one."""
        return max(self.direct, self.curve)


def lower_bound(found: Sequence[tuple[Claim, Outcomes]], confidence: float = CONFIDENCE) -> LowerBound:
    """The largest bounds over all pairs, each with its claim, and both orders of each, at the joint `confidence`.

    On a quarter of the runs the best event {±score ≥ threshold} is chosen, for each pair, order and bound; on the rest
    its two probabilities are bounded.  Each of those limits fails with an equal share of 1 − confidence (union bound),
    so that a mechanism that keeps its claim exceeds it with probability at most 1 − confidence.
    """
    failure = (1.0 - confidence) / (len(found) * 2 * 2 * 2)  # pairs, orders, bounds, limits
    direct, along = 0.0, 0.0
    for claim, (here, there) in found:
        curve = np.asarray(claim.curve(_ORDERS), dtype=float)
        factor = 0.0
        for first, second in ((here, there), (there, here)):
            chosen = [max(1, int(_CHOOSING * len(runs))) for runs in (first, second)]
            columns, thresholds, p, q = _events(first[: chosen[0]], second[: chosen[1]])
            tests = first[chosen[0] :], second[chosen[1] :]
            low, high = _limits(p * len(tests[0]), len(tests[0]), q * len(tests[1]), len(tests[1]), failure)
            for kind, merit in enumerate((_direct(low, high, claim.delta), _factor(low, high, claim, curve))):
                best = int(np.argmax(merit))
                sign, column = columns[best]
                hits = [np.count_nonzero(sign * runs[:, column] >= thresholds[best]) for runs in tests]
                limits = _limits(np.array([hits[0]]), len(tests[0]), np.array([hits[1]]), len(tests[1]), failure)
                if kind == 0:
                    direct = max(direct, float(_direct(*limits, claim.delta)[0]))
                else:
                    factor = max(factor, float(_factor(*limits, claim, curve)[0]))
        along = max(along, _converted(claim, factor))
    return LowerBound(direct, along)


def _converted(claim: Claim, factor: float) -> float:
    if factor <= 0:
        return 0.0
    left = claim.delta - claim.failure
    found = rdp_to_epsilon(lambda alpha: factor * np.asarray(claim.curve(alpha)), left)
    # A claim from a sharper account than its curve is refuted only where the curve itself is: in proportion.
    return found * min(1.0, claim.epsilon / rdp_to_epsilon(claim.curve, left))


def _events(
    first: np.ndarray, second: np.ndarray
) -> tuple[list[tuple[float, int]], np.ndarray, np.ndarray, np.ndarray]:
    """Candidate events: sign and column, threshold, and their smoothed frequencies on both sides."""
    columns: list[tuple[float, int]] = []
    thresholds, p, q = [], [], []
    total = len(first) + len(second)
    ends = np.unique(np.geomspace(1, total / 2, _THRESHOLDS // 2).astype(int))
    ranks = np.unique(np.concatenate([ends, total - ends]))
    for column in range(first.shape[1]):
        for sign in (1.0, -1.0):
            a, b = np.sort(sign * first[:, column]), np.sort(sign * second[:, column])
            at = np.sort(np.concatenate([a, b]))[ranks]
            columns += [(sign, column)] * len(at)
            thresholds.append(at)
            # One more miss for p and one more hit for q: an event never seen has no zero probability.
            p.append((len(a) - np.searchsorted(a, at)) / (len(a) + 1))
            q.append((len(b) - np.searchsorted(b, at) + 1) / (len(b) + 1))
    return columns, np.concatenate(thresholds), np.concatenate(p), np.concatenate(q)


def _limits(
    hits: np.ndarray, runs: int, other_hits: np.ndarray, other_runs: int, failure: float
) -> tuple[np.ndarray, np.ndarray]:
    """Clopper–Pearson: a lower limit on p and an upper one on q, each wrong with probability at most `failure`."""
    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-9), runs - hits + 1, failure), 0.0)
    missed = other_runs - other_hits
    # The upper limit through the misses, where the small tail is exact in floating point.
    high = np.where(missed > 0, 1.0 - betaincinv(np.maximum(missed, 1e-9), other_hits + 1, failure), 1.0)
    return low, high


def _direct(low: np.ndarray, high: np.ndarray, delta: float) -> np.ndarray:
    return np.log(np.maximum(low - delta, 1e-300)) - np.log(high)


def _factor(low: np.ndarray, high: np.ndarray, claim: Claim, curve: np.ndarray) -> np.ndarray:
    """c: over all orders, the largest ratio of the divergence of the two outcomes to the claimed curve."""
    inside, outside = low - claim.failure, 1.0 - low - claim.failure
    useful = inside > high  # there the left side grows with p and falls with q, so that limits may replace them
    p, r, q = (np.log(np.where(useful, np.maximum(part, 1e-300), 0.5))[:, None] for part in (inside, outside, high))
    rest = np.log1p(-np.where(useful, high, 0.5))[:, None]
    slope = _ORDERS - 1.0
    divergence = np.logaddexp(_ORDERS * p - slope * q, _ORDERS * r - slope * rest) / slope
    ratios = np.where(np.isfinite(curve) & (curve > 0), divergence / np.where(curve > 0, curve, 1.0), 0.0)
    return np.where(useful, np.max(ratios, axis=1), 0.0)
