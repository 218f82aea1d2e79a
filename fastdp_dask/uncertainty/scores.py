r"""The error of a private least-squares solution, from what was released: post-processing, so it costs no privacy.

Write G = XᵀX, θ̂ = G⁻¹Xᵀy.  Each released gradient is g̃_t = G (θ̂ − θ_t) + σζ_t, at an iterate θ_t that is itself
released, and Ĝ = G + E is a released estimate of G.  For weights ω_t that sum to 1 the solution of
Ĝ θ̃ = Σ_t ω_t (g̃_t + Ĝ θ_t) obeys, exactly,

    Ĝ (θ̃ − θ̂) = σ Σ_t ω_t ζ_t − E v,        v = θ̂ − Σ_t ω_t θ_t.

The first term is noise of known size; the second is what an unfinished iteration (v) and the noise of the sketch (E)
leave.  θ̃ is not shrunk towards zero, as the last iterate is, so that an interval about it covers whatever the truth is.
In the eigenvectors of Ĝ, entry (i, j) of E has variance r_ij a_i a_j, with a known from the law of the release; so

    Var (Ĝ(θ̃ − θ̂))_i = σ² Σ ω_t² + a_i Σ_j r_ij a_j E v_j² + (systematic part)².

E v_j² comes from v_j as θ̃ shows it, shrunk by what the first gradient tells of the size of θ̂.  Each direction takes
the last m iterates, with equal weights, for the m of least variance.

Where G says less than the noise, Ĝ is near singular and the error of θ̃ has no bound: its intervals are wide, as they
must be for whatever knows no more than the releases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask.solvers.steps import stein_eigenvalues

_ROUNDS = 8  # of the fixed point between E v² and the variance; it settles in about four
_WITHIN = 0.25  # of the variance of E that is left between directions whose eigenvalues Stein's estimate pools
_FEW = 4


@dataclass(frozen=True)
class Spectrum:
    """Ĝ in its eigenvectors, and the size of its error.

    Attributes
    ----------
    basis : ndarray of shape (p, p)
        Eigenvectors, in columns.
    gram : ndarray of shape (p,)
        Eigenvalues of Ĝ; noise may make them negative.
    scale : ndarray of shape (p,)
        Eigenvalues of Ĝ plus the variance that the release adds to them: what divides a gradient in a step.
    spread : ndarray of shape (p,)
        a, see above.
    ratio : ndarray of shape (p, p)
        r, see above.
    drift : ndarray of shape (p,)
        The systematic part of (E v_t)_i over v_{t−1,i}: an iterate that was made with E remembers it.
    """

    basis: np.ndarray
    gram: np.ndarray
    scale: np.ndarray
    spread: np.ndarray
    ratio: np.ndarray
    drift: np.ndarray


def wishart_spectrum(hessian: np.ndarray, degrees: int, added: float, distortion: float) -> Spectrum:
    """Of Ĝ = W/K − η²I, W ~ Wishart_p(K, G + η²I).

    Var E_ij = w_i w_j (1 + [i = j]) / K for eigenvalues w of W/K.  Sample eigenvalues are spread beyond the true ones:
    Stein's estimate pools those that K cannot tell apart, and most of E between pooled directions goes.  A lone
    eigenvalue is left as it is.

    Parameters
    ----------
    hessian : ndarray of shape (p, p)
        W/K.
    degrees : int
        K.
    added : float
        η².
    distortion : float
        What an SRHT of k2 rows adds to 1/K: 1/k2; 0 without.
    """
    values, basis = np.linalg.eigh((hessian + hessian.T) / 2)
    values = np.maximum(values, max(float(values[-1]) * 1e-12, np.finfo(float).tiny))
    pooled, sizes = stein_eigenvalues(values, degrees)
    scale = np.where(sizes == 1, values, pooled)
    inverse = 1.0 / degrees + distortion
    together = np.equal.outer(pooled, pooled)
    ratio = np.where(together, _WITHIN, 1.0)
    np.fill_diagonal(ratio, 2.0)
    drift = inverse * ratio.sum(axis=1) * scale
    return Spectrum(basis, scale - added, scale, np.sqrt(inverse) * scale, ratio, drift)


def additive_spectrum(gram: np.ndarray, off_diagonal: float, ridge: float) -> Spectrum:
    """Of Ĝ = G + E, E symmetric with N(0, s²) off the diagonal and N(0, 2s²) on it: Var E_ij = s² (1 + [i = j])."""
    values, basis = np.linalg.eigh((gram + gram.T) / 2)
    p = len(values)
    scale = np.maximum(values + ridge, max(float(np.abs(values).max()) * 1e-12, np.finfo(float).tiny))
    return Spectrum(basis, values, scale, np.full(p, off_diagonal), np.ones((p, p)) + np.eye(p), np.zeros(p))


@dataclass(frozen=True)
class Error:
    """θ̃ and the covariance of θ̃ − θ̂ that the privacy noise causes; and (Ĝ)⁻¹, to carry the sampling error.

    Attributes
    ----------
    estimate : ndarray of shape (p,)
    privacy : ndarray of shape (p, p)
    sampling : ndarray of shape (p, p)
        To be multiplied by the variance of a residual: Ĝ⁻¹ Ĝ₊ Ĝ⁻¹, which is G⁻¹ but for the error of Ĝ.
    """

    estimate: np.ndarray
    privacy: np.ndarray
    sampling: np.ndarray


@np.errstate(all="ignore")  # no warning may depend on what the data released
def solution_error(spectrum: Spectrum, iterates: np.ndarray, gradients: np.ndarray, noise: float) -> Error:
    """θ̃ and its error, see the top of this module.

    Parameters
    ----------
    spectrum : Spectrum
    iterates : ndarray of shape (T + 1, p)
        θ_0, …, θ_T, released.
    gradients : ndarray of shape (T, p)
        g̃_0, …, g̃_{T−1}, released: g̃_t was taken at θ_t.
    noise : float
        σ, public.
    """
    U, gram, a = spectrum.basis, spectrum.gram, spectrum.spread
    # A direction without information keeps an eigenvalue, so small that its interval says everything.
    gram = np.where(np.abs(gram) < 1e-9 * spectrum.scale, 1e-9 * spectrum.scale, gram)
    T, last = len(gradients), iterates[-1]
    away = U.T @ (last - iterates[:-1]).T  # θ_T − θ_t
    before = np.concatenate([away[:, :1], away[:, :-1]], axis=1)
    at_last = U.T @ gradients.T - gram[:, None] * away  # estimates G (θ̂ − θ_T)
    windows = np.array([[0.0] * (T - m) + [1.0 / m] * m for m in range(1, T + 1)]).T
    own = noise**2 / np.arange(1, T + 1)
    share = np.clip(gram / spectrum.scale, 0.0, 1.0)
    relative = np.sqrt((a[:, None] * spectrum.ratio * a).sum(axis=1)) / spectrum.scale
    least = np.maximum(gram - relative * (spectrum.scale - np.maximum(gram, 0.0)), 0.0)
    if not spectrum.drift.any():
        least = np.maximum(gram - relative * spectrum.scale, 0.0)
    prior = _size(U.T @ gradients[0], spectrum.scale, share, noise)
    size = np.full(len(gram), prior)
    mean, variance = np.zeros(len(gram)), size.copy()
    here = np.arange(len(gram))
    for _ in range(_ROUNDS):
        v = (away + mean[:, None]) @ windows
        earlier = (before + mean[:, None]) @ windows
        energy = spectrum.ratio @ (a[:, None] * (v**2 + variance[:, None]))
        drift = spectrum.drift[:, None] ** 2 * (earlier**2 + variance[:, None])
        total = a[:, None] * energy + drift + own
        best = total.argmin(axis=1)
        chosen = total[here, best]
        score = np.einsum("it,ti->i", at_last, windows[:, best])
        known = least > 0.0
        N = np.where(known, chosen / np.maximum(least, np.finfo(float).tiny) ** 2, np.inf)
        if known.any():
            # A score holds λv and its own error: where scores are small beside that, v was thought too large.
            seen = float(np.mean(score[known] ** 2 / chosen[known]))
            size[known] *= min(1.0, _upper(int(known.sum())) * seen)
        size = _pooled_size(spectrum, score, chosen, least, size)
        gain = size / (size + N)
        mean = np.where(known, gain * score / np.maximum(gram, least), 0.0)
        variance = size * (1.0 - gain)
    cross = a * v[here, best]
    between = np.outer(cross, cross) * spectrum.ratio
    np.fill_diagonal(between, chosen)
    inverse = U / gram
    positive = np.maximum(gram, 0.0)
    return Error(last + U @ (score / gram), inverse @ between @ inverse.T, (inverse * positive) @ inverse.T)


def _size(first: np.ndarray, scale: np.ndarray, share: np.ndarray, noise: float) -> float:
    """E θ̂_i² if equal in all directions, from the first gradient: an upper estimate, as few directions may tell it."""
    weight = scale * (share**2 + 1e-9)
    found = np.sum((first**2 - noise**2) / scale) / np.sum(weight)
    effective = np.sum(weight) ** 2 / np.sum(weight**2)
    least = 1e-3 * noise**2 * np.sum(1.0 / scale) / np.sum(scale)
    return float(np.fmax(found, least)) * _upper(float(effective))


def _pooled_size(
    spectrum: Spectrum, score: np.ndarray, total: np.ndarray, least: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """E v_i² of directions that share an eigenvalue, from their scores: where several tell, less than it was."""
    size = size.copy()
    for value in np.unique(spectrum.scale):
        group = spectrum.scale == value
        floor = float(least[group][0])
        if group.sum() < _FEW or floor <= 0.0:
            continue
        seen = float(np.mean(score[group] ** 2 - total[group])) / float(spectrum.gram[group][0]) ** 2
        doubt = (_upper(int(group.sum())) - 1.0) * float(np.mean(total[group])) / floor**2
        size[group] = np.minimum(size[group], max(seen, 0.0) + doubt)
    return size


def _upper(count: float) -> float:
    """A mean of `count` squares may be this much below its expectation, in two standard deviations."""
    return 1.0 + 2.0 * float(np.sqrt(np.divide(2.0, count)))
