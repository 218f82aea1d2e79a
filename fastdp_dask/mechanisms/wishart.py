"""All that a Gaussian sketch says about the data, drawn directly."""

from __future__ import annotations

import numpy as np

from fastdp_dask.linalg import square_root


def wishart(degrees: int, scale: np.ndarray, noise: np.random.Generator) -> np.ndarray:
    r"""W ~ Wishart_d(K, Σ): the law of X̃ᵀX̃ for K rows i.i.d. N(0, Σ), in O(d²) draws and O(d³) work.

    W = L A Aᵀ Lᵀ with L Lᵀ = Σ and A lower triangular, A_jj² ~ χ²_{K−j} (j = 0 … d−1), A_ij ~ N(0, 1) below it
    (Bartlett, 1933).  X̃ᵀX̃ is sufficient for Σ: X̃ is W's Cholesky factor times an independent Haar matrix, so
    releasing W instead of X̃ neither gains nor loses privacy, and K rows in one draw cost what T draws of K/T rows
    from the same Z and η cost.

    Parameters
    ----------
    degrees : int
        K ≥ d, public (below d the triangle has no law; the caller checks).
    scale : ndarray of shape (d, d)
        Σ = ZᵀZ + η²I, private.
    noise : numpy.random.Generator
    """
    d = scale.shape[0]
    triangle = np.tril(noise.standard_normal((d, d)), -1)
    triangle[np.diag_indices(d)] = np.sqrt(noise.chisquare(degrees - np.arange(d)))
    factor = square_root(scale) @ triangle
    return factor @ factor.T
