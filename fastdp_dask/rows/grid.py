"""The integer grid on which every private pass computes.

A scaled row (Euclidean norm ≤ 1) is truncated towards zero to multiples of 2^-q, so its norm cannot grow, and from
there on sums are integers: exact, in any order, for every chunking, scheduler and retry.  Residuals have a grid of
their own.  With q = 16 and blocks of at most 2^15 rows a block transform fits int32:
2^15 · (2^16 − 1) < 2^31.
"""

from __future__ import annotations

import math

GRID_BITS = 16
"""q: a scaled entry is an integer multiple of 2^-q, of absolute value below 1."""

GRID = 1 << GRID_BITS

MAX_BLOCK_ROWS = 1 << (31 - GRID_BITS)
"""Rows of a block whose transform fits int32: b · (2^q − 1) < 2^31."""


def entry_limit(parts: int) -> int:
    """Largest integer V with V ≤ 2^q − 1 and parts · V² ≤ 2^(2q).

    A row of `parts` entries, each at most V in absolute value, has norm ≤ 1 on the grid: an exact statement about
    integers, whatever floating point did before.
    """
    return min(GRID - 1, math.isqrt((GRID * GRID) // parts))


def residual_grid(n_rows: int, clip: float) -> float:
    """Grid points per unit of a clipped residual: 2^16, fewer when n is so large that int64 could overflow.

    |Σ_i x_ij r_i| ≤ n · 2^q · C · 2^bits < 2^63, with n, q and C public.
    """
    magnitude = math.ceil(math.log2(n_rows)) + GRID_BITS + max(0, math.ceil(math.log2(clip)))
    return 2.0 ** min(16, 62 - magnitude)


def gram_shift(n_rows: int) -> int:
    """Bits by which rows are coarsened (towards zero) before XᵀX, so that n · 2^(2(q − shift)) < 2^63."""
    return max(0, -((62 - math.ceil(math.log2(n_rows)) - 2 * GRID_BITS) // 2))


def deviation_unit(n_rows: int, sketch_size: int) -> float:
    """Power of two by which sketch sums are coarsened before the adjoint, so that n · k2 · 2^q / unit < 2^63."""
    magnitude = math.ceil(math.log2(n_rows)) + math.ceil(math.log2(sketch_size)) + GRID_BITS
    return 2.0 ** max(0, magnitude - 62)
