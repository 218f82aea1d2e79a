"""Rows of the Hadamard matrix chosen by algebra: coherence known without a transform, far below random rows'.

Rows are the points (x, x³), x ∈ GF(2^m), of the graph of a cubic (Gold) function, moved by a random affine map.
Their Walsh transform W(t) = Σ_x (−1)^(α·x + β·x³) takes only the values 0 and ±2^((m+1)/2) for m odd (Gold, 1968), so

    Δ = max_{t ≠ 0} |W(t)| / 2^m ≤ sqrt(2 / k2),        k2 = 2^m,

where uniform rows have about sqrt(2 ln(N) / k2).  For m even the bound is 2/sqrt(k2).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fastdp_dask.rng import counter_words


def fits(n_padded: int, sketch_size: int) -> bool:
    """Whether such rows exist: k2 = 2^m ≥ 8 and log2 N ≤ 2m."""
    m = sketch_size.bit_length() - 1
    return sketch_size == 1 << m and m >= 3 and m <= n_padded.bit_length() - 1 <= 2 * m


def coherence_bound(n_padded: int, sketch_size: int) -> float:
    """Δ's bound: sqrt(2/k2) for odd log2 k2, 2/sqrt(k2) for even; 0 when k2 = N (every row is taken)."""
    if sketch_size == n_padded:
        return 0.0
    m = sketch_size.bit_length() - 1
    return 2.0 ** ((m + 2) // 2) / sketch_size


def rows(key: int, n_padded: int, sketch_size: int) -> np.ndarray:
    """The k2 sampled rows, distinct and ascending, (k2,) int64: A (x, x³) + c over all x in GF(2^m).

    Of the 2m bits of (x, x³) the m bits of x and the first log2 N − m of x³ are kept, so that rows are distinct and
    no t ≠ 0 loses its bound.  A, invertible over GF(2), and c are random (`key`): they keep the rows from aligning
    with structure in the data, and Δ does not depend on them.
    """
    bits = n_padded.bit_length() - 1
    m = sketch_size.bit_length() - 1
    x = np.arange(sketch_size, dtype=np.uint64)
    cube = _multiply(_multiply(x, x, m), x, m)
    kept = cube & np.uint64((1 << (bits - m)) - 1)
    points = x | (kept << np.uint64(m))
    matrix, shift = _affine_map(key, bits)
    moved = np.full(sketch_size, shift, dtype=np.uint64)
    for position, row in enumerate(matrix):
        parity = np.bitwise_count(points & np.uint64(row)).astype(np.uint64) & np.uint64(1)
        moved ^= parity << np.uint64(position)
    return np.sort(moved).astype(np.int64)


def _multiply(a: np.ndarray, b: np.ndarray, m: int) -> np.ndarray:
    """Products in GF(2^m), elementwise: shift and add, reducing by the modulus at each step."""
    modulus, top = np.uint64(_irreducible(m)), np.uint64(1 << m)
    product = np.zeros_like(a)
    factor = a.copy()
    for position in range(m):
        chosen = (b >> np.uint64(position)) & np.uint64(1)
        product ^= factor * chosen
        factor <<= np.uint64(1)
        factor ^= modulus * ((factor & top) >> np.uint64(m))
    return product


@lru_cache(maxsize=64)
def _irreducible(m: int) -> int:
    """The least irreducible polynomial of degree m over GF(2), as its bits (Rabin's test)."""
    candidate = (1 << m) | 1
    while not _is_irreducible(candidate, m):
        candidate += 2
    return candidate


def _is_irreducible(polynomial: int, m: int) -> bool:
    power = 2  # the polynomial x
    powers = {}
    for k in range(1, m + 1):
        power = _square(power, polynomial, m)
        powers[k] = power
    if powers[m] != 2 % (1 << m) and m > 1:
        return False
    primes = [p for p in range(2, m + 1) if m % p == 0 and all(p % q for q in range(2, p))]
    return all(_gcd(powers[m // p] ^ 2, polynomial) == 1 for p in primes if m // p >= 1)


def _square(a: int, polynomial: int, m: int) -> int:
    spread = 0
    for position in range(m):
        if a >> position & 1:
            spread |= 1 << (2 * position)
    return _remainder(spread, polynomial)


def _remainder(a: int, b: int) -> int:
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, _remainder(a, b)
    return a


def _affine_map(key: int, bits: int) -> tuple[list[int], int]:
    """A random invertible bits × bits matrix over GF(2), by rows, and a random shift."""
    mask = (1 << bits) - 1
    position = 0
    while True:
        words = [int(word) & mask for word in counter_words(key, position, bits + 1)]
        position += bits + 1
        if _rank(words[:bits]) == bits:
            return words[:bits], words[bits]


def _rank(vectors: list[int]) -> int:
    basis: dict[int, int] = {}  # leading bit -> vector
    for vector in vectors:
        while vector:
            lead = vector.bit_length()
            if lead not in basis:
                basis[lead] = vector
                break
            vector ^= basis[lead]
    return len(basis)
