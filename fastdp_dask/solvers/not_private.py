"""NOT PRIVATE: exact and sketched least squares without noise, to measure what privacy costs.

Nothing here is reachable from `LinearRegression`; results are functions of the data like any other.
"""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask import rng
from fastdp_dask.linalg import bounded, gram_of, solve_psd
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.operator import RowOperator, SketchedRows
from fastdp_dask.sketch.srht import SRHT

_CLIP = 16.0  # no residual of |y| ≤ 1 on rows of norm ≤ 1 comes near it while ‖θ‖ < 15: gradients are those of squares


def ols(rows: RowOperator) -> np.ndarray:
    """θ = (XᵀX)⁻¹ Xᵀy, (d,), NOT PRIVATE: one pass."""
    gram, moment = rows.gram(_CLIP)
    return solve_psd(gram, moment)


def ihs(rows: SketchedRows, *, sketch_size: int, n_iter: int, seed: int) -> np.ndarray:
    """Iterative Hessian sketch with dense Gaussian S_t, NOT PRIVATE: (T, d) iterates in T passes.

    θ_{t+1} = θ_t + ((S_t X)ᵀ(S_t X)/k)⁻¹ Xᵀ(y − Xθ_t), S_t (k, n) standard normal, fresh in every round.
    Source: Pilanci & Wainwright (2016).
    """
    keys = [rng.derive_key(seed, "round", t) for t in range(n_iter)]
    sketches, gradient = rows.gaussian_sketch(sketch_size, keys, _CLIP)
    return _iterate(rows, [sketch.T @ sketch / sketch_size for sketch in sketches], gradient)


def fastihs(rows: RowOperator, *, sketch_size: int, n_iter: int, seed: int) -> np.ndarray:
    """`ihs` with an SRHT of `sketch_size` rows for each round, NOT PRIVATE: (T, d) iterates in T passes."""
    sketches = [SRHT(rows.n_rows, sketch_size, seed=rng.derive_key(seed, "round", t)) for t in range(n_iter)]
    sums, gradient = rows.sketch(sketches, _CLIP)
    return _iterate(rows, [gram_of(total, GRID * math.sqrt(sketch_size)) for total in sums], gradient)


def _iterate(rows: RowOperator, hessians: list[np.ndarray], gradient: np.ndarray) -> np.ndarray:
    theta = np.zeros(gradient.shape[0])
    iterates = []
    for t, hessian in enumerate(hessians):
        if t:
            gradient = rows.gradient(theta, _CLIP)
        theta = bounded(theta + solve_psd(hessian, gradient))
        iterates.append(theta)
    return np.array(iterates)
