"""The signed gather and scatter that join one block's transform to the whole sketch (no checks inside).

Row r = q·b + j of H_N is (row q of H_p) ⊗ (row j of H_b): block g of the data enters sampled row r with the sign
(−1)^popcount(q & g) and through entry j of its own transform.
"""

from __future__ import annotations

import numba
import numpy as np

from fastdp_dask.compiled import kernel


@numba.njit(nogil=True, inline="always")
def _odd_bits(value: int) -> int:
    """popcount(value) mod 2 of a non-negative int64, by folding halves."""
    value ^= value >> 32
    value ^= value >> 16
    value ^= value >> 8
    value ^= value >> 4
    value ^= value >> 2
    value ^= value >> 1
    return value & 1


@kernel
def gather_add(out: np.ndarray, block: np.ndarray, rows: np.ndarray, shift: int, index: int) -> None:
    """out[i] += (−1)^popcount(q_i & index) · block[j_i], with rows[i] = q_i·2^shift + j_i.

    out (k2, d), block (2^shift, d) transformed, rows (k2,) int64, index: which block it is.
    """
    low = (1 << shift) - 1
    columns = block.shape[1]
    for i in range(rows.shape[0]):
        source = rows[i] & low
        if _odd_bits((rows[i] >> shift) & index):
            for j in range(columns):
                out[i, j] -= block[source, j]
        else:
            for j in range(columns):
                out[i, j] += block[source, j]


@kernel
def gather(out: np.ndarray, block: np.ndarray, rows: np.ndarray, shift: int, index: int) -> None:
    """As `gather_add`, but `out` is written, not added to: its memory need not be cleared first."""
    low = (1 << shift) - 1
    columns = block.shape[1]
    for i in range(rows.shape[0]):
        source = rows[i] & low
        if _odd_bits((rows[i] >> shift) & index):
            for j in range(columns):
                out[i, j] = -block[source, j]
        else:
            for j in range(columns):
                out[i, j] = block[source, j]


@kernel
def scatter_add(block: np.ndarray, values: np.ndarray, rows: np.ndarray, shift: int, index: int) -> None:
    """block[j_i] += (−1)^popcount(q_i & index) · values[i]: the adjoint of `gather_add`.

    Offsets j_i repeat among the sampled rows, so this adds; the caller zeroes the block.
    """
    low = (1 << shift) - 1
    columns = block.shape[1]
    for i in range(rows.shape[0]):
        target = rows[i] & low
        if _odd_bits((rows[i] >> shift) & index):
            for j in range(columns):
                block[target, j] -= values[i, j]
        else:
            for j in range(columns):
                block[target, j] += values[i, j]


@kernel
def scatter_tile(
    block: np.ndarray, values: np.ndarray, rows: np.ndarray, order: np.ndarray, shift: int, index: int
) -> None:
    """As `scatter_add` for the sampled rows order[0], order[1], … alone, whose offsets lie in one tile of the block.

    The tile stays in the second-level cache while it is filled and then transformed.
    """
    low = (1 << shift) - 1
    columns = block.shape[1]
    for i in order:
        target = rows[i] & low
        if _odd_bits((rows[i] >> shift) & index):
            for j in range(columns):
                block[target, j] -= values[i, j]
        else:
            for j in range(columns):
                block[target, j] += values[i, j]


@kernel
def signed_copy(out: np.ndarray, first: int, rows: np.ndarray, bits: np.ndarray) -> None:
    """out[first + i] = −rows[i] where bits[i] is 1, else rows[i]."""
    for i in range(bits.shape[0]):
        if bits[i]:
            for j in range(rows.shape[1]):
                out[first + i, j] = -rows[i, j]
        else:
            for j in range(rows.shape[1]):
                out[first + i, j] = rows[i, j]


@kernel
def flip_rows(block: np.ndarray, first: int, bits: np.ndarray) -> None:
    """Negate row first + i of the block wherever bits[i] is 1."""
    for i in range(bits.shape[0]):
        if bits[i]:
            for j in range(block.shape[1]):
                block[first + i, j] = -block[first + i, j]


@kernel
def add_narrow(total: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, e: np.ndarray) -> None:
    """total += a + b + c + e, flat int64 and int32 (NumPy would convert through a buffer, four times slower)."""
    for i in range(total.shape[0]):
        total[i] += (np.int64(a[i]) + b[i]) + (np.int64(c[i]) + e[i])
