"""Finding a machine's constants: the real kernels on made-up rows, for two or three seconds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import dask.array as da
import numpy as np

from fastdp_dask.blocked import capacity, kernels
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.costs.machine import DEFAULT, Machine
from fastdp_dask.costs.passes import additions_of
from fastdp_dask.data import Declaration, open_store, write_store
from fastdp_dask.linalg import gram_of, one_blas_thread
from fastdp_dask.mechanisms import spectral
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.rng import NoiseSource, standard_normals
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.sketch.srht import SRHT

_ROWS, _COLUMNS = 16384, 512  # 32 MiB: as in a pass, no cache holds a block
_FEW, _MANY = 64, 8192  # rows of a sketch
_WIDE = (256, 1024)  # columns of the two products that tell arithmetic from conversion
_ORDER = 384  # of the matrices on the driver
_MOST_THREADS = 4
_LEAST = 1e-3  # of the shipped constant: a difference of two times may come out as nothing
_FEWEST, _MOST, _PATIENCE = 2, 8, 0.1  # runs of one kind of work, and seconds after which no other begins
_TILE = 1 << 18


def measure() -> Machine:
    """The constants of this machine, each from the fastest of several runs, on all cores at once where passes are.

    Two to three seconds on an idle machine; the first time on a machine the kernels are compiled before.
    """
    X = _rows(_ROWS, _COLUMNS)
    y = np.zeros((_ROWS, 1))
    scaling = _scaling(_COLUMNS)
    theta = np.full(_COLUMNS, 1e-3)
    small, large = SRHT(_ROWS, _FEW, seed=1), SRHT(_ROWS, _MANY, seed=1)
    entries = _ROWS * _COLUMNS
    with one_blas_thread():
        scale = _on_all_cores(lambda: kernels.gradient_chunk(X, y, 0, scaling, theta, 1.0, 65536.0)) / entries
        few = _on_all_cores(lambda: kernels.sketch_chunk(X, y, 0, scaling, (small,), 1.0, 65536.0))
        many = _on_all_cores(lambda: kernels.sketch_chunk(X, y, 0, scaling, (large,), 1.0, 65536.0))
        sums = np.ones((_FEW, _COLUMNS), dtype=np.int64)
        back = _on_all_cores(lambda: kernels.deviation_chunk(X, y, 0, scaling, (small,), (1.0,), sums))
        gram, convert = _gram(scale)
        transform, gather = _sketch(few - scale * entries, many - scale * entries, scaling)
        constants = {
            "row": _row(scale),
            "scale": scale,
            "transform": transform,
            "gather": gather,
            "adjoint": (back - scale * entries) / additions_of(_ROWS, _ROWS, 1, _FEW)[0] / _COLUMNS,
            "gram": gram,
            "convert": convert,
            **_driver(),
            **_scheduling(),
        }
    kept = {name: max(value, _LEAST * getattr(DEFAULT, name)) for name, value in constants.items()}
    return Machine(**kept, measured=True)


def _rows(count: int, columns: int) -> np.ndarray:
    few = min(count, 1024)
    made = (standard_normals(1, (few, columns)) / 3).astype(np.float32)
    return np.tile(made, (-(-count // few), 1))[:count]


def _scaling(columns: int) -> Scaling:
    return declare(columns, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False)


def _fastest(run: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> float:
    """Least seconds on the clock of several runs, after one that compiles.

    The clocks are those of the processor, not of the wall: other programs on the machine count for nothing.
    """
    run()
    best, count, end = np.inf, 0, time.perf_counter() + _PATIENCE
    while count < _FEWEST or (count < _MOST and time.perf_counter() < end):
        start = clock()
        run()
        best, count = min(best, clock() - start), count + 1
    return best


def _on_all_cores(run: Callable[[], object]) -> float:
    """Seconds of one run while every core does the same: cores share caches and memory."""
    threads = min(_MOST_THREADS, capacity.cores())
    with ThreadPoolExecutor(threads) as pool:
        return max(pool.map(lambda _: _fastest(run), range(threads)))


def _row(scale: float) -> float:
    """Seconds of a row beside those of its entries, from rows of few of them."""
    rows, columns = 8192, 4
    X, y, scaling = _rows(rows, columns), np.zeros((rows, 1)), _scaling(columns)
    theta = np.full(columns, 1e-3)
    took = _on_all_cores(lambda: kernels.gradient_chunk(X, y, 0, scaling, theta, 1.0, 65536.0))
    return took / rows - columns * scale


def _sketch(few: float, many: float, scaling: Scaling) -> tuple[float, float]:
    """Seconds of an addition and of a number gathered, from two sketches that differ in their rows."""
    counts = [additions_of(_ROWS, _ROWS, scaling.largest_entry, size) for size in (_FEW, _MANY)]
    matrix = np.array(
        [[additions, blocks * size] for (additions, blocks), size in zip(counts, (_FEW, _MANY), strict=True)]
    )
    transform, gather = np.linalg.solve(matrix * float(_COLUMNS), np.array([few, many]))
    return float(transform), 2 * float(gather)  # picked out of a block once, added up once in the tree of sums


def _gram(scale: float) -> tuple[float, float]:
    """Seconds of a product of XᵀX, from a tile of few columns, and of a conversion, from one of many."""
    few, many = _WIDE
    rows = _rows(_TILE // few, few).astype(np.float64)
    gram = _on_all_cores(lambda: rows.T @ rows) / (rows.shape[0] * few**2)
    tile = _TILE // many
    X, y, scaling = _rows(tile, many), np.zeros((tile, 1)), _scaling(many)
    took = _on_all_cores(lambda: kernels.gram_chunk(X, y, 0, scaling, 1.0, 65536.0, 0))
    return gram, (took - scale * tile * many) / many**2 - tile * gram


def _driver() -> dict[str, float]:
    d = _ORDER
    sums = np.arange(4 * d * d, dtype=np.int64).reshape(4 * d, d) % 1021
    gram = gram_of(sums, 1.0)
    noise = NoiseSource(None).stream("made-up draws")
    tall = np.tile(sums, (16, 1))
    return {
        # Shared by all cores.
        "product": _fastest(lambda: gram_of(tall, 1.0), time.process_time) / (tall.shape[0] * d**2 * capacity.cores()),
        "eigen": _fastest(lambda: spectral.singular_value_of(gram)) / d**3,
        "draw": _fastest(lambda: wishart(2 * d, gram, noise)) / d**3,
        "number": _fastest(lambda: noise.discrete_gaussian(1 << 20, 512)) / 512,
    }


def _scheduling() -> dict[str, float]:
    """Reading a store from the page cache, a chunk, and a pass."""
    columns, count, rows = 32, 128, 16
    scaling = _scaling(columns)
    theta = np.zeros(columns)

    def a_pass(X: da.Array, y: da.Array) -> float:
        blocked = BlockedRows(X, y, scaling)
        return _fastest(lambda: blocked.gradient(theta, 1.0), time.process_time)

    small = _rows(rows * count, columns)
    with dask.config.set(scheduler="threads"), tempfile.TemporaryDirectory(prefix="fastdp-measure-") as folder:
        one = a_pass(da.from_array(small, chunks=(rows * count, columns)), da.zeros(rows * count, chunks=-1))
        all_of_them = a_pass(da.from_array(small, chunks=(rows, columns)), da.zeros(rows * count, chunks=rows))
        store = open_store(_store(Path(folder) / "store", columns))
        asked = store.X.map_blocks(_nothing_of, dtype=np.float32, chunks=(1, 1))
        read = _fastest(lambda: dask.compute(asked), time.process_time)
        nbytes, blocks = store.X.nbytes, store.X.numblocks[0]
    task = max(0.0, all_of_them - one) / count
    return {"start": one, "task": task, "read": max(0.0, read - one - blocks * task) / nbytes}


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
