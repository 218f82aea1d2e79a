"""From a Rényi curve to (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy._rounding import SLACK

RenyiCurve = Callable[[np.ndarray], "float | np.ndarray"]

DELTA_FLOOR = 1e-300

# Grid in log(alpha - 1) from one unit in the last place of 1 to beyond any order that can matter at
# DELTA_FLOOR.
_LOG_FIRST, _LOG_LAST = math.log(2.0**-52), math.log(1e304)
_GRID, _ZOOM, _ZOOMS = 1024, 65, 6


def rdp_to_epsilon(rdp: RenyiCurve, delta: float, alpha_max: float = math.inf) -> float:
    """Smallest epsilon that a Rényi curve certifies at delta.

    epsilon = max(0, min over 1 < alpha < alpha_max of
    rdp(alpha) + [log(1/delta) + (alpha - 1) log(1 - 1/alpha) - log alpha] / (alpha - 1) ).

    Parameters
    ----------
    rdp : callable
        Array of orders -> array of divergences of the same shape; +inf where the curve is not valid.
    delta : float
        Public, 1e-300 <= delta < 1.
    alpha_max : float
        Exclusive upper end of the orders to try, > 1.

    Returns
    -------
    float
        epsilon >= 0, never below the exact minimum and within 1e-10 of it, relatively; +inf if no order is
        valid.

    Raises
    ------
    ArgumentError
        delta or alpha_max is out of range, or `rdp` returns nan or an array of another shape.

    Notes
    -----
    Source: Canonne, Kamath & Steinke (2020), Proposition 12.  Any order gives a valid epsilon, so
    a coarse search could only be wasteful.  It is not: with t = alpha - 1 the objective is F(t)/t, where F is
    convex, because t rdp is convex (a log-moment) and t log t - (1+t) log(1+t) has second derivative 1/t -
    1/(1+t) > 0.  F(t)/t is then quasi-convex, so the neighbours of the best grid point bracket the minimum,
    zoom after zoom.
    """
    return epsilon_and_order(rdp, delta, alpha_max)[0]


def epsilon_and_order(rdp: RenyiCurve, delta: float, alpha_max: float = math.inf) -> tuple[float, float]:
    """`rdp_to_epsilon` together with the order that attains it (nan if no order is valid), for reports."""
    log_inverse_delta = -math.log(check_delta(delta))
    last = _LOG_LAST
    if alpha_max != math.inf:
        hint = "Leave it out, or pass the end of the curve's range."
        if not _validate.finite("alpha_max", alpha_max, hint) > 1.0:
            raise ArgumentError(f"alpha_max must be > 1, got alpha_max={float(alpha_max)!r}. {hint}")
        last = min(last, max(math.log(alpha_max - 1.0), _LOG_FIRST))
    low, high, points = _LOG_FIRST, last, _GRID
    best, best_order = math.inf, math.nan
    for _ in range(1 + _ZOOMS):
        grid = np.linspace(low, high, points)
        order = np.minimum(1.0 + np.exp(grid), np.nextafter(alpha_max, 1.0))
        order = np.maximum(order, 1.0 + 2.0**-52)
        value = _objective(rdp, order, log_inverse_delta)
        at = int(np.argmin(value))
        if value[at] < best:
            best, best_order = float(value[at]), float(order[at])
        low, high, points = grid[max(at - 1, 0)], grid[min(at + 1, points - 1)], _ZOOM
    return max(0.0, best), best_order


def check_delta(delta: float) -> float:
    """Return `delta` as a float with 1e-300 <= delta < 1."""
    number = _validate.delta(delta)
    if number < DELTA_FLOOR:
        raise ArgumentError(
            f"delta must be at least {DELTA_FLOOR:g} here, got delta={number!r}. Pass a larger delta."
        )
    return number


def _objective(rdp: RenyiCurve, order: np.ndarray, log_inverse_delta: float) -> np.ndarray:
    with np.errstate(over="ignore"):  # a curve beyond the floats is +inf
        curve = np.asarray(rdp(order), dtype=np.float64)
    if curve.shape != order.shape or np.isnan(curve).any():
        raise ArgumentError(
            f"rdp must return one number for each order: expected shape {order.shape} without nan, got "
            f"shape {curve.shape}. Pass a vectorised function that is +inf where it is not valid."
        )
    t = order - 1.0
    gain = np.log1p(1.0 / t)  # -log(1 - 1/alpha)
    price, log_order = log_inverse_delta / t, np.log1p(t) / t
    # The terms have both signs: the sum of their absolute values bounds the error of a sum that cancels.
    slack = SLACK * (np.abs(curve) + gain + price + log_order)
    return curve - gain + (price - log_order) + slack
