"""What an attacker computes from one run: exact log-likelihood ratios where the law is known.

All take many runs at once; a large score speaks for the first data set.  A score may be any function of what was
released: a poor one only weakens the bound.
"""

from __future__ import annotations

import numpy as np

_LEAST = 1e-12  # a singular covariance has no density: this stands for its missing directions


def wishart_ratio(
    W: np.ndarray, degrees: int, first: np.ndarray, second: np.ndarray, added: np.ndarray | float = 0.0
) -> np.ndarray:
    """log p(W; first) − log p(W; second) for W ~ Wishart_d(degrees, · + added·I), (runs,).

    ½ K (log|Σ₂| − log|Σ₁|) + ½ tr(W (Σ₂⁻¹ − Σ₁⁻¹)); the same for K rows N(0, Σ), of which W = X̃ᵀX̃ is sufficient.

    Parameters
    ----------
    W : ndarray of shape (runs, d, d)
    degrees : int
    first, second : ndarray of shape (d, d)
    added : float or ndarray of shape (runs,)
    """
    total = np.zeros(len(W))
    variance = np.maximum(np.asarray(added, dtype=float), _LEAST)
    for gram, sign in ((first, -0.5), (second, 0.5)):
        values, basis = np.linalg.eigh(gram)
        spectrum = np.maximum(values, 0.0) + variance[..., None]
        along = np.einsum("ji,rjk,ki->ri", basis, W, basis)
        total += sign * (degrees * np.log(spectrum) + along / spectrum).sum(axis=-1)
    return total


def gaussian_ratio(values: np.ndarray, first: np.ndarray, second: np.ndarray, scale: float) -> np.ndarray:
    """log p(v; first) − log p(v; second) for v ~ N(·, scale² I), (runs,): a projection on the difference.

    `values` (runs, d); means (d,) or (runs, d).
    """
    middle = (first + second) / 2
    return np.sum((values - middle) * (first - second), axis=-1) / scale**2


def change(values: np.ndarray) -> np.ndarray:
    """Σ |next − this| of the same release in successive rounds, (runs, T, …) → (runs, T − 1).

    Zero, or free of noise, when two rounds used the same noise.
    """
    return np.abs(np.diff(values, axis=1)).sum(axis=tuple(range(2, values.ndim)))


def change_ratio(values: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How much better `first` than `second` foretells the changes between rounds, (runs, T, d) each → (runs, T − 1).

    log of the ratio of the distances: without bound when noise common to two rounds drops out of their difference.
    """
    off_first, off_second = (change(values - mean) for mean in (first, second))
    return np.log(off_second + _LEAST) - np.log(off_first + _LEAST)
