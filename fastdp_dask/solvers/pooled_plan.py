"""The plan of `preset="tight"`: one sketch, one Wishart draw, one Rényi sum, and the free parameters.

Everything here is a function of public facts: n, d, (ε, δ) and options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from fastdp_dask import privacy
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import Event, FailureEvent
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import pooled_choice
from fastdp_dask.solvers.base import BudgetLine, Plan
from fastdp_dask.solvers.calibrate import calibrated, events_of
from fastdp_dask.solvers.pooled_choice import ESTIMATE_SHARE, ITERATIONS, Choice, Problem

_CLIP = 1.0


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
    algebraic_rows : bool
        Low-coherence rows for the private route; off: uniform rows.
    adaptive_steps : bool
        Steps by direction (`fastdp_dask.solvers.steps`); off: one constant damping.
    exact_accounting : bool
        The certified exact curve where η² is fixed before any release; off: the Rényi sum.
    """

    shared_sketch: bool = True
    pooled: bool = True
    tight_curve: bool = True
    joint_accounting: bool = True
    skip_estimate: bool = True
    no_pull: bool = True
    algebraic_rows: bool = True
    adaptive_steps: bool = True
    exact_accounting: bool = True


@dataclass(frozen=True)
class PooledPlan(Plan):
    """`Plan` of the tight preset.

    Attributes
    ----------
    degrees : int
        K, rows of all Gaussian sketches together.
    route : str
        How the deviation is bounded: "gram", "public", "leverage", "free" or "private".
    row_design : str
        "uniform" or "low_coherence": how the SRHT picks its rows.
    beta : float
        Floor of λ_min(ZᵀZ) + η² (for route "private": γ, to be multiplied by 1 + 2m̃).
    m_bound : float
        Public bound on the deviation, for the sensitivity of λ_min; infinite where none is used.
    deviation_noise, eigenvalue_noise : float
        Noise multipliers of the one-sided estimates; 0: not released.
    eigenvalue_kind : str
        "eigenvalue" or "singular": what is estimated of λ_min(ZᵀZ); "" when it is not, and η² = β.
    estimate_failure : float
        Probability that one estimate is on its wrong side, paid in δ.
    accounting : str
        "exact" or "renyi": how the noise was calibrated, and ε is recomputed (`fastdp_dask.solvers.calibrate.spent`).
    predicted_risk : float
        Mean squared error beyond least squares, in units of the half-width of `bounds_y` squared, geometric mean over
        a few spectra.
    switches : Switches
    """

    degrees: int = 0
    route: str = ""
    row_design: str = "uniform"
    beta: float = 0.0
    m_bound: float = math.inf
    deviation_noise: float = 0.0
    eigenvalue_noise: float = 0.0
    eigenvalue_kind: str = ""
    estimate_failure: float = 0.0
    accounting: str = "renyi"
    predicted_risk: float = 0.0
    switches: Switches = Switches()


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
        If k1 < d, k1·T < d + 4, k2 > N or k2 < d.
    CalibrationError
        If coherence="leverage" needs a larger sketch.
    """
    if k1 is not None and k1 < n_columns:
        raise ArgumentError(
            f"k1 must be at least the number of columns, {n_columns} with the intercept, got k1={k1}. "
            "Leave it out for the default."
        )
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
    rounds = 1 if switches.shared_sketch else (n_iter or ITERATIONS[-1])
    problem = Problem(
        n, d, epsilon, delta, k2, rounds,
        estimate_always=not switches.skip_estimate, algebraic_rows=switches.algebraic_rows,
    )  # fmt: skip
    routes = pooled_choice.routes_for(problem, coherence)
    one_draw = switches.pooled and switches.shared_sketch
    grid = pooled_choice.settings(
        problem, routes, n_iter=n_iter, k1=k1, draws_of=lambda T: 1 if one_draw else T
    )
    choice, risk = pooled_choice.choose(problem, routes, grid)
    T, K = choice.n_iter, choice.degrees
    uses = (K, T, rounds * int(choice.deviation_share > 0), rounds * int(choice.eigenvalue_share > 0))
    failures = ESTIMATE_SHARE * delta / rounds * (uses[2] + uses[3])
    if choice.route != "private":
        failures += rounds * problem.floor(2.0, choice.route).failure_delta
    accounting = _accounting(switches, estimated=uses[2] + uses[3] > 0)
    gamma, sigma, deviation_noise, eigenvalue_noise = calibrated(
        choice, uses, epsilon, delta - failures,
        tight_curve=switches.tight_curve, joint=switches.joint_accounting, accounting=accounting,
    )  # fmt: skip
    noises = (sigma, deviation_noise, eigenvalue_noise)
    events = events_of(gamma, noises, uses, failures, tight_curve=switches.tight_curve)
    padded = problem.n_padded
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
        n_passes=T + int(choice.route == "private"),
        degrees=K,
        route=choice.route,
        row_design=problem.row_design(choice.route),
        beta=gamma if choice.route == "private" else problem.floor(gamma, choice.route).beta,
        m_bound=problem.m_bound(choice.route),
        deviation_noise=deviation_noise,
        eigenvalue_noise=eigenvalue_noise,
        eigenvalue_kind=choice.eigenvalue_kind,
        estimate_failure=ESTIMATE_SHARE * delta / rounds,
        events=events,
        accounting=accounting,
        predicted_risk=risk,
        switches=switches,
        budget=_budget_lines(events, epsilon, delta),
        reasons=_reasons(choice, risk),
    )


def _accounting(switches: Switches, *, estimated: bool) -> str:
    """Exact for one block of rows at a noise fixed in advance: one sketch, no estimate, one sum on the tight curve."""
    one_block = switches.tight_curve and switches.joint_accounting and switches.shared_sketch
    return "exact" if switches.exact_accounting and one_block and not estimated else "renyi"


def _sketch_size(k2: int | None, padded: int, d: int) -> int:
    if k2 is None:
        return min(padded, max(next_power_of_two(4 * d), padded // 16))
    if not d <= k2 <= padded:
        raise ArgumentError(
            f"k2 must lie between the number of columns, {d} with the intercept, and {padded}, got k2={k2}. "
            "Leave it out for the default."
        )
    return k2


# -- words ---------------------------------------------------------------------------------------------------


def _budget_lines(events: tuple[Event, ...], epsilon: float, delta: float) -> tuple[BudgetLine, ...]:
    """Shares of ε by the Rényi cost of each event at the order that the conversion uses, and of δ as paid."""
    curves = [event for event in events if not isinstance(event, FailureEvent)]
    failures = sum(event.delta * event.count for event in events if isinstance(event, FailureEvent))
    _, order = privacy.epsilon_and_order(privacy.compose(curves), delta - failures)
    costs = [float(event.rdp(order)) for event in curves]
    total = sum(costs)
    names = ["Gaussian sketch (one Wishart draw)", "clipped gradients"] + ["one-sided estimates"] * 2
    lines = [
        BudgetLine(name, epsilon * cost / total, (delta - failures) * cost / total)
        for name, cost in zip(names, costs, strict=False)
    ]
    if failures:
        lines.append(BudgetLine("bounds that fail with small probability", 0.0, failures))
    return tuple(lines)


def _reasons(choice: Choice, risk: float) -> tuple[str, ...]:
    estimate = (
        f"λ_min is estimated ({choice.eigenvalue_kind}): predicted to lower the added variance"
        if choice.eigenvalue_kind
        else "λ_min is not estimated: predicted not to pay for itself"
    )
    return (
        f"T = {choice.n_iter}, K = {choice.degrees:,} rows, {choice.gradient_share:.0%} of the Rényi budget to the "
        f"gradients: least predicted risk, {risk:.2g}, over flat and falling spectra",
        f"deviation of the sketch bounded by the {choice.route} route; {estimate}",
    )
