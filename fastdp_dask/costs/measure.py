"""Finding a machine's constants: the real kernels on made-up rows, for two or three seconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import numpy as np

from fastdp_dask.blocked import capacity, kernels
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.costs.machine import DEFAULT, Machine
from fastdp_dask.data import Declaration, open_store, write_store
from fastdp_dask.linalg import gram_of, one_blas_thread
from fastdp_dask.mechanisms import spectral
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.rng import NoiseSource, standard_normals
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.sketch.srht import SRHT

_ROWS, _COLUMNS = 16384, 128
_WIDE = (256, 1024)  # columns of the two products that tell arithmetic from conversion
_ORDER = 384  # of the matrices on the driver
_MOST_THREADS = 4
_LEAST = 1e-3  # of the shipped constant: a difference of two times may come out as nothing
_FEWEST, _PATIENCE = 2, 0.25  # runs of one kind of work, and seconds for them


def measure() -> Machine:
    """The constants of this machine, each from the fastest of several runs on all cores at once.

    Two to three seconds on an idle machine; the first time on a machine the kernels are compiled before.
    """
    X = _rows(_ROWS, _COLUMNS)
    y = np.zeros((_ROWS, 1))
    scaling = _scaling(_COLUMNS)
    theta = np.full(_COLUMNS, 1e-3)
    small, large = SRHT(_ROWS, 64, seed=1), SRHT(_ROWS, 8192, seed=1)
    entries, additions = _ROWS * _COLUMNS, _ROWS * _COLUMNS * 14.0
    with one_blas_thread():
        scale = _on_all_cores(lambda: kernels.gradient_chunk(X, y, 0, scaling, theta, 1.0, 65536.0)) / entries
        few = _on_all_cores(lambda: kernels.sketch_chunk(X, y, 0, scaling, (small,), 1.0, 65536.0))
        many = _on_all_cores(lambda: kernels.sketch_chunk(X, y, 0, scaling, (large,), 1.0, 65536.0))
        sums = np.ones((64, _COLUMNS), dtype=np.int64)
        back = _on_all_cores(lambda: kernels.deviation_chunk(X, y, 0, scaling, (small,), (1.0,), sums))
        gram, convert = _gram(scale)
        constants = {
            "scale": scale,
            "transform": (few - scale * entries) / additions,
            # Picked out of the block once, added up once in the tree of sums.
            "gather": 2 * (many - few) / ((8192 - 64) * _COLUMNS),
            "adjoint": (back - scale * entries) / additions,
            "gram": gram,
            "convert": convert,
            **_driver(),
            **_scheduling(scale),
        }
    kept = {name: max(value, _LEAST * getattr(DEFAULT, name)) for name, value in constants.items()}
    return Machine(**kept, measured=True)


def _rows(count: int, columns: int) -> np.ndarray:
    return (standard_normals(1, (count, columns)) / 3).astype(np.float32)


def _scaling(columns: int) -> Scaling:
    return declare(columns, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False)


def _fastest(run: Callable[[], object]) -> float:
    """Seconds of the fastest run, after one that compiles."""
    run()
    best, spent, count = np.inf, 0.0, 0
    while count < _FEWEST or spent < _PATIENCE / 2:
        start = time.perf_counter()
        run()
        took = time.perf_counter() - start
        best, spent, count = min(best, took), spent + took, count + 1
        if spent > _PATIENCE:
            break
    return best


def _on_all_cores(run: Callable[[], object]) -> float:
    """Seconds of one run while every core does the same: cores share caches and memory."""
    threads = min(_MOST_THREADS, capacity.cores())
    with ThreadPoolExecutor(threads) as pool:
        return _fastest(lambda: list(pool.map(lambda _: run(), range(threads))))


def _gram(scale: float) -> tuple[float, float]:
    """Seconds of a product and of a conversion, from tiles of few and of many rows: rows·d²·gram + d²·convert each."""
    rows, seconds = [], []
    for columns in _WIDE:
        tile = (1 << 18) // columns
        X, y, scaling = _rows(tile, columns), np.zeros((tile, 1)), _scaling(columns)
        took = _on_all_cores(partial(kernels.gram_chunk, X, y, 0, scaling, 1.0, 65536.0, 0))
        rows.append(tile)
        seconds.append((took - scale * tile * columns) / columns**2)
    gram = max((seconds[0] - seconds[1]) / (rows[0] - rows[1]), _LEAST * DEFAULT.gram)
    return gram, seconds[1] - gram * rows[1]


def _driver() -> dict[str, float]:
    d = _ORDER
    sums = np.arange(4 * d * d, dtype=np.int64).reshape(4 * d, d) % 1021
    gram = gram_of(sums, 1.0)
    noise = NoiseSource(None).stream("made-up draws")
    tall = np.tile(sums, (16, 1))
    return {
        "product": _fastest(lambda: gram_of(tall, 1.0)) / (tall.shape[0] * d**2),
        "eigen": _fastest(lambda: spectral.singular_value_of(gram)) / d**3,
        "draw": _fastest(lambda: wishart(2 * d, gram, noise)) / d**3,
    }


def _scheduling(scale: float) -> dict[str, float]:
    """Reading a store from the page cache, a chunk, and a pass."""
    columns, count, rows = 32, 128, 16
    scaling = _scaling(columns)
    theta = np.zeros(columns)

    def a_pass(X: da.Array, y: da.Array) -> float:
        blocked = BlockedRows(X, y, scaling)
        return _fastest(lambda: blocked.gradient(theta, 1.0))

    small = _rows(rows * count, columns)
    with dask.config.set(scheduler="threads"), tempfile.TemporaryDirectory(prefix="fastdp-measure-") as folder:
        one = a_pass(da.from_array(small, chunks=(rows * count, columns)), da.zeros(rows * count, chunks=-1))
        all_of_them = a_pass(da.from_array(small, chunks=(rows, columns)), da.zeros(rows * count, chunks=rows))
        threads = capacity.found().threads
        store = open_store(_store(Path(folder) / "store", columns))
        read = _fastest(lambda: dask.compute(store.X.map_blocks(_nothing_of, dtype=np.float32, chunks=(1, 1))))
        nbytes, blocks = store.X.nbytes, store.X.numblocks[0]
    start = one
    task = max(0.0, all_of_them - one) / count * threads
    return {"start": start, "task": task, "read": max(0.0, read - start - blocks * task / threads) * threads / nbytes}


def _nothing_of(block: np.ndarray) -> np.ndarray:
    return np.zeros((1, 1), dtype=block.dtype)


def _store(path: Path, columns: int) -> Path:
    rows, chunks = 16384, 8

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(chunks):
            yield _rows(rows, columns), np.zeros(rows)

    interval = (-1.0, 1.0)
    declaration = Declaration([f"x{j}" for j in range(columns)], [interval] * columns, [], "y", interval)
    write_store(path, blocks(), declaration, rows * chunks, chunk_rows=rows)
    return path
