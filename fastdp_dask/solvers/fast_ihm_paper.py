"""FastIHM to the letter of its paper (FM, Algorithm 2 and Theorem 2): `preset="paper"`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.errors import ArgumentError
from fastdp_dask.linalg import bounded, gram_of, smallest_eigenvalue, solve_psd
from fastdp_dask.mechanisms import fast_mixing, spectral
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers.base import BudgetLine, Plan, Solution
from fastdp_dask.solvers.common import release_gradient

_DEFAULT_ITERATIONS = 3
_CLIP = 1.0


@dataclass(frozen=True)
class PaperPlan(Plan):
    """`Plan` with ω and τ of the Laplace releases (FM, Theorem 2)."""

    omega: float = 0.0
    tau: float = 0.0


def make_plan(
    n_samples: int,
    n_columns: int,
    *,
    epsilon: float,
    delta: float,
    n_iter: int | None = None,
    k1: int | None = None,
    k2: int | None = None,
) -> PaperPlan:
    """The parameters of Theorem 2: thirds of (ε, δ) to the Laplace releases, the sketches and the gradients.

    ω = 6T/ε; τ = max{log(3T/δ), log(16T/ϱ)}, ϱ = δ/10; γ from T·k1 rows at (ε/3, δ/3) by the paper's bound; σ from
    T gradients at (ε/3, δ/3).  Defaults T = 3, k1 = 6L, k2 = 100L (at most N), L = max(d, log(4T/ϱ)).

    Raises
    ------
    ArgumentError
        If k1 < d or k2 > N.
    """
    T = _DEFAULT_ITERATIONS if n_iter is None else n_iter
    rho = delta / 10
    L = max(float(n_columns), math.log(4 * T / rho))
    padded = next_power_of_two(n_samples)
    k1 = math.ceil(6 * L) if k1 is None else k1
    k2 = min(padded, math.ceil(100 * L)) if k2 is None else k2
    if k1 < n_columns:
        raise ArgumentError(
            f"k1 must be at least the number of columns, {n_columns} with the intercept, got k1={k1}. "
            "Leave it out for the default."
        )
    if k2 > padded:
        raise ArgumentError(
            f"k2 must be at most {padded}, the power of two that holds {n_samples} rows, got k2={k2}. "
            "Leave it out for the default."
        )
    third = (epsilon / 3, delta / 3)
    gamma = privacy.calibrate_gamma(*third, k1, n_releases=T, bound="paper")
    noise_multiplier = privacy.calibrate_gaussian(*third, n_releases=T)
    omega = 6 * T / epsilon
    tau = max(math.log(3 * T / delta), math.log(16 * T / rho))
    return PaperPlan(
        solver="fastihm",
        preset="paper",
        n_samples=n_samples,
        n_columns=n_columns,
        epsilon=epsilon,
        delta=delta,
        n_iter=T,
        k1=k1,
        k2=k2,
        clip=_CLIP,
        gamma=gamma,
        noise_multiplier=noise_multiplier,
        n_passes=T + 1,
        omega=omega,
        tau=tau,
        events=(
            privacy.MixingEvent(rows=T * k1, gamma=gamma, bound="paper"),
            privacy.GaussianEvent(noise_multiplier=noise_multiplier, count=T),
            privacy.LaplaceEvent(scale_over_sensitivity=omega, count=2 * T),
            # Each round's two estimates are both on their safe side except with probability e^−τ.
            privacy.FailureEvent(delta=T * math.exp(-tau)),
        ),
        budget=(
            BudgetLine(f"{2 * T} Laplace releases (deviation, smallest eigenvalue)", *third),
            BudgetLine(f"{T} Gaussian sketches of {k1:,} rows", *third),
            BudgetLine(f"{T} clipped gradients", *third),
        ),
        reasons=("parameters as in the paper's Theorem 2",),
    )


def solve(
    rows: RowOperator, plan: PaperPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """Run the plan: T + 1 passes, fewer when `releases` holds the first steps of an interrupted run.

    θ_{t+1} = θ_t + (X̃_tᵀX̃_t / k1)⁻¹ (g̃_t − η² θ_t), θ_0 = 0, with a fresh SRHT S_t in every round and a common η².
    """
    T = plan.n_iter
    if "gradient_0" not in releases:
        _release_sketches(rows, plan, public_seed, noise, releases)
    added = float(releases.stored("added_variance"))
    theta = np.zeros(plan.n_columns)
    iterates = []
    for t in range(T):
        name = f"gradient_{t}"
        if name not in releases:
            release_gradient(name, rows.gradient(theta, plan.clip), plan, noise, releases)
        theta = bounded(theta + solve_psd(releases.stored(f"hessian_{t}"), releases.stored(name) - added * theta))
        iterates.append(theta)
    scalars = {name: float(releases.stored(name)) for name in releases.names if "_tilde" in name}
    return Solution(theta, plan.epsilon, plan.delta, {**scalars, "added_variance": added}, np.array(iterates))


def _release_sketches(
    rows: RowOperator, plan: PaperPlan, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> None:
    """Two passes: Z_t and g_0, then m_t; from them m̃_t, λ̃_t, η², X̃_tᵀX̃_t/k1 and g̃_0."""
    T = plan.n_iter
    sketches = [SRHT(plan.n_samples, plan.k2, seed=rng.derive_key(public_seed, "round", t)) for t in range(T)]
    sums, first_gradient = rows.sketch(sketches, plan.clip)
    deviations = rows.deviation(sketches, sums)
    # With k2 = N the sketch is orthonormal and Δ = 0: m = 0 by case.  The computed one would be released without noise.
    whole = plan.k2 == sketches[0].n_padded
    if whole:
        deviations = [0.0] * T
    scaled = [total / (GRID * math.sqrt(plan.k2)) for total in sums]
    # The added variance is sound only for the data that its estimates saw: all of this is one record on disk.
    with releases.together():
        added = 0.0
        for t in range(T):
            coherence = 0.0
            if not whole:
                exact = sketches[t].coherence()
                coherence = spectral.deviation_sensitivity(exact, plan.n_samples, plan.k2, plan.n_columns)
            m_tilde = releases.once(f"m_tilde_{t}", _m_tilde, noise, deviations[t], coherence, plan)
            lambda_tilde = releases.once(f"lambda_tilde_{t}", _lambda_tilde, noise, scaled[t], float(m_tilde), plan)
            added = max(added, fast_mixing.added_variance(plan.gamma, float(m_tilde), float(lambda_tilde)))
        releases.once("added_variance", lambda _: added, noise)  # a function of the releases above
        for t in range(T):
            releases.once(f"hessian_{t}", _mixed_gram, noise, scaled[t], added, plan.k1)
    release_gradient("gradient_0", first_gradient, plan, noise, releases)


def _m_tilde(z: rng.NoiseStream, deviation: float, coherence: float, plan: PaperPlan) -> float:
    return fast_mixing.private_deviation(deviation, coherence, plan.omega, plan.tau, z)


def _lambda_tilde(z: rng.NoiseStream, Z: np.ndarray, m_tilde: float, plan: PaperPlan) -> float:
    value = smallest_eigenvalue(gram_of(Z, 1.0))
    return fast_mixing.private_eigenvalue(value, m_tilde, plan.omega, plan.tau, z)


def _mixed_gram(z: np.random.Generator, Z: np.ndarray, added: float, k1: int) -> np.ndarray:
    sketch = fast_mixing.mixing(Z, added, k1, z)
    return sketch.T @ sketch / k1
