"""Privacy losses on a lattice, rounded so that the hockey-stick curve can only grow.

The loss of a pair (P, Q) is L = log dP/dQ under P, and delta(epsilon) = E_P[(1 - exp(epsilon - L))+].  The integrand
is convex in x = exp(-L), so moving the mass of a cell [l, l + h] to its two ends, with its P-mass and its Q-mass =
E_P[x; cell] kept, never lowers delta, for no epsilon and in no composition (Doroshenko, Ghazi, Kamath, Kumar &
Manurangsi, 2022, "Connect the Dots"); its error is of second order in h.  Mass below the first lattice point moves up
to it; mass above the last one counts as delta.

Error analysis, u = 2**-53.  Cells are defined by their edges in the *statistic*, which are exact floats; a loss at an
edge is then off its lattice point by at most `drift`, which the caller subtracts from epsilon and which lowers the
Q-mass kept by the factor exp(-drift).  A tail probability is trusted to the relative LIBRARY_SLACK = 2**-34 (measured
against 40 digits: 6e-12 at most for chi-square tails of 1 to 1e5 degrees, down to 1e-300), plus the effect of its
rounded argument: `conditioning` bounds |d log tail / d log argument| in units of 8u.  The mass of a cell is the
difference of the two lower or the two upper tails, whichever are smaller; both slacks enter with the sum of the
tails, P-masses up and Q-masses down.  Afterwards everything is a sum of products of non-negative numbers, so an error
is relative and at most a few u for each step: the caller's 2**-36 covers 2**14 steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv, ndtr, ndtri

LIBRARY_SLACK = 2.0**-34
_LOWER = 1e-8  # what lies below contributes less than the rest does, in proportion: cut there
_TINY = 1e-306

Tails = tuple[np.ndarray, np.ndarray, np.ndarray]
"""P or Q of {L <= edge} and of {L > edge}, and the relative slack of both."""


@dataclass(frozen=True)
class Losses:
    """Mass `weights[i]` at loss step * (first + i), `top` at infinity; the true loss is at most `drift` larger."""

    first: int
    weights: np.ndarray
    top: float
    drift: float

    def plus(self, other: Losses) -> Losses:
        """The loss of both releases, made independently."""
        weights = np.convolve(self.weights, other.weights)
        return Losses(self.first + other.first, weights, self.top + other.top, self.drift + other.drift)


NO_LOSS = Losses(0, np.ones(1), 0.0, 0.0)


def shrunk(rows: int, part: float, gamma: float, step: float, tail: float) -> Losses:
    """Loss of U = sum of `rows` squares, N(0, 1) before and N(0, 1 - part/gamma) after, 0 <= part <= 1 < gamma.

    L = rows/2 log(1 - a) + a/(1 - a) U/2, a = part/gamma, U ~ chi-square under P, (1 - a) chi-square under Q.
    """
    if part == 0.0 or rows == 0:
        return NO_LOSS
    a, kept = part / gamma, (gamma - part) / gamma
    start = 0.5 * rows * (math.log1p(-a) if a < 0.5 else math.log(kept))
    rate = 0.5 * part / (gamma - part)
    low, high = 2.0 * gammaincinv(0.5 * rows, _LOWER), 2.0 * gammainccinv(0.5 * rows, tail)

    def tails(loss: np.ndarray, scale: float) -> Tails:
        u = np.maximum((loss - start) / rate, 0.0)
        half = 0.5 * u / scale
        slack = LIBRARY_SLACK + 2.0**-50 * (rows + 2.0 * half + 2.0)
        return gammainc(0.5 * rows, half), gammaincc(0.5 * rows, half), slack

    drift = 2.0**-48 * (abs(start) + rate * high)
    return _on_lattice(
        step, start + rate * low, start + rate * high, drift, lambda e: tails(e, 1.0), lambda e: tails(e, kept)
    )


def grown(rows: int, part: float, gamma: float, step: float, tail: float) -> Losses:
    """Loss of V = sum of `rows` squares, N(0, 1) before and N(0, 1 + part/gamma) after, part >= 0.

    L = rows/2 log(1 + b) - b/(1 + b) V/2, b = part/gamma, V ~ chi-square under P, (1 + b) chi-square under Q.
    """
    if part == 0.0 or rows == 0:
        return NO_LOSS
    start = 0.5 * rows * math.log1p(part / gamma)
    rate = 0.5 * part / (gamma + part)
    low, high = 2.0 * gammaincinv(0.5 * rows, tail), 2.0 * gammainccinv(0.5 * rows, _LOWER)

    def tails(loss: np.ndarray, scale: float) -> Tails:
        v = np.maximum((start - loss) / rate, 0.0)
        half = 0.5 * v / scale
        slack = LIBRARY_SLACK + 2.0**-50 * (rows + 2.0 * half + 2.0)
        return gammaincc(0.5 * rows, half), gammainc(0.5 * rows, half), slack

    drift = 2.0**-48 * (abs(start) + rate * high)
    scale = (gamma + part) / gamma
    return _on_lattice(
        step, start - rate * high, start - rate * low, drift, lambda e: tails(e, 1.0), lambda e: tails(e, scale)
    )


def shifted(mu: float, step: float, tail: float) -> Losses:
    """Loss of N(0, 1) before and N(mu, 1) after: N(mu²/2, mu²) under P and N(-mu²/2, mu²) under Q."""
    if mu == 0.0:
        return NO_LOSS
    centre = 0.5 * mu * mu

    def tails(loss: np.ndarray, middle: float) -> Tails:
        z = (loss - middle) / mu
        slack = LIBRARY_SLACK + 2.0**-50 * (np.abs(z) + 1.0) * (np.abs(loss) + centre) / mu
        return ndtr(z), ndtr(-z), slack

    low, high = centre + mu * ndtri(_LOWER), centre - mu * ndtri(tail)
    return _on_lattice(step, low, high, 0.0, lambda e: tails(e, centre), lambda e: tails(e, -centre))


def _on_lattice(
    step: float,
    low: float,
    high: float,
    drift: float,
    tails_before: Callable[[np.ndarray], Tails],
    tails_after: Callable[[np.ndarray], Tails],
) -> Losses:
    first, last = math.floor(low / step), math.ceil(high / step)
    edges = step * np.arange(first, max(last, first + 1) + 1)
    drift += 2.0**-48 * max(abs(edges[0]), abs(edges[-1]))
    below, above, slack = tails_before(edges)
    before = _between(below, above, slack, 1.0) + _TINY
    after = np.maximum(_between(*tails_after(edges), -1.0), 0.0)
    # after * exp(loss), which is near `before`, without overflow of the exponential where `after` is minute.
    known = after > 0.0
    logarithm = np.log(after, out=np.zeros_like(after), where=known)
    rounding = drift + 2.0**-50 * (np.abs(logarithm) + np.abs(edges[:-1]) + 4.0)
    kept = np.exp(np.where(known, logarithm + edges[:-1] - rounding, -np.inf))
    upper = np.clip((before - kept) / -math.expm1(-step) * (1.0 + 2.0**-48), 0.0, before)
    weights = np.zeros(edges.size)
    weights[:-1] = before - upper
    weights[1:] += upper
    weights[0] += below[0] * (1.0 + slack[0])
    return Losses(first, weights, float(above[-1] * (1.0 + slack[-1])) + _TINY, drift)


def _between(below: np.ndarray, above: np.ndarray, slack: np.ndarray, sign: float) -> np.ndarray:
    """Mass between neighbouring edges, certainly not below (sign = 1) or not above (sign = -1) the exact one."""
    left = below[1:] <= 0.5
    mass = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
    down, up = slack * below, slack * above
    return np.asarray(mass + sign * np.where(left, down[1:] + down[:-1], up[1:] + up[:-1]))
