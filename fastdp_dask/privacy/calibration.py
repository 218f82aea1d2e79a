"""The least noise that keeps a mechanism within (epsilon, delta)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from scipy.optimize import brentq

from fastdp_dask import _validate
from fastdp_dask.errors import CalibrationError
from fastdp_dask.privacy.conversion import RenyiCurve, check_delta, rdp_to_epsilon
from fastdp_dask.privacy.events import GaussianEvent, MixingEvent, compose
from fastdp_dask.privacy.rdp import PAPER_GAMMA_FLOOR
from fastdp_dask.privacy.theorem1 import BOUNDS

SCALE_LIMITS = (2.0**-400, 2.0**400)
_TOLERANCE = 1e-9
_FAR = 1e3  # logarithms of floats stay within it


def smallest_noise(
    curve_of_scale: Callable[[float], RenyiCurve],
    epsilon: float,
    delta: float,
    *,
    lower: float = SCALE_LIMITS[0],
    upper: float = SCALE_LIMITS[1],
    start: float = 1.0,
) -> float:
    """Smallest scale whose Rényi curve converts to at most epsilon at delta.

    scale* = min { s in [lower, upper] : rdp_to_epsilon(curve_of_scale(s), delta) <= epsilon }.

    Parameters
    ----------
    curve_of_scale : callable
        scale -> Rényi curve (vectorised in the order); the curve must not grow with the scale.  It may be the
        sum of several mechanisms that share the scale, with fixed ones added.
    epsilon, delta : float
        Target; epsilon finite and > 0, 1e-300 <= delta < 1.
    lower, upper : float
        Positive limits of the scale.
    start : float
        Where the search begins; only its speed depends on it.

    Returns
    -------
    float
        A scale within 1e-9 (relative) above the smallest one.  It is always one that was itself converted and
        found to be within epsilon: the safe side.

    Raises
    ------
    CalibrationError
        Not even `upper` keeps within epsilon: the fixed part of the curve costs more than that.
    """
    target = _validate.epsilon(epsilon)
    check_delta(delta)

    @functools.cache
    def excess(scale: float) -> float:
        """log(epsilon / target), which is close to a line in log(scale)."""
        ratio = rdp_to_epsilon(curve_of_scale(scale), delta) / target
        return max(-_FAR, min(math.log(ratio), _FAR)) if ratio > 0.0 else -_FAR

    bad, good = _bracket(lambda scale: excess(scale) <= 0.0, lower, upper, min(max(start, lower), upper))
    if good is None:
        raise CalibrationError(
            f"no noise scale up to {upper:g} satisfies epsilon={target!r} at delta={float(delta)!r}: "
            f"expected a curve that falls with the scale. Raise epsilon or delta, or lower the fixed costs."
        )
    return good if bad is None else _smallest_between(excess, bad, good)


def calibrate_gamma(
    epsilon: float, delta: float, k1: int, n_releases: int = 1, bound: str = "tight"
) -> float:
    """Smallest noise level gamma at which n_releases * k1 mixed rows cost at most epsilon at delta.

    gamma* = min { gamma : min over alpha of n_releases k1 curve(alpha; gamma) converted at delta <= epsilon
    }.

    Parameters
    ----------
    epsilon, delta : float
        Target; epsilon finite and > 0, 1e-300 <= delta < 1.
    k1 : int
        Rows in one release, >= 1.
    n_releases : int
        Releases at this level, >= 1.
    bound : {"tight", "paper"}
        Curve of one row: `mixing_rdp` (gamma > 1) or `fast_mixing_rdp_paper` (gamma > 25/8).

    Returns
    -------
    float
        gamma on the safe side.  For "paper" the result is never below the first float above 25/8, where the
        lemma begins, even if less noise were enough.

    Raises
    ------
    ArgumentError
        An argument is out of range.
    CalibrationError
        No gamma is large enough.

    Notes
    -----
    Source of the curves: GM and FM, Lemma 1; of the conversion: Canonne, Kamath & Steinke (2020),
    Proposition 12.
    """
    rows = _validate.count("k1", k1) * _validate.count("n_releases", n_releases)
    tight = _validate.choice("bound", bound, BOUNDS) == "tight"
    # The search runs over gamma - 1: near gamma = 1 that is what the cost is smooth in.
    offset = 1.0 if tight else 0.0
    lower = 2.0**-40 if tight else math.nextafter(PAPER_GAMMA_FLOOR, math.inf)

    def curve_of_scale(scale: float) -> RenyiCurve:
        return compose([MixingEvent(rows, offset + scale, bound)])  # as the account will see it, bit for bit

    start = max(1.0, math.sqrt(rows) / _validate.epsilon(epsilon))
    return offset + smallest_noise(curve_of_scale, epsilon, delta, lower=lower, start=start)


def calibrate_gaussian(epsilon: float, delta: float, n_releases: int = 1) -> float:
    """Smallest noise multiplier sigma of n_releases adaptive Gaussian releases within (epsilon, delta).

    sigma* = min { sigma : n_releases alpha / (2 sigma²) converted at delta <= epsilon }.

    Parameters
    ----------
    epsilon, delta : float
        Target; epsilon finite and > 0, 1e-300 <= delta < 1.
    n_releases : int
        Number of releases, >= 1.

    Returns
    -------
    float
        Standard deviation of the noise over the sensitivity of the query, on the safe side.

    Raises
    ------
    ArgumentError
        An argument is out of range.

    Notes
    -----
    Source: Mironov (2017), Proposition 7; Canonne, Kamath & Steinke (2020), Proposition 12.
    """
    releases = _validate.count("n_releases", n_releases)

    def curve_of_scale(scale: float) -> RenyiCurve:
        return compose([GaussianEvent(scale, releases)])

    return smallest_noise(curve_of_scale, epsilon, delta)


def _bracket(
    fits: Callable[[float], bool], lower: float, upper: float, start: float
) -> tuple[float | None, float | None]:
    """(largest scale known not to fit, smallest known to fit); None at a limit.  At most two dozen trials."""
    factor = 4.0
    if fits(start):
        good = start
        while good > lower:
            trial = max(lower, good / factor)
            if not fits(trial):
                return trial, good
            good, factor = trial, min(factor**2, 2.0**64)
        return None, good
    bad = start
    while bad < upper:
        trial = min(upper, bad * factor)
        if fits(trial):
            return bad, trial
        bad, factor = trial, min(factor**2, 2.0**64)
    return bad, None


def _smallest_between(excess: Callable[[float], float], bad: float, good: float) -> float:
    """A scale in (bad, good] without excess, itself tried, 0.4 to 1 times _TOLERANCE above the least such scale.

    The distance is for whoever sums up the same cost in another order and rounds up again.  A straight line through
    two trials is nearly the curve: three to eight trials, where halving takes thirty.
    """
    width = math.log(good) - math.log(bad)

    def scale_at(share: float) -> float:
        return good if share >= 1.0 else bad * math.exp(share * width)

    near = 0.1 * _TOLERANCE / width
    root = float(brentq(lambda part: excess(scale_at(part)), 0.0, 1.0, xtol=near, rtol=2.0**-50, maxiter=500))
    share = root + 5.0 * near
    while excess(scale_at(share)) > 0.0:  # where the curve is as rough as its rounding
        share, near = share + near, 2.0 * near
    return scale_at(share)
