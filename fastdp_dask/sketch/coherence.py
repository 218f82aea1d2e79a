"""Coherence of an SRHT: the largest inner product of two different columns of S."""

from __future__ import annotations

import numpy as np

from fastdp_dask.sketch._fwht_kernels import _fwht_rows as fwht_rows
from fastdp_dask.sketch._gather_kernels import scatter_add

_BLOCK = 1 << 20  # 8 MiB of work memory whatever N is


def coherence(rows: np.ndarray, n_padded: int, block_rows: int = _BLOCK) -> float:
    """Δ = max_{t ≠ 0} |Σ_{r ∈ rows} (−1)^popcount(r & t)| / k2.

    (SᵀS)_ij = ± (1/k2) Σ_r (−1)^popcount(r & (i xor j)), so the maximum over pairs of columns is a maximum over
    t = i xor j ≠ 0 of the Walsh transform of the indicator of the sampled rows.  It is taken block by block of t,
    in O(b) memory and N log b + (N/b)·k2 additions, in exact integers.

    Parameters
    ----------
    rows : ndarray of shape (k2,), int64
        Distinct sampled rows in 0 … N−1.  Public.
    n_padded : int
        N, a power of two.
    block_rows : int
        b, a power of two: positions t looked at together.

    Returns
    -------
    float
        Δ in [0, 1]; 0 by case when k2 = N (S is orthonormal), when N = 1 too.
    """
    sampled = rows.shape[0]
    if sampled == n_padded:
        return 0.0
    size = min(block_rows, n_padded)
    ones = np.ones((sampled, 1), dtype=np.int64)
    block = np.empty((size, 1), dtype=np.int64)
    largest = 0
    for index in range(n_padded // size):
        block[:] = 0
        scatter_add(block, ones, rows, size.bit_length() - 1, index)
        fwht_rows(block)
        if index == 0:
            block[0] = 0  # t = 0 is a column with itself
        largest = max(largest, int(block.max()), -int(block.min()))
    return largest / sampled
