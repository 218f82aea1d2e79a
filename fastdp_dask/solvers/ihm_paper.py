"""Iterative Hessian mixing to the letter of its paper (IHM): `solver="ihm", preset="paper"`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.errors import ArgumentError
from fastdp_dask.linalg import bounded, smallest_eigenvalue, solve_psd
from fastdp_dask.mechanisms import fast_mixing
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.privacy import FailureEvent, GaussianEvent, LaplaceEvent, MixingEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.operator import RowOperator, SketchedRows
from fastdp_dask.solvers.base import BudgetLine, Plan, Solution
from fastdp_dask.solvers.common import release_gradient

_DEFAULT_ITERATIONS = 3
_CLIP = 1.0


@dataclass(frozen=True)
class IHMPlan(Plan):
    """`Plan` with the Laplace release of λ_min.

    Attributes
    ----------
    omega, tau : float
        Scale and shift of λ̃, whose sensitivity is 1.
    pull : bool
        Whether the steps have the −η²θ term of the paper; the authors' scripts leave it out.
    """

    omega: float = 0.0
    tau: float = 0.0
    pull: bool = True


def make_plan(
    n_samples: int,
    n_columns: int,
    *,
    epsilon: float,
    delta: float,
    n_iter: int | None = None,
    k1: int | None = None,
    pull: bool = True,
) -> IHMPlan:
    """Thirds of (ε, δ) to λ̃, to T Gaussian sketches of k1 rows and to T gradients.

    ω = 3/ε, τ = log(3/(2δ)), so that λ̃ > λ_min with probability δ/3; γ from T·k1 rows at (ε/3, δ/3); σ from T gradients
    at (ε/3, δ/3).  Defaults T = 3, k1 = 8L, L = max(d, log(4T/ϱ)), ϱ = δ/10.

    Raises
    ------
    ArgumentError
        If k1 < d.
    """
    T = _DEFAULT_ITERATIONS if n_iter is None else n_iter
    length = max(float(n_columns), math.log(4 * T / (delta / 10)))
    k1 = math.ceil(8 * length) if k1 is None else k1
    if k1 < n_columns:
        raise ArgumentError(
            f"k1 must be at least the number of columns, {n_columns} with the intercept, got k1={k1}. "
            "Leave it out for the default."
        )
    third = (epsilon / 3, delta / 3)
    gamma = privacy.calibrate_gamma(*third, k1, n_releases=T)
    sigma = privacy.calibrate_gaussian(*third, n_releases=T)
    omega, tau = 3 / epsilon, math.log(3 / (2 * delta))
    return IHMPlan(
        solver="ihm",
        preset="paper",
        n_samples=n_samples,
        n_columns=n_columns,
        epsilon=epsilon,
        delta=delta,
        n_iter=T,
        k1=k1,
        k2=0,
        clip=_CLIP,
        gamma=gamma,
        noise_multiplier=sigma,
        n_passes=T,
        omega=omega,
        tau=tau,
        pull=pull,
        events=(
            LaplaceEvent(omega),
            MixingEvent(T * k1, gamma),
            GaussianEvent(sigma, T),
            FailureEvent(delta / 3 * (1 + 2.0**-40)),
        ),
        budget=(
            BudgetLine("Laplace release of the smallest eigenvalue", *third),
            BudgetLine(f"{T} Gaussian sketches of {k1:,} rows", *third),
            BudgetLine(f"{T} clipped gradients", *third),
        ),
        reasons=("parameters as in the paper: thirds of the budget",),
    )


def solve(
    rows: RowOperator, plan: IHMPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """θ_{t+1} = θ_t + (X̃_tᵀX̃_t / k1)⁻¹ (g̃_t − η² θ_t), θ_0 = 0, X̃_t = S_G,t X + η Ξ_t: T passes.

    The rows of X̃_t are N(0, XᵀX + η²I), so X̃_tᵀX̃_t ~ Wishart(k1, XᵀX + η²I) is drawn as such, from XᵀX.
    """
    if "gradient_0" not in releases:
        gram, first_gradient = rows.gram(plan.clip)
        # η² is sound only for the data that λ̃ saw: all of this is one record on disk.
        with releases.together():
            scale = gram + _release_added(gram, plan, noise, releases) * np.eye(plan.n_columns)
            for t in range(plan.n_iter):
                releases.once(f"hessian_{t}", partial(_hessian, scale=scale, k1=plan.k1), noise)
        release_gradient("gradient_0", first_gradient, plan, noise, releases)
    return _iterate(rows, plan, noise, releases)


def solve_dense(rows: SketchedRows, plan: IHMPlan, *, noise: rng.NoiseSource, releases: ReleaseLog) -> Solution:
    """The same release by multiplying with dense S_G,t, as the papers time it: O(T k1 n d) work; T + 1 passes.

    For timing only.  The matrices come from a counter generator under a private key, because the workers need them;
    `solve` draws the same law on the driver from secure noise.  The first pass is XᵀX, for λ_min.
    """
    gram, _ = rows.gram(plan.clip)
    added = _release_added(gram, plan, noise, releases)
    words = [noise.stream(f"sketch_{t}").integers(0, 2**63, size=2) for t in range(plan.n_iter)]
    keys = [int(high) << 63 | int(low) for high, low in words]
    sketches, first_gradient = rows.gaussian_sketch(plan.k1, keys, plan.clip)
    for t, sketch in enumerate(sketches):
        releases.once(f"hessian_{t}", partial(_dense_hessian, sketch=sketch, added=added), noise)
    release_gradient("gradient_0", first_gradient, plan, noise, releases)
    return _iterate(rows, plan, noise, releases)


def _release_added(gram: np.ndarray, plan: IHMPlan, noise: rng.NoiseSource, releases: ReleaseLog) -> float:
    """λ̃ and η² = max(0, γ − λ̃)."""
    found = float(releases.once("lambda_tilde", _eigenvalue, noise, gram, plan))
    added = fast_mixing.added_variance(plan.gamma, 0.0, found)  # X itself is mixed: m = 0
    releases.once("added_variance", lambda _: added, noise)  # a function of the release above
    return added


def _iterate(rows: RowOperator, plan: IHMPlan, noise: rng.NoiseSource, releases: ReleaseLog) -> Solution:
    added = float(releases.stored("added_variance"))
    pull = added if plan.pull else 0.0
    theta = np.zeros(plan.n_columns)
    iterates = []
    for t in range(plan.n_iter):
        name = f"gradient_{t}"
        if name not in releases:
            release_gradient(name, rows.gradient(theta, plan.clip), plan, noise, releases)
        theta = bounded(theta + solve_psd(releases.stored(f"hessian_{t}"), releases.stored(name) - pull * theta))
        iterates.append(theta)
    released = {"lambda_tilde": float(releases.stored("lambda_tilde")), "added_variance": added}
    spent = min(plan.epsilon, privacy.epsilon_of(plan.events, plan.delta))
    return Solution(theta, spent, plan.delta, released, np.array(iterates))


def _eigenvalue(z: rng.NoiseStream, gram: np.ndarray, plan: IHMPlan) -> float:
    return fast_mixing.private_eigenvalue(smallest_eigenvalue(gram), 0.0, plan.omega, plan.tau, z)


def _hessian(z: np.random.Generator, scale: np.ndarray, k1: int) -> np.ndarray:
    return wishart(k1, scale, z) / k1


def _dense_hessian(z: np.random.Generator, sketch: np.ndarray, added: float) -> np.ndarray:
    mixed = sketch + math.sqrt(added) * z.standard_normal(sketch.shape)
    return mixed.T @ mixed / sketch.shape[0]
