"""The passes and whole fits, as multiples of the time of summing X on the same store."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from bench_timing import Runs, table

from fastdp_dask import SRHT, LinearRegression
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.data import Declaration, open_store, write_store
from fastdp_dask.rows.scaling import declare

BOUND = 3.0
# Largest multiple of the sum's time that is wanted, at 4,194,304 x 64 float32 and k2 = 32,768.
BARS = {"sketch": 1.5, "deviation": 1.6, "gradient": 1.15, "fit": 5.5}


def make_store(path: Path, n: int, d: int, chunk_rows: int) -> Any:
    """n records of standard normal features and a linear target with noise."""
    generator = np.random.default_rng(0)
    theta = generator.standard_normal(d) / np.sqrt(d)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n, chunk_rows):
            X = generator.standard_normal((min(chunk_rows, n - start), d), dtype=np.float32)
            yield X, X @ theta.astype(np.float32) + 0.1 * generator.standard_normal(len(X), dtype=np.float32)

    interval = (-BOUND, BOUND)
    declaration = Declaration([f"x{j}" for j in range(d)], [interval] * d, [], "y", interval)
    return open_store(write_store(path, blocks(), declaration, n, chunk_rows=chunk_rows))


def fit(X: Any, y: Any, k2: int, persist: bool = False, n_iter: int = 3) -> LinearRegression:
    """A FastIHM fit whose sketch is drawn after the data: no pass for the deviation."""
    model = LinearRegression(
        epsilon=1.0, delta=1.0 / X.shape[0] ** 2, bounds_X=(-BOUND, BOUND), bounds_y=(-BOUND, BOUND), solver="fastihm",
        n_iter=n_iter, k2=k2, coherence="public", persist=persist,
    )  # fmt: skip
    return model.fit(X, y)


def lstsq(X: Any, y: Any) -> Any:
    """Ordinary least squares by Dask's own QR; it wants chunks no wider than long."""
    return dask.compute(da.linalg.lstsq(X, y)[0])


def gram_solve(X: Any, y: Any) -> Any:
    """Ordinary least squares from XᵀX and Xᵀy."""
    left, right = dask.compute(X.T @ X, X.T @ y)
    return np.linalg.solve(left.astype(float), right.astype(float))


def pass_runs(store: Any, k2: int) -> Runs:
    """The passes of a fit, each by itself."""
    d = store.X.shape[1]
    rows = BlockedRows(store.X, store.y, declare(d, bounds_X=(-BOUND, BOUND), bounds_y=(-BOUND, BOUND)))
    sketch = SRHT(store.n_rows, k2, seed=1)
    theta = np.random.default_rng(1).standard_normal(d + 1) / 8
    sums: list[list[np.ndarray]] = []

    def sketch_pass() -> None:
        sums[:] = [rows.sketch([sketch], 1.0)[0]]

    stored = da.from_zarr(str(store.path), component="X")  # read through Zarr's own thread, as others would
    return {
        "sum": lambda: store.X.sum(axis=0).compute(),
        "from_zarr sum": lambda: stored.sum(axis=0).compute(),
        "sketch": sketch_pass,
        "deviation": lambda: rows.deviation([sketch], sums[0]),
        "gradient": lambda: rows.gradient(theta, 1.0),
        "gram": lambda: rows.gram(1.0),
    }


def peer(X: Any, y: Any) -> Any:
    """dask-ml's LinearRegression, by L-BFGS, at most a hundred steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its use of Dask's former names
        from dask_ml.linear_model import LinearRegression as Peer

        return Peer(solver="lbfgs", max_iter=100).fit(X, y)


def on_disk(folder: Path, n: int, d: int, k2: int, chunk_rows: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Each pass, and whole fits of three rounds, over one store."""
    facts = {"n": n, "d": d, "k2": k2, "chunk_rows": chunk_rows}
    store = make_store(folder / "store", n, d, chunk_rows)
    X, y = store.X, store.y
    yield table("passes", facts, pass_runs(store, k2), repeats, bars=BARS)
    runs: Runs = {
        "sum": lambda: X.sum(axis=0).compute(),
        "fit": lambda: fit(X, y, k2),
        "fit, persist": lambda: fit(X, y, k2, persist=True),
        "gram solve": lambda: gram_solve(X, y),
        "lstsq": lambda: lstsq(X, y),
    }
    if find_spec("dask_ml"):
        runs["dask-ml"] = lambda: peer(X, y)
    yield table("whole fit, T = 3", facts, runs, repeats, bars=BARS)


def in_memory(n: int, d: int, k2: int, repeats: int) -> dict[str, Any]:
    """A whole fit on NumPy arrays."""
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-1, 1, (n, d)), generator.uniform(-1, 1, n)
    runs: Runs = {"fit": lambda: fit(X, y, k2), "NumPy lstsq": lambda: np.linalg.lstsq(X, y, rcond=None)}
    return table("in memory, T = 3", {"n": n, "d": d, "k2": k2}, runs, repeats, unit="NumPy lstsq")
