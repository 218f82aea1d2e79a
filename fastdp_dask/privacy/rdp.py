"""Rényi curves: order alpha -> largest Rényi divergence of one release, one function per mechanism.

Neighbours: one record is blanked (replaced by the zero row), in either direction.  Each curve holds for both
orders of the pair, is +inf outside its stated orders, and is never below the exact value (see `_rounding`).
All arguments are public.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy._rounding import round_up
from fastdp_dask.privacy._series import exp_remainder_ratio, log_remainder_ratio

PAPER_GAMMA_FLOOR = 25.0 / 8.0

# 1 - y - y**2/4 = (1 - _PLUS y)(1 + _MINUS y): the papers' curve is a sum of two tight ones.
_PLUS = (1.0 + math.sqrt(2.0)) / 2.0
_MINUS = 0.25 / _PLUS


def mixing_rdp(alpha: ArrayLike, gamma: float) -> float | np.ndarray:
    """Tight Rényi curve of one row of a Gaussian or fast mixing release.

    phi(alpha; gamma) = [alpha log(1 - 1/gamma) - log(1 - alpha/gamma)] / (2 (alpha - 1)),  1 < alpha < gamma.

    One row is N(0, Sigma) before, and N(0, Sigma - E) or N(0, Sigma + E) after, a record is blanked.  The
    bound needs only the nuclear norm ||Sigma^(-1/2) E Sigma^(-1/2)|| <= 1/gamma at one of the two data sets:
    with whitened eigenvalues e_j the divergence is a sum of g(e_j)/(2 (alpha-1)), g(y) = alpha log(1-y) -
    log(1 - alpha y), and g is convex with g(0) = 0, hence superadditive, with g(-y) <= g(y); the other order
    has a smaller summand.  So the whole sum is at most g(1/gamma), and d = 1 attains it.

    Parameters
    ----------
    alpha : float or array of floats
        Orders; any shape.  An order outside (1, gamma) gives +inf.
    gamma : float
        Public noise level, > 1 and finite: smallest eigenvalue of Sigma over the sensitivity of the Gram
        matrix.

    Returns
    -------
    float or ndarray
        The curve at `alpha`, same shape.

    Raises
    ------
    ArgumentError
        gamma is not a finite number > 1, or alpha holds nan.

    Notes
    -----
    With t = alpha - 1 and w = 1/(gamma - 1):  2 phi = [w - log(1 + w)] + [-log(1 - t w) - t w] /
    t, two non-negative terms and no cancellation anywhere.  Source: GM and IHM for one Gaussian row; for the
    fast mixing release the same curve replaces FM, Lemma 1.
    """
    level = check_gamma(gamma, 1.0)

    def inside(order: np.ndarray) -> np.ndarray:
        return _factor(order, level, 1.0)

    return _evaluate(alpha, level, inside)


def fast_mixing_rdp_paper(alpha: ArrayLike, gamma: float) -> float | np.ndarray:
    """Rényi curve of one row of FastMix as printed in FM, Lemma 1.

    phibar(alpha; gamma) = [alpha log(1 - 1/gamma - 1/(4 gamma²)) - log(1 - alpha/gamma - alpha²/(4 gamma²))]
    / (2 (alpha - 1)),  1 < alpha < 4 gamma / 5,  gamma > 25/8.

    Parameters
    ----------
    alpha : float or array of floats
        Orders; any shape.  An order outside (1, 4 gamma / 5) gives +inf.
    gamma : float
        Public noise level, > 25/8 and finite.

    Returns
    -------
    float or ndarray
        The curve at `alpha`, same shape; 1.5 to 2.4 times `mixing_rdp`.

    Raises
    ------
    ArgumentError
        gamma is not a finite number > 25/8, or alpha holds nan.

    Notes
    -----
    1 - y - y²/4 = (1 - a y)(1 + b y) with a = (1 + sqrt 2)/2, b = 1/(4a).  Each factor gives the
    two non-negative terms of `mixing_rdp` at gamma/a and at -gamma/b.
    """
    level = check_gamma(gamma, PAPER_GAMMA_FLOOR)

    def inside(order: np.ndarray) -> np.ndarray:
        return np.asarray(_factor(order, level, _PLUS) + _factor(order, level, -_MINUS))

    return _evaluate(alpha, 0.8 * level, inside)


def gaussian_rdp(alpha: ArrayLike, sigma: float, sensitivity: float = 1.0) -> float | np.ndarray:
    """Rényi curve of Gaussian noise: alpha sensitivity² / (2 sigma²), alpha > 1.

    Parameters
    ----------
    alpha : float or array of floats
        Orders; any shape.  An order <= 1 gives +inf.
    sigma : float
        Standard deviation of the noise, > 0, in the unit of `sensitivity`.
    sensitivity : float
        Euclidean sensitivity of the query, > 0.

    Returns
    -------
    float or ndarray
        The curve at `alpha`, same shape.

    Raises
    ------
    ArgumentError
        sigma or sensitivity is not a finite number > 0, or alpha holds nan.

    Notes
    -----
    Source: Mironov (2017), Proposition 7.
    """
    noise = _validate.positive("sigma", sigma, "Zero noise gives no privacy at all.")
    ratio = _validate.positive("sensitivity", sensitivity) / noise

    def inside(order: np.ndarray) -> np.ndarray:
        # ratio is squared last: order * ratio * ratio neither overflows nor underflows before it must.
        return 0.5 * order * ratio * ratio

    return _evaluate(alpha, math.inf, inside)


def laplace_rdp(alpha: ArrayLike, scale: float, sensitivity: float = 1.0) -> float | np.ndarray:
    """Rényi curve of Laplace noise.

    With r = sensitivity / scale and alpha > 1:
    log[ alpha/(2 alpha - 1) exp((alpha-1) r) + (alpha-1)/(2 alpha - 1) exp(-alpha r) ] / (alpha - 1).

    Parameters
    ----------
    alpha : float or array of floats
        Orders; any shape.  An order <= 1 gives +inf.  The limit at alpha = inf is r (pure privacy).
    scale : float
        Scale of the noise, > 0, in the unit of `sensitivity`.
    sensitivity : float
        Absolute sensitivity of the query, > 0.

    Returns
    -------
    float or ndarray
        The curve at `alpha`, same shape.

    Raises
    ------
    ArgumentError
        scale or sensitivity is not a finite number > 0, or alpha holds nan.

    Notes
    -----
    Source: Mironov (2017), Proposition 6.  With t = alpha - 1 and q(x) = exp(x) - 1 - x >= 0 the
    bracket is 1 + x, x = [(1+t) q(t r) + t q(-(1+t) r)] / (1 + 2t): the first-order terms cancel exactly, on
    paper.
    """
    noise = _validate.positive("scale", scale, "Zero noise gives no privacy at all.")
    ratio = _validate.positive("sensitivity", sensitivity) / noise

    def inside(order: np.ndarray) -> np.ndarray:
        # The curve never exceeds r; beyond 1e300 that is all a float can say.
        return _laplace(order, ratio) if ratio < 1e300 else np.full_like(order, ratio)

    return _evaluate(alpha, math.inf, inside, limit=ratio)


def check_gamma(gamma: float, floor: float) -> float:
    """Return `gamma` as a finite float > `floor`."""
    hint = f"The bound holds for gamma > {floor:g} only; calibrate_gamma finds a usable value."
    level = _validate.finite("gamma", gamma, hint)
    if not level > floor:
        raise ArgumentError(f"gamma must be > {floor:g}, got gamma={level!r}. {hint}")
    return level


def _evaluate(
    alpha: ArrayLike, upper: float, inside: Callable[[np.ndarray], np.ndarray], limit: float = math.inf
) -> float | np.ndarray:
    """`inside` rounded up for 1 < alpha < upper, `limit` at alpha = inf, +inf elsewhere."""
    order = np.asarray(alpha, dtype=np.float64)
    if np.isnan(order).any():
        raise ArgumentError("alpha must hold numbers, got nan. Pass orders > 1.")
    valid = (order > 1.0) & (order < upper)
    curve = np.full(order.shape, np.inf)
    with np.errstate(over="ignore"):  # a curve too large for a float is +inf: unusable, and said so
        curve[valid] = round_up(inside(order[valid]))
        curve[order == np.inf] = round_up(limit)
    return float(curve) if curve.ndim == 0 else curve


def _factor(order: np.ndarray, gamma: float, root: float) -> np.ndarray:
    """[alpha log(1 - e/gamma) - log(1 - alpha e/gamma)] / (2 (alpha - 1)), e = `root` < gamma/alpha."""
    t = order - 1.0
    gap = gamma - root
    w = np.asarray(root / gap)
    s = t * w
    fixed = -w * log_remainder_ratio(-w, 1.0 + w)
    return np.asarray(0.5 * (fixed + w * log_remainder_ratio(s, (gamma - order * root) / gap)))


def _laplace(order: np.ndarray, ratio: float) -> np.ndarray:
    t = order - 1.0
    growth = t * ratio
    near = growth <= 1.0
    # Near: log(1 + x)/t from x/t, which does not underflow when t or ratio is tiny.
    t_near, growth_near = np.where(near, t, 1.0), np.where(near, growth, 0.5)
    decay = -(1.0 + t_near) * ratio
    weight = (1.0 + t_near) / (1.0 + 2.0 * t_near)
    rate = weight * ratio * (exp_remainder_ratio(growth_near) - exp_remainder_ratio(decay))
    x = rate * t_near
    measurable = x > 1e-300  # below, log(1 + x) is x to all digits
    quotient = np.log1p(x) / np.where(measurable, x, 1.0)
    close = rate * np.where(measurable, quotient, 1.0)
    # Far: exp((alpha-1) r) taken out; what is left is 1 - B (1 - exp(-(2 alpha - 1) r)) with B < 1/2.
    share = t / (1.0 + 2.0 * t)
    far = ratio + np.log1p(share * np.expm1(-(1.0 + 2.0 * t) * ratio)) / t
    return np.where(near, close, far)
