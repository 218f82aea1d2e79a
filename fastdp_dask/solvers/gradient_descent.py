"""Private gradient descent, the plain first-order baseline; not a solver of `LinearRegression`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.linalg import bounded
from fastdp_dask.privacy import GaussianEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.solvers.base import BudgetLine, Plan, Solution
from fastdp_dask.solvers.common import release_gradient

_DEFAULT_ITERATIONS = 20
_CLIP = 1.0


@dataclass(frozen=True)
class GradientDescentPlan(Plan):
    """`Plan` with the step.

    Attributes
    ----------
    step : float
        Step in units of 1/n.  ‖XᵀX‖ ≤ n, so that steps below 2 never diverge.
    """

    step: float = 1.0


def make_plan(
    n_samples: int,
    n_columns: int,
    *,
    epsilon: float,
    delta: float,
    n_iter: int | None = None,
    step: float = 1.0,
) -> GradientDescentPlan:
    """σ from T clipped gradients within (ε, δ) by one Rényi sum; T = 20 by default."""
    T = _DEFAULT_ITERATIONS if n_iter is None else n_iter
    sigma = privacy.calibrate_gaussian(epsilon, delta, n_releases=T)
    return GradientDescentPlan(
        solver="gradient_descent",
        preset="tight",
        n_samples=n_samples,
        n_columns=n_columns,
        epsilon=epsilon,
        delta=delta,
        n_iter=T,
        k1=0,
        k2=0,
        clip=_CLIP,
        gamma=0.0,
        noise_multiplier=sigma,
        n_passes=T,
        budget=(BudgetLine(f"{T} clipped gradients", epsilon, delta),),
        step=step,
        events=(GaussianEvent(sigma, T),),
    )


def solve(
    rows: RowOperator, plan: GradientDescentPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """θ_{t+1} = θ_t + (step/n) g̃_t, θ_0 = 0: T passes."""
    theta = np.zeros(plan.n_columns)
    iterates = []
    for t in range(plan.n_iter):
        name = f"gradient_{t}"
        if name not in releases:
            release_gradient(name, rows.gradient(theta, plan.clip), plan, noise, releases)
        theta = bounded(theta + plan.step / plan.n_samples * releases.stored(name))
        iterates.append(theta)
    return Solution(theta, privacy.epsilon_of(plan.events, plan.delta), plan.delta, {}, np.array(iterates))
