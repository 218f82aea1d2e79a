"""The tight preset's plan: what it pays is what it was given, whatever the options; public facts only."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
from helpers import ReadCounter, fit, model, small_data
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fastdp_dask import privacy
from fastdp_dask.errors import CalibrationError
from fastdp_dask.privacy import FailureEvent, GaussianEvent, LaplaceEvent, MixingEvent
from fastdp_dask.solvers import calibrate, fast_ihm_paper, pooled_choice, pooled_plan
from fastdp_dask.solvers.pooled_plan import PooledPlan, Switches

COHERENCES = ("auto", "public", "free", "leverage", "private")
FLAGS = [field.name for field in dataclasses.fields(Switches)]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of `make_plan` from the whole range of sizes and options."""
    d = draw(st.integers(1, 60))
    n = int(2 ** draw(st.floats(0, 30)))
    padded = 1 << (n - 1).bit_length()
    sizes = st.integers(d, padded) if d <= padded else st.none()
    return {
        "n_samples": n,
        "n_columns": d,
        "solver": draw(st.sampled_from(["ihm", "fastihm"])),
        "epsilon": 10 ** draw(st.floats(-2, 2)),
        "delta": 10 ** draw(st.floats(-14, -2)),
        "n_iter": draw(st.none() | st.integers(1, 12)),
        "k1": draw(st.none() | st.integers(d + 4, 40 * d + 4)),
        "k2": draw(st.none() | sizes),
        "coherence": draw(st.sampled_from(COHERENCES)),
        "switches": Switches(**{flag: draw(st.booleans()) for flag in FLAGS}),
    }


def plan_of(request: dict[str, Any]) -> PooledPlan:
    """The plan; a leverage bound that these sizes do not allow is refused by name, and not looked at further."""
    try:
        return pooled_plan.make_plan(**request)
    except CalibrationError:
        assert request["coherence"] == "leverage"
        assume(False)
        raise


def spent_by(plan: PooledPlan) -> float:
    """ε of a plan's events by the account that it names."""
    account = privacy.certified_epsilon if plan.accounting == "exact" else privacy.epsilon_of
    return account(plan.events, plan.delta)


@given(requests())
def test_what_is_paid_is_what_was_given(request: dict[str, Any]) -> None:
    plan = plan_of(request)
    epsilon, delta, switches = request["epsilon"], request["delta"], request["switches"]
    spent = spent_by(plan)
    assert spent <= epsilon
    # Separate conversions waste on purpose, and the paper's curve does not begin below γ = 25/8.
    if switches.joint_accounting and (switches.tight_curve or plan.gamma > 4):
        assert spent > 0.99 * epsilon
    assert sum(line.epsilon for line in plan.budget) == pytest.approx(epsilon, rel=1e-9)
    assert sum(line.delta for line in plan.budget) == pytest.approx(delta, rel=1e-9)


@given(requests())
def test_events_cover_all_that_a_run_releases(request: dict[str, Any]) -> None:
    """Counted by hand: rows of all draws, T gradients, one estimate per sketch, and every failure probability."""
    plan = plan_of(request)
    switches, delta = plan.switches, plan.delta
    sketches = plan.n_iter if plan.k2 and not switches.shared_sketch else 1
    draws = 1 if switches.pooled and sketches == 1 else plan.n_iter
    (mixing,) = [event for event in plan.events if isinstance(event, MixingEvent)]
    assert draws * (plan.degrees // draws) <= mixing.rows == plan.degrees
    assert plan.degrees // draws >= plan.n_columns + 4
    assert mixing.gamma == plan.gamma
    assert mixing.bound == ("tight" if switches.tight_curve else "paper")
    gaussians: dict[float, int] = {}
    for event in plan.events:
        if isinstance(event, GaussianEvent):
            gaussians[event.noise_multiplier] = gaussians.get(event.noise_multiplier, 0) + event.count
    used = [(plan.noise_multiplier, plan.n_iter)]
    used += [(plan.deviation_noise, sketches)] * (plan.route == "private")
    used += [(plan.eigenvalue_noise, sketches)] * (plan.eigenvalue_kind != "")
    for multiplier in {noise for noise, _ in used}:
        assert gaussians[multiplier] >= sum(count for noise, count in used if noise == multiplier)
    failures = sum(event.delta * event.count for event in plan.events if isinstance(event, FailureEvent))
    needed = sketches * plan.estimate_failure * ((plan.route == "private") + (plan.eigenvalue_kind != ""))
    padded = 1 << (plan.n_samples - 1).bit_length()
    if plan.route == "public":
        # m* by its formula at the δ left for one sketch: neither β nor a sensitivity may use a smaller one.
        one = (failures - needed) / sketches
        m_star = math.sqrt(padded / plan.k2 - 1) * math.sqrt(2 * math.log(2 / one)) * (1 - 1e-9)
        assert plan.m_bound >= m_star
        assert plan.beta >= plan.gamma * (1 + 2 * m_star)
    elif plan.route == "leverage":
        assert failures > needed
        assert plan.row_design == "uniform"  # its proof needs rows drawn uniformly
    else:
        assert failures >= needed * (1 - 1e-12)
    if plan.eigenvalue_kind == "eigenvalue":
        assert plan.route in ("gram", "public", "private")  # where 1 + 2m has a bound
        assert math.isfinite(plan.m_bound) or plan.route == "private"
    floors = {"gram": plan.gamma, "free": (math.sqrt(plan.gamma**2 + plan.gamma) + plan.gamma) ** 2}
    assert plan.beta >= floors.get(plan.route, plan.gamma) * (1 - 1e-12)
    assert (plan.route == "gram") == (plan.k2 == 0)
    assert plan.n_passes == plan.n_iter + (plan.route == "private")
    assert failures < 0.5 * delta
    if plan.accounting == "exact":  # one block of rows, at a noise level fixed before any release
        assert sketches == 1
        assert switches.tight_curve
        assert switches.joint_accounting
        assert not plan.eigenvalue_kind
        assert plan.route != "private"


@settings(max_examples=15)
@given(requests())
def test_plan_is_a_function_of_public_facts(request: dict[str, Any]) -> None:
    plan = plan_of(request)
    pooled_plan._make_plan.cache_clear()
    assert pooled_plan.make_plan(**request) == plan
    assert plan.to_dict()["epsilon"] == request["epsilon"]
    assert f"{plan.n_iter} iterations" in plan.describe()


def test_nothing_but_public_facts_can_enter_a_plan() -> None:
    names = set(inspect.signature(pooled_plan.make_plan).parameters)
    sizes = {"n_samples", "n_columns", "n_iter", "k1", "k2"}
    assert names == sizes | {"epsilon", "delta", "solver", "coherence", "switches"}
    X, y = small_data(300, 3)
    for solver in ("ihm", "fastihm"):
        plans = [
            fit(model(solver=solver, preset="tight"), data, target).plan_
            for data, target in ((X, y), (np.zeros_like(X), -y), (np.full_like(X, np.nan), y))
        ]
        assert plans[0] == plans[1] == plans[2]


ROUTES: dict[str, dict[str, Any]] = {
    "gram": {"solver": "ihm"},
    "public": {"solver": "fastihm", "coherence": "public"},
    "free": {"solver": "fastihm", "coherence": "free"},
    "private": {"solver": "fastihm", "coherence": "private"},
    "leverage": {"solver": "fastihm", "coherence": "leverage", "k2": 2048, "delta": 0.1},
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_chunk_is_read_once_in_each_planned_pass(route: str) -> None:
    X, y = small_data(4000, 2)
    source, target = ReadCounter(X, 500), ReadCounter(y[:, None], 500)
    options = {"preset": "tight", "n_iter": 3, "persist": False, **ROUTES[route]}
    found = fit(model(**options), source.array, target.array[:, 0])
    assert found.plan_.route == route
    passes = 4 if route == "private" else 3
    assert found.n_passes_ == found.plan_.n_passes == passes
    assert source.reads == dict.fromkeys(range(8), passes)
    assert target.reads == dict.fromkeys(range(8), passes)


@given(
    st.integers(3, 40),
    st.floats(0.05, 10),
    st.sampled_from([1e-4, 1e-9, 1e-13]),
    st.integers(1, 10),
    st.sampled_from([2**10, 2**17, 2**24]),
)
def test_the_papers_own_releases_cost_less_in_one_sum(d: int, epsilon: float, delta: float, T: int, n: int) -> None:
    """The same γ, σ, ω and shifts as the paper preset, accounted as the tight preset does: never above ε."""
    plan = fast_ihm_paper.make_plan(n, d, epsilon=epsilon, delta=delta, n_iter=T)
    events = [
        MixingEvent(T * plan.k1, plan.gamma, "tight"),
        GaussianEvent(plan.noise_multiplier, T),
        LaplaceEvent(plan.omega, 2 * T),
        FailureEvent(math.exp(-plan.tau) / 2, 2 * T),
    ]
    assert privacy.epsilon_of(events, delta) < epsilon


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e5])
@pytest.mark.parametrize("solver", ["ihm", "fastihm"])
def test_extreme_budgets_are_planned(epsilon: float, solver: str) -> None:
    plan = pooled_plan.make_plan(1000, 3, solver=solver, epsilon=epsilon, delta=1e-12)
    assert 0.9 * epsilon < spent_by(plan) <= epsilon


def test_the_exact_account_is_used_where_the_added_variance_is_fixed_in_advance() -> None:
    public = {"n_samples": 131_072, "n_columns": 32, "epsilon": 1.0, "delta": 2.0**-34}
    fixed = pooled_plan.make_plan(**public, solver="ihm")
    renyi = pooled_plan.make_plan(**public, solver="ihm", switches=Switches(exact_accounting=False))
    assert (fixed.accounting, renyi.accounting) == ("exact", "renyi")
    assert (fixed.degrees, fixed.n_iter) == (renyi.degrees, renyi.n_iter)
    for less, more in ((fixed.gamma, renyi.gamma), (fixed.noise_multiplier, renyi.noise_multiplier)):
        assert 0.93 * more < less < 0.97 * more
    assert (
        0.999
        < calibrate.spent(fixed.events, fixed.delta, "exact")
        <= 1.0
        < privacy.epsilon_of(fixed.events, fixed.delta)
    )
    # Noise that follows an estimate, sketches of their own, or parts converted by themselves: the Rényi sum.
    others = (
        {"solver": "fastihm", "coherence": "private"},
        {"solver": "ihm", "switches": Switches(skip_estimate=False)},
        {"solver": "fastihm", "coherence": "public", "switches": Switches(shared_sketch=False)},
        {"solver": "ihm", "switches": Switches(joint_accounting=False)},
        {"solver": "ihm", "switches": Switches(tight_curve=False)},
    )
    for options in others:
        plan = pooled_plan.make_plan(**public, **options)
        assert plan.accounting == "renyi"
        assert privacy.epsilon_of(plan.events, plan.delta) <= 1.0


def test_fewer_rounds_are_taken_only_when_they_cost_little() -> None:
    for n, d in ((10_000, 5), (1_000_000, 40)):
        free = pooled_plan.make_plan(n, d, solver="ihm", epsilon=1.0, delta=1e-9)
        risks = {
            T: pooled_plan.make_plan(n, d, solver="ihm", epsilon=1.0, delta=1e-9, n_iter=T).predicted_risk
            for T in pooled_choice.ITERATIONS
        }
        assert free.predicted_risk == risks[free.n_iter] <= 1.02 * min(risks.values())
