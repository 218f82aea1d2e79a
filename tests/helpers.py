"""Small data, a small private model, and sources that watch how they are read."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import dask.array as da
import numpy as np

from fastdp_dask import LinearRegression, PrivacyLeakWarning

PAPER = {"solver": "fastihm", "preset": "paper"}


def small_data(n: int = 3000, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X uniform in [−1, 1], y linear in it with noise, within [−1, 1]."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, d))
    y = np.clip(X @ np.linspace(0.5, -0.3, d) + 0.1 + 0.05 * generator.standard_normal(n), -1, 1)
    return X, y


def model(**options: Any) -> LinearRegression:
    """A model with every required argument; reproducible unless told otherwise."""
    defaults = {
        "epsilon": 1.0, "delta": 1e-6, "bounds_X": (-1.0, 1.0), "bounds_y": (-1.0, 1.0),
        "public_seed": 7, "random_state": 11, **PAPER,
    }  # fmt: skip
    return LinearRegression(**{**defaults, **options})


def fit(estimator: LinearRegression, X: Any, y: Any, **options: Any) -> LinearRegression:
    """Fit, without the warnings that the seeds ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return estimator.fit(X, y, **options)


def bits(estimator: LinearRegression) -> bytes:
    """Everything that a fit released, as bytes."""
    numbers = [estimator.coef_.ravel(), [estimator.intercept_], list(estimator.release_.values())]
    return np.concatenate([np.asarray(part, dtype=float) for part in numbers]).tobytes()


def chunked(X: np.ndarray, y: np.ndarray, rows: tuple[int, ...] | int) -> tuple[da.Array, da.Array]:
    """X and y as Dask arrays with these row chunks."""
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=(rows,))


def untouchable(shape: tuple[int, ...], dtype: Any = float, chunks: Any = 10) -> da.Array:
    """A Dask array that raises as soon as one of its chunks is computed."""

    def refuse(block: np.ndarray) -> np.ndarray:
        raise AssertionError("data was read")

    source = da.zeros(shape, chunks=(chunks, *shape[1:]), dtype=dtype)
    return source.map_blocks(refuse, dtype=dtype, meta=np.empty((0,) * len(shape), dtype=dtype))


class ReadCounter:
    """A Dask array over `X` that counts the reads of each chunk, on schedulers that share this memory."""

    def __init__(self, X: np.ndarray, rows: int) -> None:
        self.reads: dict[int, int] = {}
        self._lock = threading.Lock()
        self._X, self._rows = X, rows
        lengths = da.core.normalize_chunks((rows, X.shape[1]), X.shape)
        self.array = da.map_blocks(self._read, chunks=lengths, dtype=X.dtype, meta=X[:0])

    def _read(self, block_id: tuple[int, ...] = ()) -> np.ndarray:
        with self._lock:
            self.reads[block_id[0]] = self.reads.get(block_id[0], 0) + 1
        return self._X[block_id[0] * self._rows : (block_id[0] + 1) * self._rows]
