"""Hypothesis strategies: row chunkings, hostile numbers, sketch sizes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

HOSTILE = (
    0.0, -0.0, 1.0, -1.0, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 5e-324, -5e-324,
    1e-310, 1e-160, 1e160,
)  # fmt: skip


def numbers() -> st.SearchStrategy[float]:
    """Any float64 there is, the hostile ones often, on a declared bound of ±1 too."""
    return st.sampled_from(HOSTILE) | st.floats() | st.floats(-1.5, 1.5)


@st.composite
def chunkings(draw: st.DrawFn, rows: int) -> tuple[int, ...]:
    """`rows` cut anywhere: one chunk, chunks of one row, empty chunks, uneven ones."""
    cuts = draw(st.lists(st.integers(0, rows), max_size=9))
    edges = [0, *sorted(cuts), rows]
    return tuple(b - a for a, b in pairwise(edges))


@st.composite
def sketch_shapes(draw: st.DrawFn, most_rows: int = 200) -> tuple[int, int, int, int]:
    """(n, k2, d, seed) with 1 ≤ k2 ≤ N; the ends k2 = 1 and k2 = N often."""
    n = draw(st.integers(1, most_rows))
    padded = 1 << (n - 1).bit_length()
    k2 = draw(st.sampled_from([1, padded]) | st.integers(1, padded))
    return n, k2, draw(st.integers(1, 4)), draw(st.integers(0, 2**128 - 1))


def real_matrix(n: int, d: int, seed: int) -> np.ndarray:
    """Uniform entries in [−1, 1], some rows blank."""
    generator = np.random.default_rng(seed % 2**64)
    X = generator.uniform(-1, 1, (n, d))
    X[generator.random(n) < 0.2] = 0.0
    return X
