"""The noise of a pooled fit: one common factor on all its noises, calibrated on one account."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from scipy.optimize import brentq

from fastdp_dask import privacy
from fastdp_dask.privacy import Event, FailureEvent, GaussianEvent, MixingEvent
from fastdp_dask.privacy.conversion import RenyiCurve
from fastdp_dask.solvers.pooled_choice import Choice

_GAMMA_LEAST = 1.0 + 1e-9

Uses = tuple[int, int, int, int]
"""Rows of the mixing, and how often gradients, deviations and eigenvalues are released."""


def calibrated(
    choice: Choice,
    uses: Uses,
    epsilon: float,
    delta: float,
    *,
    tight_curve: bool = True,
    joint: bool = True,
    accounting: str = "renyi",
) -> tuple[float, float, float, float]:
    """γ and the noise multipliers of gradients, deviation and eigenvalue, in this order.

    Their unscaled values follow from the choice's shares: a mechanism with Rényi curve near α/c² takes share s at
    γ = c·sqrt(rows/(4s)) or noise multiplier c·sqrt(count/(2s)).  One factor c scales them all, the least at which
    the account of all events, "renyi" or "exact" (see `spent`), comes to at most epsilon at delta.  With joint=False
    each part is converted by itself, at its share of (ε, δ), by its Rényi curve.
    """
    shares = (choice.sketch_share, choice.gradient_share, choice.deviation_share, choice.eigenvalue_share)
    least = _GAMMA_LEAST if tight_curve else 25 / 8 * _GAMMA_LEAST

    def scaled(factor: float) -> tuple[float, float, float, float]:
        gamma = max(least, factor * math.sqrt(uses[0] / (4 * shares[0])))
        sigma, m, eigen = (
            factor * math.sqrt(use / (2 * share)) if share > 0 else 0.0
            for use, share in zip(uses[1:], shares[1:], strict=True)
        )
        return gamma, sigma, m, eigen

    def curves(factor: float) -> tuple[Event, ...]:
        gamma, *multipliers = scaled(factor)
        return events_of(gamma, tuple(multipliers), uses, 0.0, tight_curve=tight_curve)

    if joint:
        least_factor = _least_factor(lambda factor: privacy.compose(curves(factor)), epsilon, delta)
        if accounting == "exact":
            least_factor = _least_exact_factor(curves, least_factor, epsilon, delta)
        return scaled(least_factor)
    # ε falls with the square root of a Rényi share: each part by itself at that share of (ε, δ).
    roots = [math.sqrt(share) for share in shares if share > 0]
    factors = [
        _least_factor(_part(curves, i), epsilon * root / sum(roots), delta * root / sum(roots))
        for i, root in enumerate(roots)
    ]
    positive = iter(factors)
    own = [next(positive) if share > 0 else 1.0 for share in shares]
    gamma, sigma, m, eigen = (scaled(factor)[i] for i, factor in enumerate(own))
    return gamma, sigma, m, eigen


def _least_factor(curve_of_factor: Callable[[float], RenyiCurve], epsilon: float, delta: float) -> float:
    return privacy.smallest_noise(curve_of_factor, epsilon, delta * (1 - 2.0**-40), lower=1e-6, upper=1e60)


def _least_exact_factor(
    events_at: Callable[[float], tuple[Event, ...]], renyi: float, epsilon: float, delta: float
) -> float:
    """The least factor, to about 1e-6, whose exact account was itself found to be within epsilon; at most `renyi`."""
    target, delta = epsilon * (1 - 2.0**-26), delta * (1 - 2.0**-40)

    def excess(position: float) -> float:
        return privacy.certified_epsilon(events_at(renyi * math.exp(position)), delta) / target - 1.0

    lowest = -0.25
    while excess(lowest) <= 0.0:  # far below the Rényi sum only for a handful of rows
        if lowest < -8.0:
            return renyi * math.exp(lowest)
        lowest *= 2.0
    if excess(0.0) > 0.0:
        return renyi
    position, step = float(brentq(excess, lowest, 0.0, xtol=1e-6, rtol=1e-6)), 1e-6
    while excess(position) > 0.0:  # the root may lie on either side
        position, step = min(position + step, 0.0), 2 * step
    return renyi * math.exp(position)


def spent(events: Iterable[Event], delta: float, accounting: str) -> float:
    """ε of all events at a total delta: "exact" by `privacy.certified_epsilon`, "renyi" by `privacy.epsilon_of`."""
    return _spent(tuple(events), delta, accounting)


@lru_cache(maxsize=64)
def _spent(events: tuple[Event, ...], delta: float, accounting: str) -> float:
    # The exact curve takes as long as a small fit, and the same plan is often run again.
    return privacy.certified_epsilon(events, delta) if accounting == "exact" else privacy.epsilon_of(events, delta)


def _part(curves: Callable[[float], tuple[Event, ...]], which: int) -> Callable[[float], RenyiCurve]:
    return lambda factor: curves(factor)[which].rdp


def events_of(
    gamma: float, multipliers: tuple[float, ...], uses: Uses, failures: float, *, tight_curve: bool = True
) -> tuple[Event, ...]:
    """The mixing event, then a Gaussian event for each multiplier in use, then the failures paid in δ."""
    events: list[Event] = [MixingEvent(rows=uses[0], gamma=gamma, bound="tight" if tight_curve else "paper")]
    events += [
        GaussianEvent(noise_multiplier=multiplier, count=use)
        for multiplier, use in zip(multipliers, uses[1:], strict=True)
        if use
    ]
    if failures > 0:
        events.append(FailureEvent(delta=failures))
    return tuple(events)
