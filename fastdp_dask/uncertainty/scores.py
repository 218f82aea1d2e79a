r"""The error of a private least-squares solution, from a noisy Gram matrix and moment: post-processing, so it is free.

Write G = XᵀX, θ̂ = G⁻¹Xᵀy.  Released are g̃ = Gθ̂ + σζ and Ĝ = G + E.  The solution of Ĝ θ̃ = g̃ obeys, exactly,

    Ĝ (θ̃ − θ̂) = σζ − E θ̂.

The first term is noise of known size; the second is what the noise of the Gram matrix leaves.  θ̃ is not shrunk towards
zero, as the released coefficients are, so that an interval about it covers whatever the truth is.  In the eigenvectors
of Ĝ, entry (i, j) of E has variance r_ij s², r = 1 + [i = j]; so

    Var (Ĝ(θ̃ − θ̂))_i = σ² + s² Σ_j r_ij E θ̂_j².

E θ̂_j² comes from θ̂_j as θ̃ shows it, shrunk towards the released coefficients by what g̃ tells of the size of θ̂.

Where G says less than the noise, Ĝ is near singular and the error of θ̃ has no bound: its intervals are wide, as they
must be for whatever knows no more than the releases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ROUNDS = 8  # of the fixed point between E θ̂² and the variance; it settles in about four


@dataclass(frozen=True)
class Error:
    """θ̃ and the covariance of θ̃ − θ̂ that the privacy noise causes; and (Ĝ)⁻¹, to carry the sampling error.

    Attributes
    ----------
    estimate : ndarray of shape (p,)
    privacy : ndarray of shape (p, p)
    sampling : ndarray of shape (p, p)
        To be multiplied by the variance of a residual: G⁻¹, but for the error of Ĝ.
    """

    estimate: np.ndarray
    privacy: np.ndarray
    sampling: np.ndarray


@np.errstate(all="ignore")  # no warning may depend on what the data released
def moment_error(
    gram: np.ndarray, moment: np.ndarray, last: np.ndarray, off_diagonal: float, ridge: float, noise: float
) -> Error:
    """θ̃ and its error, see the top of this module.

    Parameters
    ----------
    gram : ndarray of shape (p, p)
        Ĝ, released: N(0, s²) off the diagonal and N(0, 2s²) on it.
    moment : ndarray of shape (p,)
        g̃, released.
    last : ndarray of shape (p,)
        The released coefficients.
    off_diagonal : float
        s, public.
    ridge : float
        What the solver adds to the eigenvalues of Ĝ.
    noise : float
        σ, public.
    """
    values, U = np.linalg.eigh((gram + gram.T) / 2)
    scale = np.maximum(values + ridge, max(float(np.abs(values).max()) * 1e-12, np.finfo(float).tiny))
    # A direction without information keeps an eigenvalue, so small that its interval says everything.
    values = np.where(np.abs(values) < 1e-9 * scale, 1e-9 * scale, values)
    p = len(values)
    ratio = np.ones((p, p)) + np.eye(p)
    moment, at = U.T @ moment, U.T @ last
    score = moment - values * at  # estimates G (θ̂ − last)
    least = np.maximum(values - off_diagonal * np.sqrt(p + 1.0), 0.0)
    known = least > 0.0
    size = np.full(p, _size(moment, scale, np.clip(values / scale, 0.0, 1.0), noise))
    mean, variance = np.zeros(p), size.copy()
    for _ in range(_ROUNDS):
        truth = at + mean
        total = off_diagonal**2 * (ratio @ (truth**2 + variance)) + noise**2
        N = np.where(known, total / np.maximum(least, np.finfo(float).tiny) ** 2, np.inf)
        if known.any():
            # A score holds λ(θ̂ − last) and its own error: where it is small beside that, θ̂ was thought too large.
            seen = float(np.mean(score[known] ** 2 / total[known]))
            size[known] *= min(1.0, _upper(int(known.sum())) * seen)
        gain = size / (size + N)
        mean = np.where(known, gain * score / np.maximum(values, least), 0.0)
        variance = size * (1.0 - gain)
    between = off_diagonal**2 * np.outer(truth, truth) * ratio
    np.fill_diagonal(between, total)
    inverse = U / values
    return Error(last + inverse @ score, inverse @ between @ inverse.T, (inverse * np.maximum(values, 0.0)) @ inverse.T)


def _size(first: np.ndarray, scale: np.ndarray, share: np.ndarray, noise: float) -> float:
    """E θ̂_i² if equal in all directions, from the moment: an upper estimate, as few directions may tell it."""
    weight = scale * (share**2 + 1e-9)
    found = np.sum((first**2 - noise**2) / scale) / np.sum(weight)
    effective = np.sum(weight) ** 2 / np.sum(weight**2)
    least = 1e-3 * noise**2 * np.sum(1.0 / scale) / np.sum(scale)
    return float(np.fmax(found, least)) * _upper(float(effective))


def _upper(count: float) -> float:
    """A mean of `count` squares may be this much below its expectation, in two standard deviations."""
    return 1.0 + 2.0 * float(np.sqrt(np.divide(2.0, count)))
