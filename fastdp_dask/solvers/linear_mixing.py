"""Linear mixing: least squares on one private Gaussian sketch of [X y] (GM)."""

from __future__ import annotations

from functools import partial

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.linalg import smallest_eigenvalue, solve_psd
from fastdp_dask.mechanisms import fast_mixing, spectral
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.operator import SketchedRows
from fastdp_dask.solvers.base import Solution
from fastdp_dask.solvers.linear_mixing_plan import MixingPlan


def solve(
    rows: SketchedRows, plan: MixingPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """θ = argmin ‖ỹ − X̃θ‖² over the released rows [X̃ ỹ] = S_G B + η Ξ, B = [X y]/√2: one pass.

    Only the moments of the k1 rows matter, so they are drawn at once: W ~ Wishart(k1, BᵀB + η²I).  Rows of B have norm
    ≤ 1, so λ_min(BᵀB) has sensitivity 1 and η² = max(0, γ − λ̃).  Source: GM, linear mixing.
    """
    if "moments" not in releases:
        gram, _ = rows.with_target().gram(plan.clip)
        release_moments(gram / 2, 0.0, plan, noise, releases)
    return least_squares(plan, releases)


def release_moments(
    gram: np.ndarray, m_tilde: float, plan: MixingPlan, noise: rng.NoiseSource, releases: ReleaseLog
) -> None:
    """λ̃ (if the plan has it), η² and W of a mixing release whose rows have second moments `gram` (private)."""
    # The added variance is sound only for the data that its estimates saw: all of this is one record on disk.
    with releases.together():
        found = 0.0
        if plan.omega or plan.eigenvalue_kind:
            found = float(releases.once("lambda_tilde", _estimate, noise, gram, m_tilde, plan))
        beta = plan.gamma * (1.0 + 2.0 * m_tilde) if plan.route == "private" else plan.beta
        added = max(0.0, beta - found)
        releases.once("added_variance", lambda _: added, noise)  # a function of the releases above
        scale = gram + added * np.eye(gram.shape[0])
        releases.once("moments", partial(_moments, scale=scale, plan=plan), noise)


def least_squares(plan: MixingPlan, releases: ReleaseLog) -> Solution:
    """The solution from the released moments of [X̃ ỹ]."""
    moments = releases.stored("moments")
    d = plan.n_columns
    theta = solve_psd(moments[:d, :d], moments[:d, d])
    released = {
        name: float(releases.stored(name))
        for name in ("m_tilde", "lambda_tilde", "added_variance")
        if name in releases
    }
    spent = min(plan.epsilon, privacy.epsilon_of(plan.events, plan.delta))
    return Solution(theta, spent, plan.delta, released, theta[None, :])


def _estimate(z: rng.NoiseStream, gram: np.ndarray, m_tilde: float, plan: MixingPlan) -> float:
    if plan.omega:
        return fast_mixing.private_eigenvalue(smallest_eigenvalue(gram), m_tilde, plan.omega, plan.tau, z)
    noise, failure = plan.eigenvalue_noise, plan.estimate_failure
    if plan.eigenvalue_kind == "eigenvalue":
        value = smallest_eigenvalue(gram)
        m_bound = m_tilde if plan.route == "private" else plan.m_bound
        return spectral.smallest_eigenvalue(value, m_bound, noise, failure, z)
    return spectral.smallest_singular_value(spectral.singular_value_of(gram), noise, failure, z)


def _moments(z: np.random.Generator, scale: np.ndarray, plan: MixingPlan) -> np.ndarray:
    return wishart(plan.k1, scale, z) / plan.k1
