"""Gaussian noise on a symmetric matrix and on a vector, drawn once on the driver."""

from __future__ import annotations

import numpy as np


def symmetric_gaussian(matrix: np.ndarray, scale: float, off_diagonal: float, noise: np.random.Generator) -> np.ndarray:
    """matrix + E, E symmetric with N(0, scale²) on the diagonal and N(0, off_diagonal²) above it.

    Blanking one row x of norm ≤ 1 moves XᵀX by xxᵀ.  With off_diagonal = scale the released upper triangle moves by
    at most 1 in Euclidean norm (its square is (1 + Σ x_j⁴)/2 at ‖x‖ = 1, largest at a unit vector).  With
    off_diagonal = scale/√2 the triangle whose off-diagonal entries are multiplied by √2 has the norm ‖xxᵀ‖_F = ‖x‖² ≤ 1
    and independent N(0, scale²) noise: the same privacy with half the variance off the diagonal.
    """
    d = matrix.shape[0]
    draws = noise.standard_normal((d, d))
    upper = off_diagonal * np.triu(draws, 1)
    return matrix + scale * np.diag(np.diag(draws)) + upper + upper.T


def gaussian(vector: np.ndarray, scale: float, noise: np.random.Generator) -> np.ndarray:
    """vector + N(0, scale² I)."""
    return vector + scale * noise.standard_normal(vector.shape)
