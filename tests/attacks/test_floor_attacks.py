"""Attacks on the floors β of λ_min(ZᵀZ) + η², by optimisers over the data.

The tight curve itself is attacked in `tests/privacy/test_rank_two_attack.py`, the floors over random and aligned data
in `tests/privacy/test_floors.py`.  Here an optimiser chooses the data, and the law of the signs is enumerated.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from naive import dense_srht
from scipy.linalg import hadamard
from scipy.optimize import minimize

from fastdp_dask import SRHT
from fastdp_dask.privacy import fast_mixing_rdp_paper, leverage_bound, mixing_rdp

N = 8
SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=N - 1)))


def nuclear(covariance: np.ndarray, x: np.ndarray, delta: np.ndarray) -> float:
    values, vectors = np.linalg.eigh(covariance)
    x, delta = (vectors.T @ x) / np.sqrt(values), (vectors.T @ delta) / np.sqrt(values)
    # Eigenvalues of x xᵀ + δ xᵀ + x δᵀ: sum p + 2r, product r² − pq.
    p, q, r = x @ x, delta @ delta, x @ delta
    return float(math.sqrt(max(p**2 + 4 * p * r + 4 * p * q, 0.0)))


def covariance_of(Z: np.ndarray, beta: float) -> np.ndarray:
    gram = Z.T @ Z
    return gram + max(0.0, beta - float(np.linalg.eigvalsh(gram)[0])) * np.eye(gram.shape[0])


@pytest.mark.parametrize(
    ("k2", "d", "beta", "near"),
    [(1, 1, 40.0, 0.99), (1, 1, 2.0, 0.99), (3, 2, 3.0, 0.7), (4, 1, 1.5, 0.8), (8, 2, 3.0, 0.2)],
)
def test_no_data_beats_the_free_floor(k2: int, d: int, beta: float, near: float) -> None:
    """N ≤ 1/β + 2/√β for one known sketch and the worst data that Nelder-Mead finds, at both data sets of the pair."""
    S = dense_srht(SRHT(N, k2, seed=3))
    bound = 1 / beta + 2 / math.sqrt(beta)

    def ratio(flat: np.ndarray) -> float:
        X = flat.reshape(N, d)
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        u = S[:, 0]
        delta = u @ (S @ X) - X[0]
        Z, blank = S @ X, S @ X - np.outer(u, X[0])
        return max(nuclear(covariance_of(M, beta), X[0], delta) for M in (Z, blank)) / bound

    generator = np.random.default_rng(k2)
    # Collinear data aligned with column 0 of SᵀS, so that δ² is about β, and Z nearly of rank one.
    column = (S.T @ S)[0]
    aligned = np.outer(column * math.sqrt(beta) / max(float((column[1:] ** 2).sum()), 1.0), [1.0, 0.05][:d])
    aligned[0] = [1.0, 0.05][:d]
    starts = [aligned.ravel(), *generator.standard_normal((4, d * N))]
    options = {"maxfev": 1500, "adaptive": True}
    found = max(-minimize(lambda f: -ratio(f), s, method="Nelder-Mead", options=options).fun for s in starts)
    assert found <= 1 + 1e-9
    # One sampled row: attained, at the blanked data set.  With k2 = N there is no deviation, and N ≤ 1/β is far below.
    assert found > near


@pytest.mark.parametrize("rows", [[0, 3, 5], [1, 2, 4, 7], [0, 1, 2, 3, 4, 5]])
def test_no_basis_beats_the_leverage_concentration(rows: list[int]) -> None:
    """P(‖Σ_j b_j h_ij U_j‖ ≥ Δ(√d + r)) ≤ exp(−r²/8) over all orthonormal U (optimised), signs enumerated."""
    picked = hadamard(N)[rows]
    h = (picked.T @ picked / len(rows))[0, 1:]
    coherence = float(np.abs(h).max())
    d = 2

    def worst(flat: np.ndarray) -> float:
        basis = np.linalg.qr(flat.reshape(N, d))[0][1:]
        lengths = np.sort(np.linalg.norm(SIGNS @ (h[:, None] * basis), axis=1))
        excess = lengths / coherence - math.sqrt(d)
        tail = 1 - np.arange(len(lengths)) / len(lengths)
        return float(np.max(np.where(excess > 0, tail * np.exp(np.maximum(excess, 0) ** 2 / 8), 0.0)))

    def longest(flat: np.ndarray) -> float:
        basis = np.linalg.qr(flat.reshape(N, d))[0][1:]
        return float(np.sqrt(((h[:, None] * basis) ** 2).sum())) / (coherence * math.sqrt(d))

    generator = np.random.default_rng(len(rows))
    starts = generator.standard_normal((5, N * d))
    found = [minimize(lambda f: -worst(f), s, method="Nelder-Mead", options={"maxfev": 600}).fun for s in starts]
    assert -min(found) <= 1.0
    mean = [minimize(lambda f: -longest(f), s, method="Nelder-Mead", options={"maxfev": 600}).fun for s in starts]
    # The mean is at most Δ√d: attained when d entries of h are as large as Δ (Ky Fan).
    largest = np.sqrt(np.sort(h**2)[-d:].sum()) / (coherence * math.sqrt(d))
    assert -min(mean) == pytest.approx(largest, rel=0.01)
    assert largest <= 1 + 1e-12


def test_embedding_fails_no_more_often_than_stated() -> None:
    """The worst bases for sampling (a few coordinates), d = 1 … 3: distortion beyond χ at most as often as claimed.

    400 sketches; the claims are below 0.5, and 400 coins of 0.5 exceed 0.63 with probability below 1e-6.
    """
    n, k2, draws = 256, 192, 400
    checked = 0
    for d in (1, 2, 3):
        U = np.eye(n)[:, :d]
        chi = next(
            (c for c in np.linspace(0.3, 0.98, 69) if leverage_bound(n, d, k2, 0.5, 0.01, 0.2, float(c))[1] < 0.5), None
        )
        if chi is None:
            continue
        checked += 1
        beyond = 0
        for seed in range(draws):
            embedded = SRHT(n, k2, seed=seed).apply(U)
            beyond += float(np.linalg.eigvalsh(embedded.T @ embedded)[0]) < 1 - chi
        assert beyond < 0.63 * draws
    assert checked > 0
    # Sampling fewer rows than columns can hold loses a direction: no distortion below 1 exists, and none is claimed.
    assert leverage_bound(n, 3, 3, 0.5, 0.01, 0.2, 0.98)[1] > 1


def test_papers_curve_is_never_below_the_tight_one() -> None:
    """So that every floor proved for the tight curve serves the paper's as well."""
    for gamma in (3.2, 5.0, 40.0, 1e4, 1e9):
        alpha = 1 + (0.8 * gamma - 1) * np.linspace(1e-6, 1 - 1e-9, 400)
        assert (fast_mixing_rdp_paper(alpha, gamma) >= mixing_rdp(alpha, gamma)).all()
