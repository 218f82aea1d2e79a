"""AdaSSP: noisy XᵀX and Xᵀy from one pass, and a ridge as large as the noise asks for (Wang, 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.linalg import bounded, smallest_eigenvalue
from fastdp_dask.mechanisms import additive
from fastdp_dask.privacy import GaussianEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID, gram_shift, residual_grid
from fastdp_dask.rows.operator import RowOperator
from fastdp_dask.solvers.base import BudgetLine, Plan, Solution
from fastdp_dask.solvers.common import root

_CLIP = 1.0  # |y| ≤ 1: nothing is clipped
_RIDGE_FAILURE = 0.05  # ϱ of the paper: a matter of accuracy, not of privacy
_SHARES = (0.04, 0.48, 0.48)  # of the Rényi budget: λ_min, XᵀX, Xᵀy
_PURPOSES = ("smallest eigenvalue of X'X", "X'X", "X'y")


@dataclass(frozen=True)
class AdaSSPPlan(Plan):
    """`Plan` with the standard deviation of each noise; every sensitivity is 1.

    Attributes
    ----------
    eigenvalue_noise, gram_noise, off_diagonal_noise, moment_noise : float
        On λ_min(XᵀX), on the diagonal of XᵀX and off it, and on Xᵀy.
    eigenvalue_shift : float
        Taken off the noisy eigenvalue, so that it is rarely too large.
    ridge : float
        What λ_min plus the ridge should reach.
    """

    eigenvalue_noise: float = 0.0
    gram_noise: float = 0.0
    off_diagonal_noise: float = 0.0
    moment_noise: float = 0.0
    eigenvalue_shift: float = 0.0
    ridge: float = 0.0


def make_plan(n_samples: int, n_columns: int, *, epsilon: float, delta: float, preset: str = "tight") -> AdaSSPPlan:
    r"""The noise of the three releases.

    "paper": standard deviation sqrt(log(6/δ))/(ε/3) on each, shift log(6/δ)/(ε/3), ridge
    sqrt(d log(6/δ) log(2d²/ϱ))/(ε/3) − λ̃, ϱ = 0.05.

    "tight": one Rényi sum of three Gaussians, 4 % of it to λ_min; half the variance off the diagonal of XᵀX
    (`mechanisms.additive`); shift from the Gaussian tail at ϱ; ridge s(2√d + d^(−1/6)) with s the deviation off the
    diagonal: the edge of such a matrix's spectrum, and one unit of the Tracy–Widom law beyond it (its 95 % point).

    Notes
    -----
    The paper's deviation is below what the classical Gaussian mechanism needs for (ε/3, δ/3) on one release.  The three
    together are within (ε, δ) all the same while ε is below about log(6/δ), by their Rényi sum; beyond that the
    deviation is raised until they are.  Source: Wang (2018), Algorithm 2.
    """
    d = n_columns
    if preset == "paper":
        third = epsilon / 3
        log = math.log(6 / delta)
        scale = math.sqrt(log) / third
        if privacy.epsilon_of([GaussianEvent(scale, 3)], delta) > epsilon:
            scale = privacy.calibrate_gaussian(epsilon, delta, n_releases=3)
        eigen = gram = off_diagonal = moment = scale
        shift = scale * math.sqrt(log)
        ridge = scale * math.sqrt(d * math.log(2 * d**2 / _RIDGE_FAILURE))
        budget = tuple(BudgetLine(purpose, third, delta / 3) for purpose in _PURPOSES)
        reasons = ("noise as in the paper's Algorithm 2, which never divides it more finely than by three",)
    else:
        one = privacy.calibrate_gaussian(epsilon, delta)
        # Rényi costs α/(2σ²) add up: at σ_i² = one²/s_i they sum to that of one release.  2^-30 covers roundings.
        eigen, gram, moment = (one * (1 + 2.0**-30) / math.sqrt(share) for share in _SHARES)
        off_diagonal = gram / math.sqrt(2)
        shift = eigen * math.sqrt(2 * math.log(1 / _RIDGE_FAILURE))
        ridge = off_diagonal * (2 * math.sqrt(d) + d ** (-1 / 6))
        budget = tuple(
            BudgetLine(purpose, epsilon * share, delta * share)
            for purpose, share in zip(_PURPOSES, _SHARES, strict=True)
        )
        reasons = ("one Rényi sum of three Gaussian releases; shares of it, not of epsilon, are fixed in advance",)
    return AdaSSPPlan(
        solver="adassp",
        preset=preset,
        n_samples=n_samples,
        n_columns=d,
        epsilon=epsilon,
        delta=delta,
        n_iter=1,
        k1=0,
        k2=0,
        clip=_CLIP,
        gamma=0.0,
        noise_multiplier=moment,
        n_passes=1,
        budget=budget,
        reasons=reasons,
        eigenvalue_noise=eigen,
        gram_noise=gram,
        off_diagonal_noise=off_diagonal,
        moment_noise=moment,
        eigenvalue_shift=shift,
        ridge=ridge,
        events=tuple(GaussianEvent(scale) for scale in (eigen, gram, moment)),
    )


def solve(
    rows: RowOperator, plan: AdaSSPPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """θ = (XᵀX + E₁ + λI)⁻¹ (Xᵀy + e₂), λ = max(0, ridge − λ̃), λ̃ = max(0, λ_min(XᵀX) + e₃ − shift): one pass."""
    if "moment" not in releases:
        gram, moment = rows.gram(plan.clip)
        releases.once("lambda_tilde", _eigenvalue, noise, gram, plan)
        releases.once("gram", partial(_gram, gram=gram, plan=plan), noise)
        releases.once("moment", partial(_moment, moment=moment, plan=plan), noise)
    found = float(releases.stored("lambda_tilde"))
    added = max(0.0, plan.ridge - found)
    theta = _solve(releases.stored("gram") + added * np.eye(plan.n_columns), releases.stored("moment"))
    spent = privacy.epsilon_of(plan.events, plan.delta)
    return Solution(theta, spent, plan.delta, {"lambda_tilde": found, "ridge": added}, theta[None, :])


def _eigenvalue(z: rng.NoiseStream, gram: np.ndarray, plan: AdaSSPPlan) -> float:
    value, w = smallest_eigenvalue(gram), plan.eigenvalue_noise
    return max(0.0, additive.gaussian_bound(value, 1.0, w, plan.eigenvalue_shift / w, z, above=False))


def _gram(z: rng.NoiseStream, gram: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    n = plan.n_samples
    step = (2.0 ** gram_shift(n) / GRID) ** 2
    return additive.symmetric_gaussian(gram, plan.gram_noise, plan.off_diagonal_noise, z, step=step, largest=n)


def _moment(z: rng.NoiseStream, moment: np.ndarray, plan: AdaSSPPlan) -> np.ndarray:
    n = plan.n_samples
    step = 1.0 / (GRID * residual_grid(n, plan.clip))
    return additive.gaussian(
        moment.ravel(), plan.moment_noise, z, sensitivity=root(plan.n_targets), step=step, largest=n
    ).reshape(moment.shape)


def _solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """matrix⁻¹ · vector for a symmetric matrix that noise may have made indefinite or singular; never fails."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floor = max(float(np.abs(values).max()) * 1e-14, np.finfo(float).tiny)
    values = np.where(np.abs(values) < floor, floor, values)
    return bounded(vectors @ ((vectors.T @ vector).T / values).T)
