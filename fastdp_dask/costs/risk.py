"""Predicted excess risk of each solver's plan, for guessed spectra of XᵀX; only choices depend on it, never privacy.

Risk is (1/n) E (θ − θ*)ᵀ XᵀX (θ − θ*) in scaled units, θ* least squares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from fastdp_dask.mechanisms.spectral import upward_shift
from fastdp_dask.sketch import low_coherence
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import predict
from fastdp_dask.solvers.adassp import AdaSSPPlan
from fastdp_dask.solvers.base import Plan
from fastdp_dask.solvers.fast_ihm_paper import PaperPlan
from fastdp_dask.solvers.ihm_paper import IHMPlan
from fastdp_dask.solvers.linear_mixing_plan import MixingPlan
from fastdp_dask.solvers.pooled_plan import PooledPlan

MOST_ROWS_TO_A_COLUMN = 32  # of a mixing release, as its plan chooses
_SPREAD = 1.4  # largest deviation over the typical one


@dataclass(frozen=True)
class Guess:
    """What is taken for granted of scaled data nobody has looked at; give what is publicly known instead.

    Attributes
    ----------
    row_energy : float
        Mean squared norm of a scaled row: 1/3 for uniform features, 1 for unit rows and indicators.
    signal, residual : float
        Mean squared scaled target that least squares explains, and leaves.
    tilt : float
        How much of the signal hides in weak directions: squared coefficients go as λ^−tilt.  0: they are alike; 1:
        every direction explains as much.
    spectrum : tuple of float
        Eigenvalues of XᵀX up to a factor; (): flat, falling and spiked ones (`predict.spectra`).
    """

    row_energy: float = predict.ROW_ENERGY
    signal: float = 0.05
    residual: float = 0.02
    tilt: float = 0.5
    spectrum: tuple[float, ...] = field(default=(), repr=False)

    def eigenvalues(self, n_samples: int, n_columns: int) -> np.ndarray:
        """Of XᵀX, one row for each guess, (m, d)."""
        if not self.spectrum:
            return predict.spectra(n_samples, n_columns, self.row_energy)
        shape = np.asarray(self.spectrum, dtype=np.float64)[None, :]
        return np.maximum(shape / shape.sum() * n_samples * self.row_energy, 1e-12)

    def coefficients(self, eigenvalues: np.ndarray, n_samples: int) -> np.ndarray:
        """Squared coefficients of least squares along each eigenvector, (m, d)."""
        relative = (eigenvalues / eigenvalues.max(axis=1, keepdims=True)) ** -self.tilt
        return np.asarray(self.signal * n_samples * relative / np.sum(eigenvalues * relative, axis=1, keepdims=True))


UNKNOWN = Guess()
"""Nothing known."""


def predicted(plan: Plan, guess: Guess = UNKNOWN) -> tuple[np.ndarray, np.ndarray]:
    """Excess risk and η² (for AdaSSP the ridge) for each guessed spectrum, both (m,)."""
    eigenvalues = guess.eigenvalues(plan.n_samples, plan.n_columns)
    theta = guess.coefficients(eigenvalues, plan.n_samples)
    match plan:
        case PooledPlan():
            added = _added(plan, guess, eigenvalues)
            risk = predict.excess_risk(
                eigenvalues, plan.n_samples, added=added, degrees=plan.degrees,
                noise=plan.noise_multiplier * plan.clip, n_iter=plan.n_iter,
                distortion=plan.n_columns / plan.k2 if plan.k2 else 0.0, theta=theta,
            )  # fmt: skip
        case AdaSSPPlan():
            added, risk = _adassp(plan, eigenvalues, theta)
        case MixingPlan():
            added, risk = _mixing(plan, guess, eigenvalues, theta)
        case _:
            assert isinstance(plan, PaperPlan | IHMPlan)
            added, risk = _paper(plan, guess, eigenvalues, theta)
    return np.minimum(risk, 2 * guess.signal + guess.residual), added


def _embedded(plan: Plan, smallest: np.ndarray) -> np.ndarray:
    """λ_min(ZᵀZ) from λ_min(XᵀX)."""
    return smallest * (1 - math.sqrt(plan.n_columns / plan.k2)) ** 2 if plan.k2 > plan.n_columns else smallest


def _deviation(n_samples: int, k2: int, energy: float, design: str = "uniform") -> tuple[float, float]:
    """The deviation m expected of an SRHT, and its sensitivity Δ."""
    padded = next_power_of_two(n_samples)
    coherence = math.sqrt(2 * math.log(2 * padded) / k2)
    if design == "low_coherence":
        coherence = low_coherence.coherence_bound(padded, k2)
    return _SPREAD * math.sqrt(padded / k2 * energy), coherence


def _found(low: np.ndarray, kind: str, noise: float, failure: float, m: float) -> np.ndarray:
    """λ̃ expected for λ_min = low."""
    if not kind:
        return np.zeros_like(low)
    shift = upward_shift(noise, failure)
    if kind == "eigenvalue":
        return np.maximum(low - (1 + 2 * m) * shift, 0.0)
    return np.maximum(np.sqrt(low) - shift, 0.0) ** 2


def _added(plan: PooledPlan, guess: Guess, eigenvalues: np.ndarray) -> np.ndarray:
    beta, m = plan.beta, plan.m_bound
    if plan.route == "private":
        typical, coherence = _deviation(plan.n_samples, plan.k2, guess.row_energy, plan.row_design)
        m = typical + coherence * upward_shift(plan.deviation_noise, plan.estimate_failure)
        beta = plan.gamma * (1 + 2 * m)
    low = _embedded(plan, eigenvalues.min(axis=1))
    found = _found(low, plan.eigenvalue_kind, plan.eigenvalue_noise, plan.estimate_failure, m)
    return np.asarray(np.maximum(beta - found, 1e-9 * beta))


def _adassp(plan: AdaSSPPlan, eigenvalues: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Noise on XᵀX times θ, noise on Xᵀy and the ridge ρ, all over λ + ρ."""
    found = np.maximum(eigenvalues.min(axis=1) - plan.eigenvalue_shift, 0.0)
    ridge = np.maximum(plan.ridge - found, 0.0)
    pull = ridge[:, None] ** 2 * theta
    noise = plan.off_diagonal_noise**2 * theta.sum(axis=1, keepdims=True) + plan.moment_noise**2
    # Noise on XᵀX keeps λ + ρ away from 0 where the ridge does not.
    level = np.maximum(eigenvalues + ridge[:, None], plan.off_diagonal_noise)
    return ridge, np.sum(eigenvalues * (pull + noise) / level**2, axis=1) / plan.n_samples


def _mixing(
    plan: MixingPlan, guess: Guess, eigenvalues: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression with 2η² on K rows whose residuals have 2η²(1 + ‖θ‖²) more energy (B = [X y]/√2)."""
    n = plan.n_samples
    low = _embedded(plan, eigenvalues.min(axis=1).clip(max=n * guess.residual) / 2)
    beta, m = plan.beta, plan.m_bound
    if plan.route == "private":
        typical, coherence = _deviation(n, plan.k2, (guess.row_energy + guess.signal + guess.residual) / 2)
        shift = upward_shift(plan.deviation_noise, plan.estimate_failure) if plan.deviation_noise else 0.0
        m = typical + coherence * (plan.omega * plan.tau if plan.omega else shift)
        beta = plan.gamma * (1 + 2 * m)
    if plan.omega:
        found = np.maximum(low - plan.omega * (1 + 2 * m) * plan.tau, 0.0)
    else:
        found = _found(low, plan.eigenvalue_kind, plan.eigenvalue_noise, plan.estimate_failure, m)
    added = 2 * np.maximum(beta - found, 0.0)
    share = eigenvalues / (eigenvalues + added[:, None])
    pull = np.sum(eigenvalues * (1 - share) ** 2 * theta, axis=1)
    energy = n * guess.residual + pull + added * (1 + np.sum(share**2 * theta, axis=1))
    sketched = plan.n_columns * (1 / max(1, plan.k1 - plan.n_columns - 1) + (1 / plan.k2 if plan.k2 else 0.0))
    # Of the sketch's error in the norm of λ + 2η², λ's part is `share`.
    return added / 2, (pull + share.mean(axis=1) * sketched * energy) / n


def least_of_mixing(guess: Guess, n_samples: int, n_columns: int) -> float:
    """A bound from below on `predicted` for linear mixing at any noise, up to 32 rows to a column of [X y].

    In a direction with the part a of the signal, a share s of it costs a (1 − s)² + s b at least, b the sketch's own
    error: least at s = 1 − b/(2a).
    """
    eigenvalues = guess.eigenvalues(n_samples, n_columns)
    a = eigenvalues * guess.coefficients(eigenvalues, n_samples) / n_samples
    b = guess.residual / (MOST_ROWS_TO_A_COLUMN * (n_columns + 1) - n_columns - 1)
    least = np.where(b < 2 * a, b - b**2 / (4 * a), a)
    return predict.geometric_mean(np.sum(least, axis=1))


def _paper(
    plan: PaperPlan | IHMPlan, guess: Guess, eigenvalues: np.ndarray, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The loops of the papers: they end at the ridge solution of η² (or least squares, without the pull).

    A round leaves of the distance, in the norm of w = λ + η², the squared error of (W/k1)⁻¹, and adds its noise.
    """
    n, d = plan.n_samples, plan.n_columns
    m = 0.0
    if plan.k2 and plan.k2 < next_power_of_two(n):
        typical, coherence = _deviation(n, plan.k2, guess.row_energy)
        m = typical + plan.omega * coherence * plan.tau
    low = _embedded(plan, eigenvalues.min(axis=1))
    found = np.maximum(low - plan.omega * (1 + 2 * m) * plan.tau, 0.0)
    added = np.maximum(plan.gamma * (1 + 2 * m) - found, 0.0)
    w = eigenvalues + added[:, None]
    x = eigenvalues / w
    inverse = plan.k1 / max(1.0, plan.k1 - d - 1.0)  # (W/k1)⁻¹ on average
    spread = inverse**2 * d / max(1.0, plan.k1 - d - 1.0) + (d / plan.k2 if plan.k2 else 0.0)
    pulled = not isinstance(plan, IHMPlan) or plan.pull
    goal = x**2 * theta if pulled else theta
    rate = (1 - inverse) if pulled else (1 - inverse * x)
    noise = (plan.noise_multiplier * plan.clip * inverse / w) ** 2
    away = goal.copy()
    for _ in range(plan.n_iter):
        leak = spread / d * np.sum(w * away, axis=1, keepdims=True) / w
        away = rate**2 * away + leak + noise * (1 + spread)
    bias = (1 - x) ** 2 * theta if pulled else 0.0
    return added, np.sum(eigenvalues * (away + bias), axis=1) / n
