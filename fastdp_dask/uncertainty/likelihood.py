r"""The error of a private least-squares solution from W/K and gradients, by their likelihood: post-processing, free.

Write G = XᵀX, θ̂ = G⁻¹Xᵀy.  Released are Ĝ = G + E, with E near N(0, w_i w_j (1 + [i = j]) / K) in the eigenvectors
of W/K, and g̃_t = G (θ̂ − θ_t) + σζ_t, t < T, at iterates θ_t that are themselves released.  So at the true θ

    d_t(θ) = g̃_t − Ĝ (θ − θ_t) = σζ_t − E (θ − θ_t)

is normal with a covariance C(θ) that θ alone decides, jointly over t.  θ̃ is the least of Q(θ) = dᵀ C⁻¹ d.  That is the
maximum of the likelihood over G and θ together: differences of gradients tell G along the path of the iterates, with
no more than the noise of the gradients, and E between the last iterates, which W has steered, is not taken for a fresh
error.  (Ĝ⁻¹ times an average of gradients uses neither, and errs by up to twice as much where W/K hardly tells G.)

The covariance of θ̃ − θ̂ is (JᵀC⁻¹J)⁻¹ with J = −∂d/∂θ at the estimate of G that belongs to θ̃.  θ̃ is not shrunk towards
zero, as the last iterate is, so an interval about it covers whatever the truth is: coefficients of up to 30 in scaled
units, where rows and targets are at most 1; a vague prior ends intervals there.

Where W/K does not tell G in several directions, Q is flat in each coefficient: the others make up for any value of it.
No interval of bounded length holds there whatever the truth is (Gleser & Hwang, 1987), and these, wide as they are,
cover nearly always.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from fastdp_dask.solvers.steps import stein_eigenvalues
from fastdp_dask.uncertainty.scores import Error

_ROWS = 8  # gradients beyond these are averaged with their neighbours: the work grows as the sixth power
_REACH = 30.0  # deviation of a vague prior of θ, in scaled units: where Q is flat it ends the search
_LEAST = 0.01  # an eigenvalue of G below this share of σ reads as it


@dataclass(frozen=True)
class Released:
    """What the likelihood is of, in the eigenvectors of W/K.

    Attributes
    ----------
    values : ndarray of shape (p,)
        w: Stein's estimates, which pool the sample eigenvalues that K cannot tell apart.
    gram : ndarray of shape (p,)
        Ĝ = (w − η²)₊.
    inverse : float
        1/K, and what an SRHT adds to it.
    count : ndarray of shape (T,)
        c_t: the root of the number of gradients in a row.
    path, gradients : ndarray of shape (T, p)
        c_t θ_t and c_t g̃_t.
    noise : float
        σ.
    """

    values: np.ndarray
    gram: np.ndarray
    inverse: float
    count: np.ndarray
    path: np.ndarray
    gradients: np.ndarray
    noise: float


@dataclass(frozen=True)
class _Solved:
    """C(θ)⁻¹ d(θ), and C in a form that solves quickly.

    C = D + K⁻¹ F Π Fᵀ: in the eigenvectors Y of v W vᵀ (v_t = c_t θ − path_t, W = diag w) D is diagonal, and F Π Fᵀ,
    x ↦ (v W xᵀ) v W, has rank T² (Π swaps two indices), as E is symmetric.
    """

    square: float
    x: np.ndarray
    v: np.ndarray
    count: np.ndarray
    diagonal: np.ndarray
    middle: np.ndarray


def _solve(of: Released, theta: np.ndarray) -> _Solved:
    w, T = of.values, len(of.count)
    v = np.outer(of.count, theta) - of.path
    d = of.gradients - v * of.gram
    spread, Y = np.linalg.eigh((v * w) @ v.T)
    v, d = Y.T @ v, Y.T @ d
    D = of.inverse * np.maximum(spread, 0.0)[:, None] * w + of.noise**2
    scaled = v * w
    here = np.arange(T)
    middle = np.zeros((T, T, T, T))
    middle[:, here, :, here] = np.stack([(scaled / row) @ scaled.T for row in D])
    middle[here[:, None], here, here, here[:, None]] += 1.0 / of.inverse
    coupled = middle.reshape(T * T, T * T)
    inner = np.linalg.solve(coupled, (scaled @ (d / D).T).ravel()).reshape(T, T)
    x = (d - inner.T @ scaled) / D
    return _Solved(float(np.sum(d * x)), x, v, Y.T @ of.count, D, coupled)


def half_square(of: Released, theta: np.ndarray) -> tuple[float, np.ndarray]:
    """Q(θ)/2 and its gradient −Σ_t c_t G x_t, x = C⁻¹d and G = Ĝ − E at the E that d makes most likely."""
    found, w = _solve(of, theta), of.values
    total = found.count @ found.x
    moved = w * total
    shift = w * (found.x.T @ (found.v @ moved) + found.v.T @ (found.x @ moved))
    return found.square / 2, -(of.gram * total + of.inverse * shift)


def gram_and_information(of: Released, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most likely G at θ, and JᵀC⁻¹J, both (p, p)."""
    found, w = _solve(of, theta), of.values
    cross, T = found.x.T @ found.v, len(of.count)
    G = np.diag(of.gram) + of.inverse * np.outer(w, w) * (cross + cross.T)
    weighted = found.count[:, None] / found.diagonal
    F = ((found.v * w)[:, None, :] * weighted[None, :, :]).reshape(T * T, -1) @ G
    told = (G * (found.count @ weighted)) @ G - F.T @ np.linalg.solve(found.middle, F)
    return G, (told + told.T) / 2


def sketch_released(
    hessian: np.ndarray, degrees: int, added: float, distortion: float, iterates: np.ndarray, gradients: np.ndarray,
    noise: float,
) -> tuple[Released, np.ndarray]:  # fmt: skip
    """`Released`, and the eigenvectors (p, p), in columns, that it is in; parameters as of `sketch_error`."""
    values, basis = np.linalg.eigh((hessian + hessian.T) / 2)
    values, _ = stein_eigenvalues(np.maximum(values, max(float(values[-1]) * 1e-12, np.finfo(float).tiny)), degrees)
    rows = np.array_split(np.arange(len(gradients)), min(_ROWS, len(gradients)))
    count = np.array([np.sqrt(len(row)) for row in rows])
    path, summed = (
        np.array([m * each[row].mean(axis=0) for m, row in zip(count, rows, strict=True)]) @ basis
        for each in (iterates, gradients)
    )
    gram = np.maximum(values - added, 0.0)
    return Released(values, gram, 1.0 / degrees + distortion, count, path, summed, noise), basis


@np.errstate(all="ignore")  # no warning may depend on what the data released
def sketch_error(
    hessian: np.ndarray, degrees: int, added: float, distortion: float, iterates: np.ndarray, gradients: np.ndarray,
    noise: float,
) -> Error:  # fmt: skip
    """θ̃ and its error, see the top of this module.

    Parameters
    ----------
    hessian : ndarray of shape (p, p)
        W/K, W ~ Wishart_p(K, G + η²I); released.
    degrees : int
        K, public.
    added : float
        η², released.
    distortion : float
        What an SRHT of k2 rows adds to 1/K: 1/k2; 0 without.  Public.
    iterates : ndarray of shape (T + 1, p)
        θ_0, …, θ_T, released.
    gradients : ndarray of shape (T, p)
        g̃_0, …, g̃_{T−1}, released: g̃_t was taken at θ_t.
    noise : float
        σ, public.
    """
    prior, last = _REACH**-2, iterates[-1]
    try:
        of, basis = sketch_released(hessian, degrees, added, distortion, iterates, gradients, noise)
        theta = _least(of, basis.T @ last, prior)
        G, information = gram_and_information(of, theta)
        told, directions = np.linalg.eigh(information)
        values, axes = np.linalg.eigh(G)
    except (np.linalg.LinAlgError, ValueError):  # releases beyond all reason: nothing is told
        wide = np.eye(len(last)) / prior
        return Error(last, wide, wide)
    directions, axes = basis @ directions, basis @ axes
    privacy = (directions / (np.maximum(told, 0.0) + prior)) @ directions.T
    sampling = (axes / np.maximum(values, _LEAST * noise)) @ axes.T
    return Error(basis @ theta, privacy, sampling)


def _least(of: Released, start: np.ndarray, prior: float) -> np.ndarray:
    """The least of Q/2 + ‖θ‖²·prior/2, each coordinate searched in units of its own error."""
    _, information = gram_and_information(of, start)
    unit = 1.0 / np.sqrt(np.maximum(np.diag(information), 0.0) + prior)

    def both(z: np.ndarray) -> tuple[float, np.ndarray]:
        half, slope = half_square(of, z * unit)
        return half + prior / 2 * float(np.sum((z * unit) ** 2)), (slope + prior * z * unit) * unit

    found = minimize(both, start / unit, jac=True, method="L-BFGS-B", options={"maxiter": 500, "maxcor": 20})
    return np.asarray(found.x * unit)
