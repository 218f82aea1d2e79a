"""d × d linear algebra that always returns: no failure may depend on private values."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import lru_cache

import numpy as np
from threadpoolctl import ThreadpoolController

_SLAB_ROWS = 8192
_FLOOR = 1e-14
_LARGEST = 1e100


def smallest_eigenvalue(gram: np.ndarray) -> float:
    """λ_min of a symmetric positive semi-definite (d, d) matrix, at least 0."""
    return max(0.0, float(np.linalg.eigvalsh(gram)[0]))


def one_blas_thread() -> AbstractContextManager[object]:
    """BLAS and LAPACK on one thread each: how they split a product would otherwise show in its last bits."""
    return _controller().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, setting their threads microseconds.
    np.linalg.eigvalsh(np.eye(2))
    return ThreadpoolController()


def gram_of(sums: np.ndarray, scale: float) -> np.ndarray:
    """(sums/scale)ᵀ(sums/scale), (d, d) float64, for integer sums (k2, d).

    Slabs of rows run side by side and are added in their order, so the result does not depend on the thread count.
    """

    def slab(start: int) -> np.ndarray:
        part = sums[start : start + _SLAB_ROWS] / scale
        return part.T @ part

    total = np.zeros((sums.shape[1], sums.shape[1]))
    if sums.shape[0] <= _SLAB_ROWS:  # a thread would take longer to start
        with one_blas_thread():
            return np.asarray(total + slab(0))
    with one_blas_thread(), ThreadPoolExecutor() as pool:
        for product in pool.map(slab, range(0, sums.shape[0], _SLAB_ROWS)):
            total += product
    return total


def solve_psd(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """matrix⁻¹ · vector for a symmetric positive semi-definite (d, d) matrix; vector (d,) or (d, t).

    By its eigendecomposition, with eigenvalues floored at 1e-14 of the largest, so that a singular matrix gives an
    answer like any other and never an error.
    """
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    floor = max(float(values[-1]) * _FLOOR, np.finfo(float).tiny)
    return bounded(vectors @ ((vectors.T @ vector).T / np.maximum(values, floor)).T)


def bounded(vector: np.ndarray) -> np.ndarray:
    """The vector with entries beyond ±1e100 cut there and nan replaced by 0, so that later arithmetic is finite."""
    return np.clip(np.where(np.isnan(vector), 0.0, vector), -_LARGEST, _LARGEST)


def square_root(gram: np.ndarray) -> np.ndarray:
    """L (d, d) with L Lᵀ = gram for a symmetric positive semi-definite matrix; never fails.

    Cholesky's factor, at an eighth of the cost of an eigendecomposition, which a matrix that is singular to working
    precision gets instead: an output like any other.
    """
    with suppress(np.linalg.LinAlgError):
        return np.linalg.cholesky((gram + gram.T) / 2)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    return vectors * np.sqrt(np.maximum(values, 0.0))
