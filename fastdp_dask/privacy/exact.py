"""The exact privacy curve of one mixing release composed with Gaussian releases, bounded from above.

A record moves the whitened covariance of one mixed row from I to diag(1 - a, 1 + b, 1, ...), a, b >= 0, a + b <=
1/gamma, in either order of the pair (the change of the Gram matrix is (x + d)(x + d)' - d d', of one positive and one
negative eigenvalue at most).  A larger a or b is worse: multiply by sqrt(a/a') and add N(0, 1 - a/a') to get from
N(0, 1) against N(0, 1 - a') to N(0, 1) against N(0, 1 - a); likewise for b.  So the few corners (a', b') of a
staircase over the triangle dominate every pair, and rows i.i.d. given (a, b) have the two sums of squares as
sufficient statistics.

The *pointwise* largest of the corners' curves is convex, non-increasing, and so the curve of a pair that dominates the
block of rows whatever (a, b) is, even if the added variance, and with it (a, b), follows from earlier releases.  It
is composed with one Gaussian N(0, 1) against N(mu, 1), which dominates all Gaussian releases together, before and
after the block (Zhu, Dong & Wang, 2022, "Optimal accounting of differential privacy via characteristic function",
Proposition 8 and Theorem 10).  What must be fixed in advance is gamma, the number of rows and the noise multipliers;
and the rows must be one block: one covariance for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_banded

from fastdp_dask import _validate
from fastdp_dask.privacy._losses import NO_LOSS, grown, shifted, shrunk
from fastdp_dask.privacy.conversion import RenyiCurve, check_delta, rdp_to_epsilon
from fastdp_dask.privacy.events import Event, FailureEvent, GaussianEvent, MixingEvent, compose, delta_left, epsilon_of
from fastdp_dask.privacy.rdp import check_gamma

# Corners (1 - s_k, s_{k+1})/gamma: (1 - s_k)² + s_{k+1}² stays within 1e-4 of 1, so that no corner costs more than
# rank one (1, 0) by more than about 5e-5 of epsilon.  Multiples of 2**-10: the complements are exact.
_KNOTS = np.array([0.0, 10.0, 144.0, 525.0, 894.0, 1016.0, 1024.0]) / 1024.0
_STEPS = 64.0  # lattice points to one standard deviation of the loss: costs about 1/(4 * 64²) of epsilon
_RELATIVE = 2.0**-30  # of epsilon, for the search
_SLACK = 2.0**-36
_LEAST_TAIL = 1e-300


def mixing_delta(epsilon: float, rows: int, gamma: float, mu: float) -> float:
    """Certified upper bound on delta(epsilon) of one mixing block and all Gaussian releases around it.

    With g_mu(e) = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) and U, V ~ chi-square of `rows` degrees,
    delta <= E_{l ~ N(mu²/2, mu²)} max over corners (a, b) of E_{U,V}[(1 - exp(epsilon - l - L(U, V)))+]
    (without the maximum E g_mu(epsilon - L)),
    L = rows/2 log((1 - a)(1 + b)) + a/(1 - a) U/2 - b/(1 + b) V/2.

    Parameters
    ----------
    epsilon : float
        >= 0 and finite.
    rows : int
        Rows of the block, >= 0: i.i.d. given one covariance.
    gamma : float
        Public noise level, > 1, fixed in advance.
    mu : float
        sqrt(sum of count / noise_multiplier²) of the Gaussian releases, >= 0 and finite, fixed in advance.

    Returns
    -------
    float
        delta in [0, 1], never below the exact value for any pair of neighbours, in either order; about 1 per cent
        above that of the rank-one pair.

    Raises
    ------
    ArgumentError
        An argument is out of range.

    Notes
    -----
    Error analysis: `fastdp_dask.privacy._losses`.
    """
    level = _validate.not_negative("epsilon", epsilon)
    rows, gamma, mu = _checked(rows, gamma, mu)
    tail = 1e-24
    while True:
        delta = _Curve(rows, gamma, mu, tail).delta(level)
        if tail <= max(1e-4 * delta, _LEAST_TAIL):
            return min(1.0, delta)
        tail = max(tail * tail, _LEAST_TAIL)


def mixing_epsilon(rows: int, gamma: float, mu: float, delta: float) -> float:
    """Certified epsilon of one mixing block and all Gaussian releases around it, at delta.

    epsilon = min { epsilon : mixing_delta(epsilon, rows, gamma, mu) <= delta }, and never above what the Rényi sum
    converts to: both bounds hold, the smaller is returned.

    Parameters
    ----------
    rows, gamma, mu
        As in `mixing_delta`.
    delta : float
        Public, 1e-300 <= delta < 1.

    Returns
    -------
    float
        epsilon >= 0; 5 to 10 per cent below the Rényi value for many rows, and within 5e-4 of that of the rank-one
        pair (1 - 1/gamma, no growth), which is a lower bound.

    Raises
    ------
    ArgumentError
        An argument is out of range.
    """
    return _mixing_epsilon(*_checked(rows, gamma, mu), check_delta(delta))


@lru_cache(maxsize=256)  # whoever plans, pays and verifies asks for the same number, which takes as long as a small fit
def _mixing_epsilon(rows: int, gamma: float, mu: float, target: float) -> float:
    upper = rdp_to_epsilon(_renyi(rows, gamma, mu), target)
    return _smallest(_Curve(rows, gamma, mu, max(1e-9 * target, _LEAST_TAIL)), target, upper)


def certified_epsilon(events: Iterable[Event], delta: float) -> float:
    """epsilon of events at a total delta: by the exact curve where it applies, else as `epsilon_of`.

    It applies to one tight `MixingEvent`, whose rows are one block (one covariance, as in one draw of a Wishart
    matrix), with any number of Gaussian and failure events.

    Parameters
    ----------
    events : iterable of Event
        Everything that was or will be released; the noises fixed in advance.
    delta : float
        Total delta, 1e-300 <= delta < 1; the failure events are paid from it first.

    Returns
    -------
    float
        epsilon >= 0, never above `epsilon_of(events, delta)`.

    Raises
    ------
    ArgumentError
        delta is out of range, or the failure events leave nothing of it.
    """
    listed = tuple(events)
    curves = [event for event in listed if not isinstance(event, FailureEvent) and event.multiplicity]
    blocks = [event for event in curves if isinstance(event, MixingEvent)]
    gaussians = [event for event in curves if isinstance(event, GaussianEvent)]
    renyi = epsilon_of(listed, delta)
    if len(blocks) != 1 or len(blocks) + len(gaussians) < len(curves) or blocks[0].bound != "tight":
        return renyi
    mu = mu_of(gaussians)
    return min(renyi, mixing_epsilon(blocks[0].rows, blocks[0].gamma, mu, delta_left(listed, delta)))


def mu_of(events: Iterable[GaussianEvent]) -> float:
    """sqrt(sum of count / noise_multiplier²), rounded up: one Gaussian that dominates them all."""
    return math.sqrt(sum(e.count / e.noise_multiplier**2 for e in events)) * (1.0 + 2.0**-48)


def _checked(rows: int, gamma: float, mu: float) -> tuple[int, float, float]:
    shift = _validate.not_negative("mu", mu)
    least = 1e-100 if shift > 0.0 else 0.0  # 1/mu stays finite
    return _validate.count("rows", rows, minimum=0), check_gamma(gamma, 1.0), max(shift, least)


def _renyi(rows: int, gamma: float, mu: float) -> RenyiCurve:
    events: list[Event] = [MixingEvent(rows, gamma)]
    if mu > 0.0:
        events.append(GaussianEvent(1.0 / mu * (1.0 - 2.0**-50)))
    return compose(events)


class _Curve:
    """The composed curve for one (rows, gamma, mu); cheap to evaluate at many epsilons."""

    def __init__(self, rows: int, gamma: float, mu: float, tail: float, corners: int | None = None) -> None:
        deviation = math.hypot(math.sqrt(0.5 * rows) / (gamma - 1.0), mu)
        self._step = step = deviation / _STEPS if deviation > 0.0 else 1.0
        self._gaussian = shifted(mu, step, tail)
        blocks = [NO_LOSS]
        if rows:
            pairs = list(zip(1.0 - _KNOTS[:-1], _KNOTS[1:], strict=True))[:corners]
            blocks = [
                shrunk(rows, float(a), gamma, step, tail).plus(grown(rows, float(b), gamma, step, tail))
                for a, b in pairs
            ]
        self._first = min(block.first for block in blocks)
        size = max(block.first + block.weights.size for block in blocks) - self._first
        weights = np.zeros((size, len(blocks)))
        for j, block in enumerate(blocks):
            at = block.first - self._first
            weights[at : at + block.weights.size, j] = block.weights
        # beyond[i] = mass above lattice point i - 1; the curve at point i, h_i = E(1 - exp(point_i - L))+, is
        # h_i = beyond[i + 1] (1 - exp(-step)) + exp(-step) h_{i+1}: no differences of close numbers.
        self._beyond = np.zeros((size + 1, len(blocks)))
        self._beyond[:-1] = np.cumsum(weights[::-1], axis=0)[::-1]
        band = np.ones((2, size))
        band[0] = -math.exp(-step)
        self._curve = np.zeros((size + 1, len(blocks)))
        self._curve[:-1] = solve_banded((0, 1), band, -math.expm1(-step) * self._beyond[1:])
        self._top = np.array([block.top for block in blocks])
        span = step * (abs(self._first) + size + abs(self._gaussian.first) + self._gaussian.weights.size)
        self._drift = max(block.drift for block in blocks) + self._gaussian.drift + 2.0**-48 * span

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta(epsilon)."""
        level = epsilon - 2.0**-48 * abs(epsilon) - self._drift
        point = math.ceil(level / self._step)
        ahead = min(max(self._step * point - level, 0.0), self._step)
        # level - (loss of the Gaussian) lies `ahead` before lattice point `at`.
        at = point - self._first - self._gaussian.first - np.arange(self._gaussian.weights.size)
        inside = np.clip(at, 0, self._curve.shape[0] - 1)
        before = self._step * np.maximum(-at, 0) + ahead
        share = np.exp(-before)[:, None]
        block = -np.expm1(-before)[:, None] * self._beyond[inside] + share * self._curve[inside] + self._top
        return float(self._gaussian.weights @ block.max(axis=1)) * (1.0 + _SLACK) + self._gaussian.top + 1e-304


def _smallest(curve: _Curve, delta: float, upper: float) -> float:
    """Least epsilon in [0, upper] whose delta fits, within _RELATIVE above it; `upper` is known to fit."""
    if curve.delta(0.0) <= delta:
        return 0.0
    bad, good = 0.0, upper
    if not math.isfinite(upper):
        good = 1.0
        while curve.delta(good) > delta:
            if good > 1e9:
                return upper
            bad, good = good, 4.0 * good
    while good - bad > _RELATIVE * good:
        middle = 0.5 * (bad + good)
        if curve.delta(middle) <= delta:
            good = middle
        else:
            bad = middle
    return good
