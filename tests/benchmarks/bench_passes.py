"""Time of each pass and of a whole fit, as multiples of the time of summing X on the same store.

    python tests/benchmarks/bench_passes.py [RESULTS.json] [--quick]

Data are written with `write_store` (65,536 rows to a chunk, LZ4), read from the page cache and computed on two
threads.  The runs of one table take turns, so that a change of the machine's load meets all of them; each figure is a
median, after one run that compiles.  `--quick` is a thousandth of the size: it shows that the script works.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numba
import numpy as np

from fastdp_dask import SRHT, LinearRegression, PrivacyLeakWarning
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.data import Declaration, open_store, write_store
from fastdp_dask.linalg import one_blas_thread
from fastdp_dask.rows.scaling import declare

BOUND = 3.0
# Largest multiple of the sum's time that is wanted, at 4,194,304 x 64 float32 and k2 = 32,768.
BARS = {"sketch": 1.5, "deviation": 1.6, "gradient": 1.15, "fit": 5.5}
Runs = dict[str, Callable[[], Any]]


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


def fit(X: Any, y: Any, k2: int, n_iter: int = 3) -> LinearRegression:
    """A FastIHM fit whose sketch is drawn after the data: no pass for the deviation."""
    model = LinearRegression(
        epsilon=1.0, delta=1.0 / X.shape[0] ** 2, bounds_X=(-BOUND, BOUND), bounds_y=(-BOUND, BOUND), solver="fastihm",
        n_iter=n_iter, k2=k2, coherence="public",
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

    return {
        "sum": lambda: store.X.sum(axis=0).compute(),
        "sketch": sketch_pass,
        "deviation": lambda: rows.deviation([sketch], sums[0]),
        "gradient": lambda: rows.gradient(theta, 1.0),
        "gram": lambda: rows.gram(1.0),
    }


def in_turns(runs: Runs, repeats: int) -> dict[str, float]:
    """Median seconds of each run; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def table(
    title: str, facts: dict[str, Any], runs: Runs, repeats: int, unit: str = "sum", bars: bool = False
) -> dict[str, Any]:
    """Measure, print one line for each run, and return what is to be written."""
    seconds = in_turns(runs, repeats)
    print(f"\n{title}: " + ", ".join(f"{name} = {value:,}" for name, value in facts.items()))
    for name, value in seconds.items():
        bar = BARS.get(name) if bars else None
        print(f"{name:>16} {value:9.4f} s {value / seconds[unit]:8.2f} x {unit}" + (f"  (bar {bar})" if bar else ""))
    ratios = {name: value / seconds[unit] for name, value in seconds.items()}
    return {"title": title, **facts, "seconds": seconds, "unit": unit, "ratios": ratios}


def growth(folder: Path, n: int, d: int, k2: int, chunk_rows: int, repeats: int) -> Iterator[dict[str, Any]]:
    """The passes, and then with one of n, d, k2 and the chunk halved or quartered at a time."""
    base = {"n": n, "d": d, "k2": k2, "chunk_rows": chunk_rows}
    changes = [{}, {"n": n // 4}, {"d": d // 2}, {"k2": k2 // 4}, {"chunk_rows": chunk_rows // 4}]
    for number, change in enumerate(changes):
        facts = {**base, **change}
        store = make_store(folder / f"growth{number}", facts["n"], facts["d"], facts["chunk_rows"])
        runs = {**pass_runs(store, facts["k2"]), "fit": lambda s=store, k=facts["k2"]: fit(s.X, s.y, k)}
        yield table(f"growth in {next(iter(change), 'nothing')}", facts, runs, repeats)


def run(folder: Path, quick: bool, repeats: int) -> list[dict[str, Any]]:
    """All tables."""
    n, d, k2, chunk_rows = (4096, 8, 256, 1024) if quick else (4_194_304, 64, 32_768, 65_536)
    facts = {"n": n, "d": d, "k2": k2, "chunk_rows": chunk_rows}
    store = make_store(folder / "store", n, d, chunk_rows)
    X, y = store.X, store.y
    results = [
        table("passes", facts, pass_runs(store, k2), repeats, bars=True),
        table("whole fit, T = 3", facts, {
            "sum": lambda: X.sum(axis=0).compute(),
            "fit": lambda: fit(X, y, k2),
            "gram solve": lambda: gram_solve(X, y),
            "lstsq": lambda: lstsq(X, y),
        }, repeats, bars=True),
    ]  # fmt: skip
    n, d, k2 = (2048, 8, 256) if quick else (131_072, 32, 4096)
    generator = np.random.default_rng(2)
    memory_X = generator.uniform(-1, 1, (n, d))
    memory_y = generator.uniform(-1, 1, n)
    runs: Runs = {
        "fit": lambda: fit(memory_X, memory_y, k2),
        "NumPy lstsq": lambda: np.linalg.lstsq(memory_X, memory_y, rcond=None),
    }
    results.append(table("in memory, T = 3", {"n": n, "d": d, "k2": k2}, runs, repeats, unit="NumPy lstsq"))
    results += growth(folder, facts["n"] // 4, facts["d"], facts["k2"], facts["chunk_rows"], repeats)
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", nargs="?", type=Path, help="also write the figures to this file")
    parser.add_argument("--repeats", type=int, default=5, help="runs per figure (default 5)")
    parser.add_argument("--quick", action="store_true", help="small data, two runs")
    options = parser.parse_args(arguments)
    repeats = 2 if options.quick else options.repeats
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(scheduler="threads", num_workers=2),
        one_blas_thread(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        results = run(Path(folder), options.quick, repeats)
    if options.json is not None:
        machine = {
            "processor": numba.config.CPU_NAME or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "dask": dask.__version__,
        }
        options.json.write_text(
            json.dumps({"machine": machine, "repeats": repeats, "results": results}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
