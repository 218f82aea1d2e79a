"""The plan of `preset="tight"`: one sketch, one Wishart draw, one Rényi sum, and the free parameters.

Everything here is a function of public facts: n, d, (ε, δ) and options.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fastdp_dask import privacy
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms.spectral import upward_shift
from fastdp_dask.privacy import Event, FailureEvent, GaussianEvent, MixingEvent
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import predict
from fastdp_dask.solvers.base import BudgetLine, Plan

_CLIP = 1.0
_ITERATIONS = (5, 6)
_MOST_ITERATIONS = 6
_NEARLY = 1.02  # fewer passes are taken when they cost less than 2 % of predicted risk
_CLEARLY = 1.2
_FLOOR_SHARE = 0.05  # of delta, for the bound on the sketch's deviation
_ESTIMATE_SHARE = 0.05  # of delta, for each one-sided estimate
_GAMMA_LEAST = 1.0 + 1e-9


@dataclass(frozen=True)
class Switches:
    """Each improvement over the paper by itself, for ablations; all on by default.

    Attributes
    ----------
    shared_sketch : bool
        One SRHT for all rounds; off: a fresh one in each round.
    pooled : bool
        One Wishart draw of K rows used in every round; off: one of K/T rows for each round.
    tight_curve : bool
        The Gaussian-mixing curve; off: the paper's bound for fast mixing.
    joint_accounting : bool
        One Rényi sum converted once; off: the sketch, the gradients and the estimates converted each at its share.
    skip_estimate : bool
        λ is estimated only when it is predicted to pay; off: always.
    no_pull : bool
        Drop the −η²θ term; off: keep it.
    adaptive_steps : bool
        Steps by direction (`fastdp_dask.solvers.steps`); off: one constant damping.
    """

    shared_sketch: bool = True
    pooled: bool = True
    tight_curve: bool = True
    joint_accounting: bool = True
    skip_estimate: bool = True
    no_pull: bool = True
    adaptive_steps: bool = True


@dataclass(frozen=True)
class PooledPlan(Plan):
    """`Plan` of the tight preset.

    Attributes
    ----------
    degrees : int
        K, rows of all Gaussian sketches together.
    route : str
        How the deviation is bounded: "gram", "public", "leverage", "free" or "private".
    beta : float
        Floor of λ_min(ZᵀZ) + η² (for route "private": γ, to be multiplied by 1 + 2m̃).
    estimate_noise : float
        Noise multiplier of each one-sided estimate; 0: λ is not estimated and η² = β.
    estimate_failure : float
        Probability that one estimate is on its wrong side, paid in δ.
    events : tuple of Event
        All that the fit pays for; ε is recomputed from them.
    predicted_risk : float
        Mean squared error beyond least squares, in units of the half-width of `bounds_y` squared, geometric mean over
        a few spectra.
    switches : Switches
    """

    degrees: int = 0
    route: str = ""
    beta: float = 0.0
    estimate_noise: float = 0.0
    estimate_failure: float = 0.0
    events: tuple[Event, ...] = ()
    predicted_risk: float = 0.0
    switches: Switches = Switches()


@dataclass(frozen=True)
class _Choice:
    """One setting of the free parameters."""

    n_iter: int
    degrees: int
    gradient_share: float
    estimate_share: float


def make_plan(
    n_samples: int,
    n_columns: int,
    *,
    solver: str,
    epsilon: float,
    delta: float,
    n_iter: int | None = None,
    k1: int | None = None,
    k2: int | None = None,
    coherence: str = "auto",
    switches: Switches = Switches(),
) -> PooledPlan:
    """Choose T, K, the split of the budget and the route by least predicted risk, then calibrate.

    `solver` "ihm" takes the Gram route (k2 = N: no sketch, no deviation); "fastihm" an SRHT of k2 rows, N/16 by
    default (at least 4d).  A given `k1` fixes K = T·k1.

    Raises
    ------
    ArgumentError
        If k1·T < d + 4 or k2 > N or k2 < d.
    CalibrationError
        If coherence="leverage" needs a larger sketch.
    """
    padded = next_power_of_two(n_samples)
    sketch_size = padded if solver == "ihm" else _sketch_size(k2, padded, n_columns)
    return _make_plan(
        n_samples, n_columns, solver, epsilon, delta, n_iter, k1, sketch_size, coherence, switches
    )


@lru_cache(maxsize=64)
def _make_plan(
    n: int,
    d: int,
    solver: str,
    epsilon: float,
    delta: float,
    n_iter: int | None,
    k1: int | None,
    k2: int,
    coherence: str,
    switches: Switches,
) -> PooledPlan:
    padded = next_power_of_two(n)
    floor_of = _floor(padded, d, k2, delta, coherence, 1 if switches.shared_sketch else n_iter or _MOST_ITERATIONS)
    private = coherence == "private" and k2 < padded
    choice, risk = _choose(n, d, epsilon, delta, n_iter, k1, k2, floor_of, private, switches)
    T, K = choice.n_iter, choice.degrees
    beta_name, _, floor_failure = floor_of(2.0)
    estimates = 0 if choice.estimate_share == 0 else (2 if private else 1)
    rounds = 1 if switches.shared_sketch else T
    failure = _ESTIMATE_SHARE * delta / rounds if estimates else 0.0
    spent_on_failures = floor_failure + rounds * estimates * failure
    scale, parts = _calibrated(choice, estimates * rounds, epsilon, delta, spent_on_failures, switches)
    gamma, sigma, w = (base * scale[i] for i, base in enumerate(parts))
    _, beta, _ = floor_of(gamma)
    events: list[Event] = [
        MixingEvent(rows=K, gamma=gamma, bound="tight" if switches.tight_curve else "paper"),
        GaussianEvent(noise_multiplier=sigma, count=T),
    ]
    if estimates:
        events.append(GaussianEvent(noise_multiplier=w, count=estimates * rounds))
    if spent_on_failures > 0:
        events.append(FailureEvent(delta=spent_on_failures))
    return PooledPlan(
        solver=solver,
        preset="tight",
        n_samples=n,
        n_columns=d,
        epsilon=epsilon,
        delta=delta,
        n_iter=T,
        k1=math.ceil(K / T),
        k2=0 if k2 == padded else k2,
        clip=_CLIP,
        gamma=gamma,
        noise_multiplier=sigma,
        n_passes=T + int(private),
        degrees=K,
        route="private" if private else beta_name,
        beta=gamma if private else beta,
        estimate_noise=w if estimates else 0.0,
        estimate_failure=failure,
        events=tuple(events),
        predicted_risk=risk,
        switches=switches,
        budget=_budget_lines(events, epsilon, delta, switches),
        reasons=_reasons(choice, risk, beta_name, private),
    )


def _sketch_size(k2: int | None, padded: int, d: int) -> int:
    if k2 is None:
        return min(padded, max(next_power_of_two(4 * d), padded // 16))
    if not d <= k2 <= padded:
        raise ArgumentError(
            f"k2 must lie between the number of columns, {d} with the intercept, and {padded}, got k2={k2}. "
            "Leave it out for the default."
        )
    return k2


def _floor(
    padded: int, d: int, k2: int, delta: float, coherence: str, rounds: int
) -> Callable[[float], tuple[str, float, float]]:
    """γ → (route, β, failure probability paid for all rounds)."""
    if k2 == padded:
        return lambda gamma: ("gram", float(privacy.beta_public(gamma, 0.0)), 0.0)
    if coherence == "private":
        return lambda gamma: ("private", gamma, 0.0)
    route = "auto" if coherence == "auto" else coherence

    def floor_of(gamma: float) -> tuple[str, float, float]:
        floor = privacy.choose_floor(
            gamma, n_padded=padded, d=d, sketch_size=k2, delta=_FLOOR_SHARE * delta / rounds, route=route
        )
        return floor.name, floor.beta, rounds * floor.failure_delta

    return floor_of


# -- the free parameters -------------------------------------------------------------------------------------


def _choose(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    n_iter: int | None,
    k1: int | None,
    k2: int,
    floor_of: Callable[[float], tuple[str, float, float]],
    private: bool,
    switches: Switches,
) -> tuple[_Choice, float]:
    """The setting of least predicted risk; the fewest rounds among those within 2 % of it.

    The search uses γ = c·sqrt(K/(4 s_K)) and σ = c·sqrt(T/(2 s_g)) for shares s of one Gaussian-like Rényi curve
    α/c², which is exact as γ → ∞; the chosen setting is calibrated exactly afterwards.
    """
    eigenvalues = predict.spectra(n, d)
    c = math.sqrt(2.0) * privacy.calibrate_gaussian(epsilon, delta * (1 - _FLOOR_SHARE - _ESTIMATE_SHARE))
    distortion = 0.0 if k2 == next_power_of_two(n) else d / k2
    best: dict[int, tuple[float, _Choice]] = {}
    ratios = (16, 32) if distortion == 0 else (8, 16, 32)
    for choice in _settings(d, n_iter, k1, ratios, private, switches):
        K, T = choice.degrees, choice.n_iter
        matrix_share = 1.0 - choice.gradient_share - choice.estimate_share
        gamma = max(1.01, c * math.sqrt(K / (4 * matrix_share)))
        beta = floor_of(gamma)[1]
        added = np.full(eigenvalues.shape[0], beta)
        if choice.estimate_share:
            count = 2 if private else 1
            w = c * math.sqrt(count / (2 * choice.estimate_share))
            found = np.sqrt(eigenvalues.min(axis=1)) - upward_shift(w, _ESTIMATE_SHARE * delta)
            added = np.maximum(beta - np.maximum(found, 0.0) ** 2, 1e-9 * beta)
        risk = predict.geometric_mean(
            predict.excess_risk(
                eigenvalues, n, added=added, degrees=K, noise=c * math.sqrt(T / (2 * choice.gradient_share)),
                n_iter=T, distortion=distortion,
            )
        )  # fmt: skip
        if choice.estimate_share and switches.skip_estimate and not private:
            risk *= _CLEARLY  # an estimate must pay for itself clearly
        if T not in best or risk < best[T][0]:
            best[T] = (risk, choice)
    least = min(risk for risk, _ in best.values())
    rounds = min(T for T, (risk, _) in best.items() if risk <= _NEARLY * least)
    return best[rounds][1], best[rounds][0]


def _settings(
    d: int, n_iter: int | None, k1: int | None, ratios: tuple[int, ...], private: bool, switches: Switches
) -> Iterator[_Choice]:
    estimate_shares = (0.05, 0.15, 0.3) if private or not switches.skip_estimate else (0.0, 0.05, 0.15, 0.3)
    for T in _ITERATIONS if n_iter is None else (n_iter,):
        if k1 is not None:
            sizes = [T * k1]
        else:
            sizes = sorted({max(math.ceil(d * ratio), d + 8) for ratio in ratios})
            if not switches.pooled or not switches.shared_sketch:
                sizes = [T * size for size in sizes]
        for K in sizes:
            if d + 4 > K:
                raise ArgumentError(
                    f"k1 must satisfy n_iter * k1 >= {d + 4}, the columns (with the intercept) and 4 more, "
                    f"got k1={k1} with n_iter={T}. Leave it out for the default."
                )
            for estimate in estimate_shares:
                for gradient in (0.4, 0.5, 0.6, 0.7):
                    if gradient + estimate < 0.99:
                        yield _Choice(T, K, gradient, estimate)


def _calibrated(
    choice: _Choice, estimates: int, epsilon: float, delta: float, failures: float, switches: Switches
) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """The least common factor on (γ, σ, w) at which the whole fit costs at most (ε, δ), and the unscaled three."""
    T, K = choice.n_iter, choice.degrees
    matrix_share = 1.0 - choice.gradient_share - choice.estimate_share
    bound = "tight" if switches.tight_curve else "paper"
    least = _GAMMA_LEAST if bound == "tight" else 25 / 8 * _GAMMA_LEAST
    base = (
        math.sqrt(K / (4 * matrix_share)),
        math.sqrt(T / (2 * choice.gradient_share)),
        math.sqrt(max(1, estimates) / (2 * max(choice.estimate_share, 1e-3))),
    )

    def events(scale: float) -> tuple[Event, Event, Event]:
        return (
            MixingEvent(rows=K, gamma=max(least, base[0] * scale), bound=bound),
            GaussianEvent(noise_multiplier=base[1] * scale, count=T),
            GaussianEvent(noise_multiplier=base[2] * scale, count=estimates),
        )

    if switches.joint_accounting:
        scale = privacy.smallest_noise(
            lambda s: privacy.compose(events(s)), epsilon, (delta - failures) * (1 - 2.0**-40), lower=1e-6, upper=1e9
        )
        return (max(scale, least / base[0]), scale, scale), base
    roots = [math.sqrt(share) for share in (matrix_share, choice.gradient_share, choice.estimate_share)]  # ε falls with the square root of a Rényi share
    scales = [
        _alone(events, i, epsilon * root / sum(roots), (delta - failures) * root / sum(roots)) if root else 1.0
        for i, root in enumerate(roots)
    ]
    return (max(scales[0], least / base[0]), scales[1], scales[2]), base


def _alone(events: Callable[[float], tuple[Event, ...]], which: int, epsilon: float, delta: float) -> float:
    return privacy.smallest_noise(
        lambda scale: events(scale)[which].rdp, epsilon, delta * (1 - 2.0**-40), lower=1e-6, upper=1e9
    )


# -- words ---------------------------------------------------------------------------------------------------


def _budget_lines(
    events: list[Event], epsilon: float, delta: float, switches: Switches
) -> tuple[BudgetLine, ...]:
    """Shares of ε by the Rényi cost of each event at the order that the conversion uses, and of δ as paid."""
    curves = [event for event in events if not isinstance(event, FailureEvent)]
    failures = sum(event.delta * event.count for event in events if isinstance(event, FailureEvent))
    _, order = privacy.epsilon_and_order(privacy.compose(curves), delta - failures)
    costs = [float(event.rdp(order)) for event in curves]
    total = sum(costs)
    names = ["Gaussian sketch (one Wishart draw)", "clipped gradients", "one-sided estimates"]
    lines = [
        BudgetLine(name, epsilon * cost / total, (delta - failures) * cost / total)
        for name, cost in zip(names, costs, strict=False)
    ]
    if failures:
        lines.append(BudgetLine("bounds that fail with small probability", 0.0, failures))
    return tuple(lines)


def _reasons(choice: _Choice, risk: float, route: str, private: bool) -> tuple[str, ...]:
    estimate = (
        "λ_min is estimated: predicted to lower the added variance"
        if choice.estimate_share
        else "λ_min is not estimated: predicted not to pay for itself"
    )
    return (
        f"T = {choice.n_iter}, K = {choice.degrees:,} rows, {choice.gradient_share:.0%} of the Rényi budget to the "
        f"gradients: least predicted risk, {risk:.2g}, over flat and falling spectra",
        f"deviation of the sketch bounded by the {'private' if private else route} route; {estimate}",
    )
