"""FastIHM and IHM with `preset="tight"`: one sketch, one Wishart draw, adaptive steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fastdp_dask import rng
from fastdp_dask.linalg import bounded, gram_of, smallest_eigenvalue, solve_psd
from fastdp_dask.mechanisms import spectral
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers.base import Solution
from fastdp_dask.solvers.calibrate import spent
from fastdp_dask.solvers.common import release_gradient, root
from fastdp_dask.solvers.pooled_plan import PooledPlan
from fastdp_dask.solvers.steps import AdaptiveSteps, damping


def solve(
    rows: RowOperator, plan: PooledPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """Run the plan: T passes (one more for a private deviation).

    Release s̃ (if it pays), then W ~ Wishart_d(K, ZᵀZ + η²I), then g̃_0, …, g̃_{T−1}; between them
    θ_{t+1} = θ_t + A_t g̃_t with A_t a function of W/K, η² and the released gradients.
    """
    if "gradient_0" not in releases:
        _release_hessian(rows, plan, public_seed, noise, releases)
    added = [float(value) for value in np.atleast_1d(releases.stored("added_variance"))]
    step = _stepper(plan, added, releases)
    theta = np.zeros(plan.theta_shape)
    iterates = []
    for t in range(plan.n_iter):
        name = f"gradient_{t}"
        if name not in releases:
            release_gradient(name, rows.gradient(theta, plan.clip), plan, noise, releases)
        theta = bounded(theta + step(t, releases.stored(name), theta))
        iterates.append(theta)
    released = {
        name: float(releases.stored(name)) for name in releases.names if "_tilde" in name or name == "added_variance"
    }
    epsilon = spent(plan.events, plan.delta, plan.accounting)
    return Solution(theta, epsilon, plan.delta, released, np.array(iterates))


def _release_hessian(
    rows: RowOperator, plan: PooledPlan, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> None:
    """The first pass (and the deviation pass of the private route), and all that is released from it."""
    rounds = 1 if plan.switches.shared_sketch or not plan.k2 else plan.n_iter
    deviations, coherences = [0.0] * rounds, [0.0] * rounds
    if plan.k2:
        keys = [rng.derive_key(public_seed, "round", t) for t in range(rounds)]
        sketches = [SRHT(plan.n_samples, plan.k2, seed=key, design=plan.row_design) for key in keys]
        sums, first_gradient = rows.sketch(sketches, plan.clip)
        grams = [gram_of(total, GRID * math.sqrt(plan.k2)) for total in sums]
        if plan.route == "private":
            deviations = rows.deviation(sketches, sums)
            coherences = [
                spectral.deviation_sensitivity(sketch.coherence_bound(), plan.n_samples, plan.k2, plan.n_columns)
                for sketch in sketches
            ]
    else:
        gram, first_gradient = rows.gram(plan.clip)
        grams = [gram]
    # The added variance is sound only for the data that its estimates saw: all of this is one record on disk.
    with releases.together():
        added = []
        for t in range(rounds):
            beta = plan.beta
            if plan.route == "private":
                m_tilde = releases.once(
                    f"m_tilde_{t}", _deviation, noise, deviations[t], coherences[t], plan
                )
                beta = plan.gamma * (1.0 + 2.0 * float(m_tilde))
            found = 0.0
            if plan.eigenvalue_kind:
                m_bound = float(releases.stored(f"m_tilde_{t}")) if plan.route == "private" else plan.m_bound
                found = float(releases.once(f"lambda_tilde_{t}", _eigenvalue, noise, grams[t], m_bound, plan))
            added.append(max(beta - found, 0.0))
        common = np.array(max(added))
        releases.once("added_variance", lambda _: common, noise)  # a function of the releases above
        _release_draws(plan, grams, float(common), noise, releases)
    release_gradient("gradient_0", first_gradient, plan, noise, releases)


def _release_draws(
    plan: PooledPlan, grams: list[np.ndarray], added: float, noise: rng.NoiseSource, releases: ReleaseLog
) -> None:
    identity = np.eye(plan.n_columns)
    count = 1 if plan.switches.pooled and len(grams) == 1 else plan.n_iter
    for t in range(count):
        scale = grams[t if len(grams) > 1 else 0] + added * identity
        degrees = plan.degrees // count
        releases.once(f"hessian_{t}", lambda z, s=scale, k=degrees: wishart(k, s, z) / k, noise)


def _stepper(
    plan: PooledPlan, added: list[float], releases: ReleaseLog
) -> Callable[[int, np.ndarray, np.ndarray], np.ndarray]:
    hessians = [releases.stored(name) for name in releases.names if name.startswith("hessian_")]
    degrees = plan.degrees // len(hessians)
    if plan.switches.adaptive_steps and plan.switches.no_pull and len(hessians) == 1:
        distortion = plan.n_columns / plan.k2 if plan.k2 else 0.0
        noise = plan.noise_multiplier * plan.clip * root(plan.n_targets)
        steps = [AdaptiveSteps(hessians[0], degrees, added[0], noise, distortion) for _ in range(plan.n_targets)]
        if plan.n_targets == 1:
            return lambda t, gradient, theta: steps[0].step(gradient)
        return lambda t, gradient, theta: np.stack([s.step(gradient[:, j]) for j, s in enumerate(steps)], axis=1)
    c = damping(degrees, plan.n_columns)
    pull = 0.0 if plan.switches.no_pull else added[0]
    return lambda t, gradient, theta: c * solve_psd(hessians[min(t, len(hessians) - 1)], gradient - pull * theta)


def _deviation(z: rng.NoiseStream, value: float, coherence: float, plan: PooledPlan) -> float:
    return spectral.deviation(value, coherence, plan.deviation_noise, plan.estimate_failure, z)


def _eigenvalue(z: rng.NoiseStream, gram: np.ndarray, m_bound: float, plan: PooledPlan) -> float:
    noise, failure = plan.eigenvalue_noise, plan.estimate_failure
    if plan.eigenvalue_kind == "eigenvalue":
        return spectral.smallest_eigenvalue(smallest_eigenvalue(gram), m_bound, noise, failure, z)
    return spectral.smallest_singular_value(spectral.singular_value_of(gram), noise, failure, z)
