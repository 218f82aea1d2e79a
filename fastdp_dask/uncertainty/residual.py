"""One more private number, Σ_i clip_C(r_i)² at the solution: what the sampling error of coefficients is told from.

Nothing else that a fit releases says how far the targets lie from the fitted plane.  Blanking a record moves the sum by
at most C²; a hundredth of what the Gaussian releases of the fit cost pays for it, so their noise grows by half a
percent, and it takes one more pass.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms import additive
from fastdp_dask.privacy import GaussianEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource, NoiseStream
from fastdp_dask.rows.grid import residual_grid
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.solvers.adassp import AdaSSPPlan
from fastdp_dask.solvers.base import BudgetLine, Plan
from fastdp_dask.solvers.pooled_plan import PooledPlan

RESIDUAL = "residual_square"
SHARE = 0.01
"""Of the Rényi cost of the gradients (of Xᵀy in AdaSSP)."""

_PURPOSE = "sum of squared residuals"


def why_not(plan: Plan) -> str:
    """Why a plan's solver has no intervals; "" where it has."""
    if plan.n_targets > 1:
        return "intervals are told of one target, and y has several"
    if isinstance(plan, AdaSSPPlan):
        return ""
    if not isinstance(plan, PooledPlan):
        return (
            f"the error of solver={plan.solver!r} with preset={plan.preset!r} cannot be told from what it releases; "
            "solver='ihm' and 'fastihm' with preset='tight', and 'adassp', have intervals"
        )
    if not (plan.switches.shared_sketch and plan.switches.pooled):
        return "its rounds use different sketches"
    return ""


def with_residual(plan: Plan) -> Plan:
    """The plan that also releases Σ clip(r)², at the same ε and δ.

    Gaussian releases of cost Σ 1/σ² add up: with T gradients at σ' = σ/sqrt(1 − s) and the sum at σ/sqrt(s T) the total
    is T/σ², as before.

    Raises
    ------
    ArgumentError
        If the solver has no intervals.
    """
    if reason := why_not(plan):
        raise ArgumentError(f"uncertainty must be False here, got True: {reason}. Leave it out, or choose another.")
    sigma = plan.moment_noise if isinstance(plan, AdaSSPPlan) else plan.noise_multiplier
    T = plan.n_iter
    rounded = 1.0 + 2.0**-30
    ours, theirs = sigma / math.sqrt(SHARE * T) * rounded, sigma / math.sqrt(1.0 - SHARE) * rounded
    events = list(plan.events)
    told = (
        f"{SHARE:.0%} of the budget of {_paid(plan.budget).purpose} goes to the sum of squared residuals: for intervals"
    )
    which = max(k for k, e in enumerate(events) if e == GaussianEvent(sigma, T))
    events[which] = GaussianEvent(theirs, T)
    events.insert(which + 1, GaussianEvent(ours))
    if isinstance(plan, AdaSSPPlan):
        plan = replace(plan, moment_noise=theirs)
    return replace(
        _one_more_pass(plan), noise_multiplier=theirs, residual_noise=ours, events=tuple(events),
        budget=_shared(plan.budget), reasons=(*plan.reasons, told),
    )  # fmt: skip


def _one_more_pass(plan: Plan) -> Plan:
    """Passes, and what they are predicted to take, with one for the residuals, as long as the mean of the others."""
    n = plan.n_passes
    if not plan.forecasts:
        return replace(plan, n_passes=n + 1)
    own, grown = plan.forecasts[0], (n + 1) / n
    longer = replace(
        own, n_passes=n + 1, seconds=own.seconds * grown, driver_seconds=own.driver_seconds * grown,
        bytes_read=round(own.bytes_read * grown), bytes_moved=round(own.bytes_moved * grown),
    )  # fmt: skip
    before, after = (f"{each.seconds:.2g} s in {each.n_passes} passes" for each in (own, longer))
    return replace(
        plan, n_passes=n + 1, forecasts=(longer, *plan.forecasts[1:]),
        why=tuple(line.replace(before, after) for line in plan.why),
    )  # fmt: skip


def _shared(budget: tuple[BudgetLine, ...]) -> tuple[BudgetLine, ...]:
    paid = _paid(budget)
    kept = replace(paid, epsilon=paid.epsilon * (1 - SHARE), delta=paid.delta * (1 - SHARE))
    own = BudgetLine(_PURPOSE, paid.epsilon * SHARE, paid.delta * SHARE)
    place = budget.index(paid)
    return (*budget[:place], kept, own, *budget[place + 1 :])


def _paid(budget: tuple[BudgetLine, ...]) -> BudgetLine:
    return next(line for line in budget if "gradient" in line.purpose or line.purpose == "X'y")


def release_residual(
    rows: RowOperator, theta: np.ndarray, plan: Plan, noise: NoiseSource, releases: ReleaseLog
) -> None:
    """One pass at the released θ, then Σ_i clip_C(y_i − x_iᵀθ)² + N(0, (residual_noise · C²)²)."""
    if RESIDUAL in releases:
        return
    n, C = plan.n_samples, plan.clip
    exact = rows.squared_residuals(theta, C)

    def draw(z: NoiseStream) -> np.ndarray:
        step = residual_grid(n, C) ** -2
        noisy = additive.gaussian(
            np.array([exact]), plan.residual_noise, z, sensitivity=C**2, step=step, largest=n * C**2
        )
        return np.asarray(noisy[0])

    releases.once(RESIDUAL, draw, noise)
