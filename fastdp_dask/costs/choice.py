"""Which solver `solver="auto"` stands for: the fastest of those whose predicted risk is near the best.

A function of public facts and of machine constants.  A run folder keeps what was chosen: other constants, or another
cluster, do not change a fit that has begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp_dask.costs import passes
from fastdp_dask.costs.layout import Layout
from fastdp_dask.costs.machine import Machine
from fastdp_dask.costs.passes import Outline
from fastdp_dask.costs.risk import UNKNOWN, Guess, least_of_mixing, predicted
from fastdp_dask.errors import FastDPError
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import dispatch, predict
from fastdp_dask.solvers.adassp import AdaSSPPlan
from fastdp_dask.solvers.base import Forecast, Plan
from fastdp_dask.solvers.dispatch import Request
from fastdp_dask.solvers.linear_mixing_plan import MixingPlan
from fastdp_dask.solvers.pooled_plan import PooledPlan

NEAR = 1.2
"""A solver may be taken for its speed while its predicted risk is within this factor of the least."""

_WORTH = 0.8
"""A sketch must save a fifth of the seconds to be looked at: it never has less noise, and its plan takes a second."""

_FAMILY = ("ihm", "fastihm", "adassp", "linear_mixing", "fast_linear_mixing")
_SIZES = (64, 16, 4, 2)  # N/k2
_KEPT = ("solver", "k2")

Public = tuple[Request, int, int, Layout, Machine, Guess]


def make_plan(
    request: Request,
    n_samples: int,
    n_columns: int,
    layout: Layout,
    machine: Machine,
    *,
    kept: Mapping[str, Any] | None = None,
    guess: Guess = UNKNOWN,
) -> Plan:
    """The plan of a fit, with what it is predicted to cost.

    Parameters
    ----------
    request : Request
    n_samples, n_columns : int
        n and d, the intercept included in d.
    layout : Layout
    machine : Machine
    kept : mapping, optional
        The plan in the run folder: for solver="auto" its choice stands.
    guess : Guess
    """
    public = (request, n_samples, n_columns, layout, machine, guess)
    if request.solver != "auto":
        made = _plan_of(request, n_samples, n_columns)
        return replace(made, forecasts=(forecast(made, layout, machine, guess),))
    again = _kept_request(request, kept)
    if again is not None:
        return make_plan(again, *public[1:5], guess=guess)
    return _choose(public)


def _kept_request(request: Request, kept: Mapping[str, Any] | None) -> Request | None:
    solver, k2 = (None, None) if kept is None else (kept.get(name) for name in _KEPT)
    if solver not in _FAMILY or not isinstance(k2, int) or k2 < 0:
        return None
    sketched = solver in ("fastihm", "fast_linear_mixing") and k2 > 0
    return replace(request, solver=str(solver), k2=request.k2 or (k2 if sketched else None))


def forecast(plan: Plan, layout: Layout, machine: Machine, guess: Guess = UNKNOWN) -> Forecast:
    """Cost and risk of a plan."""
    cost = passes.cost(_outline(plan), layout, machine)
    risks, added = predicted(plan, guess)
    return Forecast(
        solver=plan.solver,
        k2=plan.k2,
        n_passes=plan.n_passes,
        seconds=cost.seconds,
        driver_seconds=cost.driver_seconds,
        bytes_read=cost.bytes_read,
        bytes_moved=cost.bytes_moved,
        task_bytes=cost.task_bytes,
        worker_bytes=cost.worker_bytes,
        driver_bytes=cost.driver_bytes,
        noise=plan.noise_multiplier * plan.clip,
        added_variance=float(np.mean(added)),
        risk=predict.geometric_mean(risks),
        risks=tuple(float(risk) for risk in risks),
        fits=_fits(cost.worker_bytes, layout),
    )


def _fits(worker_bytes: int, layout: Layout) -> bool:
    return not layout.memory_limit or worker_bytes <= layout.memory_limit


def _outline(plan: Plan) -> Outline:
    mixing = isinstance(plan, MixingPlan)
    rounds = plan.n_iter if plan.preset == "paper" and not mixing and plan.gamma else 1
    gradients = 0 if mixing or isinstance(plan, AdaSSPPlan) else plan.n_iter - 1
    deviation = plan.n_passes - 1 - gradients > 0
    estimated = not isinstance(plan, PooledPlan) or bool(plan.eigenvalue_kind)
    return Outline(
        columns=plan.n_columns + int(mixing), sketches=rounds, k2=plan.k2, gradients=gradients,
        deviation=deviation, draws=rounds, estimate=estimated, drawn=_drawn(plan),
    )  # fmt: skip


def _drawn(plan: Plan) -> tuple[int, ...]:
    d = plan.n_columns
    if isinstance(plan, AdaSSPPlan):
        return (1, d * d, d)
    return () if isinstance(plan, MixingPlan) else (d,) * plan.n_iter


# -- the choice ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _choose(public: Public) -> Plan:
    request, n, d, layout, machine, guess = public
    gram, made, least = None, [], np.inf
    first, *rest = (each for each in _candidates(request, n, d) if not (request.intervals and "mixing" in each.solver))
    for candidate in (first, *rest):
        if gram is not None and _dominated(candidate, gram, public):
            continue
        if candidate.solver.endswith("mixing") and least_of_mixing(guess, n, d) > NEAR * least:
            continue  # out of reach whatever its noise: no need to calibrate it
        # What the first refuses, bad sizes say, is the caller's to mend.
        plan = _plan_of(candidate, n, d) if candidate is first else _planned(candidate, n, d)
        if plan is None:
            continue
        plan = replace(plan, forecasts=(forecast(plan, layout, machine, guess),))
        made.append(plan)
        if plan.forecasts[0].fits:
            least = min(least, plan.forecasts[0].risk)
        if candidate.solver == "ihm":
            gram = plan.forecasts[0]
    able = [plan for plan in made if plan.forecasts[0].fits]
    if not able:  # the pass itself will say what is too large
        able = [min(made, key=lambda plan: plan.forecasts[0].worker_bytes)]
    least = min(plan.forecasts[0].risk for plan in able)
    near = [plan for plan in able if plan.forecasts[0].risk <= NEAR * least]
    chosen = min(near, key=lambda plan: plan.forecasts[0].seconds)
    others = [plan.forecasts[0] for plan in made if plan is not chosen]
    return replace(
        chosen, forecasts=(*chosen.forecasts, *others), why=_why(chosen.forecasts[0], others, len(near), machine)
    )


def _candidates(request: Request, n: int, d: int) -> Iterator[Request]:
    """The requests that "auto" may stand for: those solvers that have every option that was given."""
    if request.preset == "paper" or request.k2 is not None or request.coherence != "auto":
        yield replace(request, solver="fastihm")  # the papers' own method, or an option that only a sketch has
        return
    yield replace(request, solver="ihm")
    if request.n_iter is None and request.k1 is None:
        yield replace(request, solver="adassp")
        yield replace(request, solver="linear_mixing")
    padded = next_power_of_two(n)
    for size in sorted({padded // ratio for ratio in _SIZES}):
        if size >= 4 * (d + 1):
            yield replace(request, solver="fastihm", k2=size)
            if request.n_iter is None and request.k1 is None:
                yield replace(request, solver="fast_linear_mixing", k2=size)


def _dominated(candidate: Request, gram: Forecast, public: Public) -> bool:
    """Whether a sketch saves too little over as many rounds without one, which need less noise."""
    _, _, d, layout, machine, _ = public
    if candidate.k2 is None or not gram.fits:
        return False
    if candidate.solver == "fastihm":
        outline = Outline(columns=d, sketches=1, k2=candidate.k2, gradients=gram.n_passes - 1)
        return passes.cost(outline, layout, machine).seconds >= _WORTH * gram.seconds
    plain = passes.cost(Outline(d + 1, 1, 0, 0, estimate=True), layout, machine)
    sketched = passes.cost(Outline(d + 1, 1, candidate.k2, 0), layout, machine)
    return sketched.seconds >= _WORTH * plain.seconds and _fits(plain.worker_bytes, layout)


@lru_cache(maxsize=64)
def _plan_of(request: Request, n: int, d: int) -> Plan:
    return dispatch.make_plan(request, n, d)


def _planned(candidate: Request, n: int, d: int) -> Plan | None:
    try:
        return _plan_of(candidate, n, d)
    except FastDPError:
        # Few rows cannot hold a sketch of d columns, or a budget is out of reach of one mechanism.
        return None


def _why(chosen: Forecast, others: list[Forecast], near: int, machine: Machine) -> tuple[str, str]:
    constants = "measured on this machine" if machine.measured else "shipped with the package"
    first = (
        f"{name(chosen)}: the fastest of {near} whose predicted risk is within {NEAR:g} x of the least: "
        f"{chosen.seconds:.2g} s in {chosen.n_passes} passes, risk {chosen.risk:.2g} (machine constants {constants})"
    )
    if near == 1:
        first = (
            f"{name(chosen)}: predicted risk {chosen.risk:.2g}, no other within {NEAR:g} x of it; {chosen.seconds:.2g} "
            f"s in {chosen.n_passes} passes (machine constants {constants})"
        )
    beside = sorted(others, key=lambda other: other.risk)[:2]
    second = "; ".join(
        f"{name(other)}: risk x {other.risk / chosen.risk:.2g}, seconds x {other.seconds / chosen.seconds:.2g}"
        + ("" if other.fits else ", beyond the memory limit")
        for other in beside
    )
    return first, f"beside it: {second or 'no other solver has the options that were given'}"


def name(what: Forecast) -> str:
    """The solver, with the size of its sketch."""
    return what.solver + (f", k2 = {what.k2:,}" if what.k2 else "")


def compared(plan: Plan, request: Request, layout: Layout, machine: Machine, guess: Guess = UNKNOWN) -> Plan:
    """The plan with a forecast of every solver, and what more epsilon or more rows would buy."""
    n, d = plan.n_samples, plan.n_columns
    forecasts = list(plan.forecasts)
    plain = replace(request, n_iter=None, k1=None, k2=None, coherence="auto")
    for solver in _FAMILY:
        if any(known.solver == solver for known in forecasts):
            continue
        other = _planned(replace(plain, solver=solver), n, d)
        if other is not None:
            forecasts.append(forecast(other, layout, machine, guess))
    return replace(plan, forecasts=tuple(forecasts), outlook=_outlook(plan, request, layout, machine, guess))


def _outlook(plan: Plan, request: Request, layout: Layout, machine: Machine, guess: Guess) -> tuple[str, ...]:
    """What three times the epsilon, and twice the rows, would do to the predicted risk of this plan's solver."""
    now, n, d = plan.forecasts[0].risk, plan.n_samples, plan.n_columns
    same = replace(request, solver=plan.solver, k2=plan.k2 or None if plan.solver.startswith("fast") else None)
    more = replace(same, epsilon=3 * request.epsilon)
    twice = replace(same, k2=None if same.k2 is None else 2 * same.k2)
    words = []
    for what, asked, rows in (
        (f"epsilon {more.epsilon:g} instead of {request.epsilon:g}", more, n),
        ("twice the rows", twice, 2 * n),
    ):
        other = _planned(asked, rows, d)
        if other is not None:
            risk = forecast(other, layout, machine, guess).risk
            words.append(f"{what}: predicted excess risk x {risk / now:.2g}")
    return ("; ".join(words),) if words else ()
