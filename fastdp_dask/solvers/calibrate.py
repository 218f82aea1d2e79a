"""The noise of a pooled fit: one common factor on all its noises, calibrated on one Rényi sum."""

from __future__ import annotations

import math
from collections.abc import Callable

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
) -> tuple[float, float, float, float]:
    """γ and the noise multipliers of gradients, deviation and eigenvalue, in this order.

    Their unscaled values follow from the choice's shares: a mechanism with Rényi curve near α/c² takes share s at
    γ = c·sqrt(rows/(4s)) or noise multiplier c·sqrt(count/(2s)).  One factor c scales them all, the least at which
    the Rényi sum converts to at most epsilon at delta.  With joint=False each part is converted by itself, at its
    share of (ε, δ).
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
        return scaled(_least_factor(lambda factor: privacy.compose(curves(factor)), epsilon, delta))
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
