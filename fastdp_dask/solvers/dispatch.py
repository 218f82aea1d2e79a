"""From names of solver and preset to the function that plans and the one that runs."""

from __future__ import annotations

from dataclasses import dataclass

from fastdp_dask import _validate
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.solvers import fast_ihm_paper
from fastdp_dask.solvers.base import Plan, Solution

SOLVERS = ("auto", "fastihm", "ihm", "adassp", "linear_mixing", "fast_linear_mixing")
PRESETS = ("tight", "paper")
COHERENCE = ("auto", "public", "leverage", "free", "private")


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
) -> Request:
    """Check each option by itself, before any data is looked at."""
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    _validate.choice("solver", solver, SOLVERS)
    _validate.choice("preset", preset, PRESETS)
    _validate.choice("coherence", coherence, COHERENCE)
    sizes = {
        name: None if value is None else _validate.count(name, value, hint="Leave it out for the default.")
        for name, value in (("n_iter", n_iter), ("k1", k1), ("k2", k2))
    }
    return Request(epsilon, delta, solver, preset, coherence=coherence, **sizes)


def make_plan(request: Request, n_samples: int, n_columns: int) -> Plan:
    """The plan for n samples and d columns (intercept included)."""
    if (request.solver, request.preset) == ("fastihm", "paper"):
        return fast_ihm_paper.make_plan(
            n_samples, n_columns, epsilon=request.epsilon, delta=request.delta,
            n_iter=request.n_iter, k1=request.k1, k2=request.k2,
        )  # fmt: skip
    raise NotImplementedError(
        f"solver={request.solver!r} with preset={request.preset!r} is not available yet. "
        "Use solver='fastihm' with preset='paper'."
    )


def solve(rows: RowOperator, plan: Plan, *, public_seed: int, noise: NoiseSource, releases: ReleaseLog) -> Solution:
    """Run a plan."""
    assert isinstance(plan, fast_ihm_paper.PaperPlan)
    return fast_ihm_paper.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
