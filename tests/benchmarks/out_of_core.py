"""Data several times the memory of all workers: what a fit takes there, against what was projected before it ran."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster

from fastdp_dask import LinearRegression, PrivacyLeakWarning
from fastdp_dask.blocked import memory
from fastdp_dask.commands.workers import peak_memory
from fastdp_dask.data import Declaration, Store, open_store, write_store


def write(path: Path, n: int, d: int, chunk_rows: int) -> Store:
    """n records of d uniform features, in single precision, and a linear target with noise; nothing is repeated."""
    generator = np.random.default_rng(0)

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n, chunk_rows):
            rows = min(chunk_rows, n - start)
            X = generator.random((rows, d), dtype=np.float32) * 2 - 1
            yield X, X[:, 0] / 2 + 0.1 * generator.standard_normal(rows, dtype=np.float32)

    declaration = Declaration([f"x{j}" for j in range(d)], [(-1.0, 1.0)] * d, [], "y", (-1.0, 1.0))
    return open_store(write_store(path, blocks(), declaration, n, chunk_rows=chunk_rows))


def fit(store: Store, k2: int, n_iter: int) -> LinearRegression:
    """A FastIHM fit without a pass for the deviation; seeds are fixed, so that two of them can be compared."""
    model = LinearRegression(
        epsilon=1.0, delta=1e-10, bounds_X=(-1, 1), bounds_y=(-1, 1), solver="fastihm", n_iter=n_iter, k2=k2,
        coherence="public", public_seed=1, random_state=1,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(store.X, store.y)


def spilled(dask_worker: Any) -> int:
    """Values that this worker has written to disk."""
    return len(getattr(dask_worker.data, "slow", ()))


def measure(store: Store, k2: int, n_iter: int, memory_limit: int, n_workers: int = 2) -> dict[str, Any]:
    """Fit on workers of one thread with `memory_limit` bytes each, and report what they needed.

    Kernels are compiled here first, once for this machine: a compiler in a worker would count as its memory.
    """
    (chunk_rows, *_), d = store.X.chunks[0], store.X.shape[1]
    with dask.config.set(scheduler="synchronous"):
        fit(Store(store.path, store.X[: 2 * chunk_rows], store.y[: 2 * chunk_rows], store.declaration, 2 * chunk_rows),
            min(k2, 2 * chunk_rows), n_iter)  # fmt: skip
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, memory_limit=memory_limit, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        pids = sorted(client.run(os.getpid).values())
        start = time.perf_counter()
        model = fit(store, k2, n_iter)
        seconds = time.perf_counter() - start
        restarted = sorted(client.run(os.getpid).values()) != pids
        on_disk = sum(client.run(spilled).values())
        peak = max(client.run(peak_memory).values())
    projected = memory.project(
        chunk_rows=chunk_rows, n_features=d, itemsize=store.X.dtype.itemsize, merged=False, shape=(k2 + 2, d + 1),
        partial_itemsize=4, work=memory.block_work(chunk_rows, d + 1, 4),
    ).worker(1)  # fmt: skip
    return {
        "rows": store.n_rows, "columns": d, "bytes": store.X.nbytes + store.y.nbytes, "k2": k2, "n_iter": n_iter,
        "workers": n_workers, "memory_limit": memory_limit, "seconds": seconds, "passes": model.n_passes_,
        "restarted": restarted, "spilled": on_disk, "peak": peak, "projected": projected,
    }  # fmt: skip
