"""From names of solver and preset to the function that plans and the one that runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.linalg import one_blas_thread
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.rows.operator import RowOperator, SketchedRows
from fastdp_dask.solvers import (
    adassp,
    fast_ihm_paper,
    fast_linear_mixing,
    ihm_paper,
    linear_mixing,
    linear_mixing_plan,
    pooled,
    pooled_plan,
)
from fastdp_dask.solvers.base import Plan, Solution

SOLVERS = ("auto", "fastihm", "ihm", "adassp", "linear_mixing", "fast_linear_mixing")
PRESETS = ("tight", "paper")
_MOST_ROUNDS = 1000  # each is a pass over the data
_MOST_ROWS = 1 << 40
COHERENCE = ("auto", "public", "leverage", "free", "private")

# What does not exist in a solver must be left out: it would otherwise be ignored in silence.
_WITHOUT: dict[tuple[str, str], tuple[str, ...]] = {
    ("adassp", "tight"): ("n_iter", "k1", "k2", "coherence"),
    ("adassp", "paper"): ("n_iter", "k1", "k2", "coherence"),
    ("linear_mixing", "tight"): ("n_iter", "k2", "coherence"),
    ("linear_mixing", "paper"): ("n_iter", "k2", "coherence"),
    ("fast_linear_mixing", "tight"): ("n_iter",),
    ("fast_linear_mixing", "paper"): ("n_iter", "coherence"),
    ("ihm", "paper"): ("k2", "coherence"),
    ("ihm", "tight"): ("k2", "coherence"),
}


@dataclass(frozen=True)
class Request:
    """Checked options of a fit, all public."""

    epsilon: float
    delta: float
    solver: str
    preset: str
    n_iter: int | None
    k1: int | None
    k2: int | None
    coherence: str
    intervals: bool = False  # whether "auto" must take a solver whose error can be told


def check_request(
    *,
    epsilon: float,
    delta: float,
    solver: str = "auto",
    preset: str = "tight",
    n_iter: int | None = None,
    k1: int | None = None,
    k2: int | None = None,
    coherence: str = "auto",
    intervals: bool = False,
) -> Request:
    """Check each option by itself and against the solver, before any data is looked at.

    Raises
    ------
    ArgumentError
        An option is out of its range, or the solver has no such option.
    """
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    _validate.choice("solver", solver, SOLVERS)
    _validate.choice("preset", preset, PRESETS)
    _validate.choice("coherence", coherence, COHERENCE)
    hint = "Leave it out for the default."
    sizes = {
        name: None if value is None else _validate.count(name, value, maximum=most, hint=hint)
        for name, value, most in (("n_iter", n_iter, _MOST_ROUNDS), ("k1", k1, _MOST_ROWS), ("k2", k2, _MOST_ROWS))
    }
    given = {**sizes, "coherence": None if coherence == "auto" else coherence}
    for name in _WITHOUT.get((solver, preset), ()):
        if given[name] is not None:
            raise ArgumentError(
                f"{name} must be left out for solver={solver!r} with preset={preset!r}, which has no such option, "
                f"got {name}={given[name]!r}. Leave it out, or use solver='fastihm'."
            )
    intervals = _validate.boolean("uncertainty", intervals)
    return Request(epsilon, delta, solver, preset, coherence=coherence, intervals=intervals, **sizes)


def check_targets(request: Request, n_targets: int) -> None:
    """Refuse several targets where a solver has no joint release for them.

    Raises
    ------
    ArgumentError
        y has several columns and the solver is for one.
    """
    joint = request.solver in ("auto", "ihm", "fastihm") and request.preset == "tight"
    if n_targets > 1 and not joint and request.solver != "adassp":
        raise ArgumentError(
            f"y must have one column for solver={request.solver!r} with preset={request.preset!r}, which releases "
            f"nothing that several targets could share, got {n_targets}. Use solver='ihm' or 'fastihm' with "
            "preset='tight', or 'adassp', or fit one target at a time."
        )


def make_plan(request: Request, n_samples: int, n_columns: int) -> Plan:
    """The plan of a named solver for n samples and d columns (intercept included); "auto" has been resolved."""
    solver, preset = request.solver, request.preset
    epsilon, delta = request.epsilon, request.delta
    if solver == "auto":
        raise ValueError("solver='auto' stands for another, which fastdp_dask.costs.choice picks")
    if solver == "adassp":
        return adassp.make_plan(n_samples, n_columns, epsilon=epsilon, delta=delta, preset=preset)
    if solver in ("linear_mixing", "fast_linear_mixing"):
        return linear_mixing_plan.make_plan(
            n_samples, n_columns, solver=solver, epsilon=epsilon, delta=delta, preset=preset,
            k1=request.k1, k2=request.k2, coherence=request.coherence,
        )  # fmt: skip
    if preset == "tight":
        return pooled_plan.make_plan(
            n_samples, n_columns, solver=solver, epsilon=epsilon, delta=delta,
            n_iter=request.n_iter, k1=request.k1, k2=request.k2, coherence=request.coherence,
        )  # fmt: skip
    if solver == "ihm":
        return ihm_paper.make_plan(
            n_samples, n_columns, epsilon=epsilon, delta=delta, n_iter=request.n_iter, k1=request.k1
        )
    return fast_ihm_paper.make_plan(
        n_samples, n_columns, epsilon=epsilon, delta=delta, n_iter=request.n_iter, k1=request.k1, k2=request.k2
    )


def for_targets(plan: Plan, request: Request, n_targets: int) -> Plan:
    """The plan for so many targets; what "auto" chose gives way to "ihm" where it has no joint release."""
    if n_targets == 1:
        return plan
    if isinstance(plan, linear_mixing_plan.MixingPlan):
        plan = make_plan(replace(request, solver="ihm"), plan.n_samples, plan.n_columns)
    return replace(plan, n_targets=n_targets)


def solve(rows: RowOperator, plan: Plan, *, public_seed: int, noise: NoiseSource, releases: ReleaseLog) -> Solution:
    """Run a plan, with one BLAS thread to a task and on the driver: the bits do not depend on the machine's cores."""
    with one_blas_thread():
        match plan:
            case fast_ihm_paper.PaperPlan():
                return fast_ihm_paper.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
            case ihm_paper.IHMPlan():
                return ihm_paper.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
            case adassp.AdaSSPPlan():
                return adassp.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
            case linear_mixing_plan.MixingPlan():
                assert isinstance(rows, SketchedRows)
                module = linear_mixing if plan.solver == "linear_mixing" else fast_linear_mixing
                return module.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
            case _:
                assert isinstance(plan, pooled_plan.PooledPlan)
                return pooled.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
