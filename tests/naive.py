"""Twins of what the package computes, written from the definitions: dense, slow, without Dask or numba."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.linalg import hadamard

from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.srht import SRHT


def dense_srht(sketch: SRHT) -> np.ndarray:
    """sqrt(N/k2) · P · H_N · B over all N positions, (k2, N), from the recursive definition of H_N."""
    size = sketch.n_padded
    full = SRHT(size, sketch.sketch_size, seed=sketch.seed)  # the same rows, and signs of the padding too
    signs = 1.0 - 2.0 * full.sign_bits(0, size)
    return math.sqrt(size / sketch.sketch_size) * (hadamard(size)[full.rows] / math.sqrt(size)) * signs


def coherence(sketch: SRHT) -> float:
    """max over i ≠ j of |(SᵀS)_ij| over all N positions."""
    dense = dense_srht(sketch)
    gram = dense.T @ dense
    np.fill_diagonal(gram, 0.0)
    return float(np.abs(gram).max())


def deviation(sketch: SRHT, X: np.ndarray) -> float:
    """max over the N record positions, blank and absent ones included, of ‖row i of SᵀSX − X‖."""
    padded = np.zeros((sketch.n_padded, X.shape[1]))
    padded[: len(X)] = X
    dense = dense_srht(sketch)
    delta = dense.T @ (dense @ padded) - padded
    return float(np.linalg.norm(delta[: len(X)], axis=1).max())


def gradient(X: np.ndarray, y: np.ndarray, theta: np.ndarray, clip: float) -> np.ndarray:
    """Σ_i x_i clip_C(y_i − x_iᵀθ)."""
    return X.T @ np.clip(y - X @ theta, -clip, clip)


def exact_row(
    x: Sequence[float],
    y: float,
    lower: Sequence[float],
    upper: Sequence[float],
    groups: Sequence[Sequence[int]],
    fit_intercept: bool,
) -> list[float]:
    """One scaled row under per-feature bounds, in exact rationals up to a last square root, in grid units."""
    member = {column for group in groups for column in group}
    parts = len(x) - len(member) + len(groups) + fit_intercept
    unit = GRID / math.sqrt(parts)
    if not all(math.isfinite(value) for value in [*x, y]):
        return [0.0] * (len(x) + fit_intercept)
    row = []
    for column, value in enumerate(x):
        low, high = (0.0, 1.0) if column in member else (lower[column], upper[column])
        clipped = Fraction(min(max(value, low), high))
        if column in member:
            row.append(float(clipped) * unit)
        elif fit_intercept:
            half = (Fraction(high) - Fraction(low)) / 2
            row.append(float((clipped - Fraction(low) - half) / half) * unit)
        else:
            row.append(float(clipped / max(abs(Fraction(low)), abs(Fraction(high)))) * unit)
    for group in groups:
        kept = max(group, key=lambda column: (row[column], -list(group).index(column)))
        for column in group:
            if column != kept:
                row[column] = 0.0
    return row + [unit] * fit_intercept


def exact_normed_row(x: Sequence[float], y: float, radius: float, fit_intercept: bool) -> list[float]:
    """One scaled row under a bound on its norm, in grid units."""
    unit = GRID / math.sqrt(1 + fit_intercept)
    if not all(math.isfinite(value) for value in [*x, y]):
        return [0.0] * (len(x) + fit_intercept)
    largest = max(abs(value) for value in x)
    ratios = [float(Fraction(value) / Fraction(largest)) if largest else 0.0 for value in x]
    length = math.hypot(*ratios)
    if largest and Fraction(largest) * Fraction(length) > Fraction(radius):
        row = [ratio / length * unit for ratio in ratios]
    else:
        row = [float(Fraction(value) / Fraction(radius)) * unit for value in x]
    return row + [unit] * fit_intercept


class DenseRows:
    """The RowOperator protocol on NumPy arrays: whole matrices, no blocks."""

    def __init__(self, X: np.ndarray, y: np.ndarray, scaling: Scaling) -> None:
        self.scaling = scaling
        self.n_rows = len(X)
        self.n_passes = 0
        grid, self.target = scaling.rows(np.asarray(X, dtype=float), np.asarray(y, dtype=float))
        self.rows = grid / GRID

    def sketch(self, sketches: Sequence[SRHT], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        self.n_passes += 1
        exact = np.rint(self.rows * GRID).astype(np.int64)
        sums = [
            np.rint(dense_srht(s)[:, : self.n_rows] * math.sqrt(s.sketch_size)).astype(np.int64) @ exact
            for s in sketches
        ]
        return sums, gradient(self.rows, self.target, np.zeros(self.rows.shape[1]), clip)

    def deviation(self, sketches: Sequence[SRHT], sums: Sequence[np.ndarray]) -> list[float]:
        self.n_passes += 1
        return [deviation(sketch, self.rows) for sketch in sketches]

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        self.n_passes += 1
        zero = np.zeros(self.rows.shape[1])
        return self.rows.T @ self.rows, gradient(self.rows, self.target, zero, clip)

    def gradient(self, theta: np.ndarray, clip: float) -> np.ndarray:
        self.n_passes += 1
        return gradient(self.rows, self.target, theta, clip)

    def squared_residuals(self, theta: np.ndarray, clip: float) -> float:
        self.n_passes += 1
        return float(np.sum(np.clip(self.target - self.rows @ theta, -clip, clip) ** 2))
