"""The private steps of FastMix on the driver, one function for each line of the algorithm (FM, Algorithm 1).

Inputs marked private never leave the driver; each returned value is a release.
"""

from __future__ import annotations

import numpy as np

from fastdp_dask.mechanisms import additive
from fastdp_dask.rng import NoiseStream


def private_deviation(deviation: float, coherence: float, omega: float, tau: float, noise: NoiseStream) -> float:
    """m̃ = max(0, m + ω Δ (τ − z₁)): with z₁ ~ Laplace(1) at least m, except with probability e^−τ/2.

    m = max_i ‖δ_i‖ (private) has sensitivity Δ (public), so this costs 1/ω of pure epsilon.  Δ = 0 stands for m = 0 by
    case (k2 = N), and 0 is returned.
    """
    if coherence == 0.0:
        return 0.0
    return max(0.0, additive.laplace_bound(deviation, coherence, omega, tau, noise, above=True))


def private_eigenvalue(eigenvalue: float, m_tilde: float, omega: float, tau: float, noise: NoiseStream) -> float:
    """λ̃ = max(0, λ − ω (1 + 2 m̃)(τ − z₂)): at most λ, except with probability e^−τ/2.

    λ = λ_min(ZᵀZ) (private) has sensitivity 1 + 2m ≤ 1 + 2m̃, so this costs 1/ω of pure epsilon.
    """
    return max(0.0, additive.laplace_bound(eigenvalue, 1.0 + 2.0 * m_tilde, omega, tau, noise, above=False))


def added_variance(gamma: float, m_tilde: float, lambda_tilde: float) -> float:
    """η² = max(0, γ (1 + 2 m̃) − λ̃), so that λ + η² ≥ γ (1 + 2m) when both estimates are on their safe side."""
    return max(0.0, gamma * (1.0 + 2.0 * m_tilde) - lambda_tilde)


def mixing(Z: np.ndarray, added: float, k1: int, noise: np.random.Generator) -> np.ndarray:
    """X̃ = S_G Z + η Ξ, (k1, d): rows i.i.d. N(0, ZᵀZ + η² I) given Z (k2, d), private.

    S_G (k1, k2) and Ξ (k1, d) are standard normal.  S_G is drawn a slab of columns at a time.
    """
    k2, d = Z.shape
    release = np.sqrt(added) * noise.standard_normal((k1, d))
    slab = max(1, (1 << 22) // k1)
    for start in range(0, k2, slab):
        part = Z[start : start + slab]
        release += noise.standard_normal((k1, part.shape[0])) @ part
    return release
