"""From names of solver and preset to the function that plans and the one that runs."""

from __future__ import annotations

from dataclasses import dataclass

from fastdp_dask import _validate
from fastdp_dask.linalg import one_blas_thread
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.solvers import fast_ihm_paper, pooled, pooled_plan
from fastdp_dask.solvers.base import Plan, Solution

SOLVERS = ("auto", "fastihm", "ihm", "adassp", "linear_mixing", "fast_linear_mixing")
PRESETS = ("tight", "paper")
_AVAILABLE = {("auto", "tight"), ("fastihm", "tight"), ("ihm", "tight"), ("fastihm", "paper")}
_GRAM_COLUMNS = 256  # up to here XᵀX by blocks costs no more than a transform, and needs less noise
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
    if (solver, preset) not in _AVAILABLE:
        raise NotImplementedError(
            f"solver={solver!r} with preset={preset!r} is not available. "
            "Use 'fastihm', 'ihm' or 'auto' with 'tight', or 'fastihm' with 'paper'."
        )
    return Request(epsilon, delta, solver, preset, coherence=coherence, **sizes)


def make_plan(request: Request, n_samples: int, n_columns: int) -> Plan:
    """The plan for n samples and d columns (intercept included)."""
    if request.preset == "paper":
        return fast_ihm_paper.make_plan(
            n_samples, n_columns, epsilon=request.epsilon, delta=request.delta,
            n_iter=request.n_iter, k1=request.k1, k2=request.k2,
        )  # fmt: skip
    solver = request.solver
    if solver == "auto":
        solver = "ihm" if n_columns <= _GRAM_COLUMNS else "fastihm"
    return pooled_plan.make_plan(
        n_samples, n_columns, solver=solver, epsilon=request.epsilon, delta=request.delta,
        n_iter=request.n_iter, k1=request.k1, k2=request.k2, coherence=request.coherence,
    )  # fmt: skip


def solve(rows: RowOperator, plan: Plan, *, public_seed: int, noise: NoiseSource, releases: ReleaseLog) -> Solution:
    """Run a plan, with one BLAS thread to a task and on the driver: the bits do not depend on the machine's cores."""
    with one_blas_thread():
        if isinstance(plan, fast_ihm_paper.PaperPlan):
            return fast_ihm_paper.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
        assert isinstance(plan, pooled_plan.PooledPlan)
        return pooled.solve(rows, plan, public_seed=public_seed, noise=noise, releases=releases)
