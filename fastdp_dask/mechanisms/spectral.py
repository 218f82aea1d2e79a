"""Private one-sided estimates with Gaussian noise, for the joint Rényi account.

Each returns a value on the safe side except with the stated probability, and costs α / (2 w²) at order α, where w is
the noise over the sensitivity.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from fastdp_dask.mechanisms import additive
from fastdp_dask.rng import NoiseStream
from fastdp_dask.rows.grid import GRID, deviation_unit


def upward_shift(noise_multiplier: float, failure: float) -> float:
    """w · Φ⁻¹(1 − failure): what a Gaussian of deviation w exceeds with probability `failure`."""
    return noise_multiplier * -float(ndtri(failure))


def smallest_singular_value(value: float, noise_multiplier: float, failure: float, noise: NoiseStream) -> float:
    """λ̃ = max(0, s_min(Z) − shift + w z)² ≤ λ_min(ZᵀZ) except with probability `failure`, z ~ N(0, 1).

    Blanking one record changes Z by u xᵀ with ‖u‖ = 1 and ‖x‖ ≤ 1, and |s_min(Z) − s_min(Z')| ≤ ‖Z − Z'‖ ≤ 1 (Weyl):
    the sensitivity is 1 whatever the deviation of the sketch is.
    """
    tail = upward_shift(1.0, failure)
    found = additive.gaussian_bound(value, 1.0, noise_multiplier, tail, noise, above=False)
    return max(0.0, found) ** 2


def smallest_eigenvalue(
    value: float, m_bound: float, noise_multiplier: float, failure: float, noise: NoiseStream
) -> float:
    """λ̃ = max(0, λ − (1 + 2 m̄)(shift − w z)) ≤ λ except with probability `failure`, z ~ N(0, 1).

    λ = λ_min(ZᵀZ) has sensitivity 1 + 2m ≤ 1 + 2 m̄ (FM, Lemma 4): better than s_min(Z) once sqrt(λ) > m̄ + 1/2, as
    without an SRHT (m = 0).
    """
    sensitivity, tail = 1.0 + 2.0 * m_bound, upward_shift(1.0, failure)
    return max(0.0, additive.gaussian_bound(value, sensitivity, noise_multiplier, tail, noise, above=False))


def deviation(value: float, coherence: float, noise_multiplier: float, failure: float, noise: NoiseStream) -> float:
    """m̃ = max(0, m + Δ (shift − w z)) ≥ m except with probability `failure`; m has sensitivity Δ, public."""
    tail = upward_shift(1.0, failure)
    return max(0.0, additive.gaussian_bound(value, coherence, noise_multiplier, tail, noise, above=True))


def deviation_sensitivity(coherence: float, n_rows: int, sketch_size: int, columns: int) -> float:
    """Sensitivity of the deviation m as the machine computes it: Δ, and what its arithmetic may add.

    In exact arithmetic m has sensitivity Δ.  The float64 norm of exact integers is covered by 2^-20.  Where int64 would
    overflow (n · k2 > 2^46) the sums are coarsened to a unit of grid steps, which moves m by at most sqrt(d) · unit/2^q
    on each of the two data sets.
    """
    unit = deviation_unit(n_rows, sketch_size)
    coarsened = 2.0 * math.sqrt(columns) * unit / GRID if unit > 1 else 0.0
    return coherence + 2.0**-20 + coarsened


def singular_value_of(gram: np.ndarray) -> float:
    """s_min(Z) from ZᵀZ."""
    return float(np.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[0]))))
