"""Predicted risk of a pooled fit from public facts, to choose its free parameters.

The data's spectrum is not known when the plan is made, so the risk is computed for a few spectra and their geometric
mean is what a plan minimises.  Only the choice depends on it, never the privacy.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask.solvers.steps import most_share

ROW_ENERGY = 0.5  # mean squared norm of a scaled row: between 1/3 (uniform features) and 1 (indicators, spheres)
_SIGNAL = 0.05  # mean squared scaled target that the model explains


def spectra(n_samples: int, n_columns: int, row_energy: float = ROW_ENERGY) -> np.ndarray:
    """Eigenvalues of XᵀX under three guesses, (3, d): flat; falling geometrically to 1e-4 of the top; one large
    (the mean) and the others falling from 1e-2 to 1e-4 of it."""
    flat = np.ones(n_columns)
    falling = np.geomspace(1.0, 1e-4, n_columns)
    spiked = np.concatenate([[1.0], np.geomspace(1e-2, 1e-4, n_columns)[: n_columns - 1]])
    return np.array([row / row.sum() * n_samples * row_energy for row in (flat, falling, spiked)])


def excess_risk(
    eigenvalues: np.ndarray,
    n_samples: int,
    *,
    added: np.ndarray,
    degrees: float | np.ndarray,
    noise: float | np.ndarray,
    n_iter: int,
    distortion: float = 0.0,
    theta: np.ndarray | None = None,
) -> np.ndarray:
    """(1/n) Σ_i λ_i P_i after T adaptive steps, for each setting and spectrum, (..., m); scaled units.

    `added` is (..., m), `degrees` and `noise` are (...), a number each for a single setting.

    P_i starts at `theta`, squared coefficients (m, d), or at the signal spread equally over directions; every step does
    P ← (1 − g x)² P + g² (N + leak), x = λ/(λ + η²), N = (σ/(λ + η²))²; see `steps`.
    """
    d = eigenvalues.shape[1]
    w = eigenvalues + np.asarray(added)[..., None]
    x = eigenvalues / w
    step_noise = (np.asarray(noise)[..., None, None] / w) ** 2
    error = (d / 2 + 2) / np.asarray(degrees)[..., None, None] + distortion  # half the directions share a cluster
    start = _SIGNAL * n_samples / eigenvalues.sum(axis=1, keepdims=True) if theta is None else theta
    P = np.broadcast_to(start, x.shape).copy()
    most = most_share(x, error)
    for _ in range(n_iter):
        gain = P / (P + step_noise) / ((1 + error) * most)
        leak = error / d * np.sum(w * x**2 * P, axis=-1, keepdims=True) / w
        P = (1 - gain * x) ** 2 * P + gain**2 * (step_noise + leak)
    return np.asarray(np.sum(eigenvalues * P, axis=-1) / n_samples)


def geometric_mean(risks: np.ndarray) -> float:
    """exp of the mean logarithm."""
    return math.exp(float(np.mean(np.log(risks))))
