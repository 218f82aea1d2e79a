"""Small declarations and stores that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.data import Declaration, write_store

BOUNDS: dict[str, Any] = {
    "target": {"name": "delay", "lower": -60, "upper": 180},
    "features": {
        "distance": {"lower": 0, "upper": 5000},
        "origin": {"categories": ["EWR", "JFK", "LGA"]},
        "late": {"lower": 0, "upper": 1},
    },
}

BOUNDS_TOML = """
[target]
name = "delay"
lower = -60
upper = 180

[features.distance]
lower = 0
upper = 5_000

[features.origin]
categories = ["EWR", "JFK", "LGA"]

[features.late]
lower = 0
upper = 1
"""

NAN = float("nan")


def plain(n_features: int) -> Declaration:
    """Return a declaration of numeric columns c0, c1, ... with bounds (-1, 1)."""
    names = [f"c{j}" for j in range(n_features)]
    return Declaration(names, [(-1, 1)] * n_features, [], "target", (-2, 2))


def table(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return normal deviates X (float32) and y, some of them NaN."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)).astype("float32")
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, rng.standard_normal(n_rows).astype("float32")


def store_of(path: Path, n_rows: int = 40, n_features: int = 3, chunk_rows: int = 16) -> Path:
    """Write a store of a few chunks."""
    return write_store(path, [table(n_rows, n_features)], plain(n_features), chunk_rows=chunk_rows)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in shape, dtype and every bit (NaN included)."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
