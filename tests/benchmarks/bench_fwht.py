"""Time of the Walsh-Hadamard transform, as a multiple of the time of copying the same array.

Each figure is a median of at least five runs, after one run that compiles.  In the column `ratio` copies and
transforms alternate: both meet the caches as the others left them, and a change of the machine's load meets
both.  In the column `hot` each is repeated by itself, so that whatever fits the caches stays there; that
favours the copy when the array does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fastdp_dask.sketch.fwht import fwht

# (rows, columns), dtype, largest ratio wanted (None: no bar).
CASES: list[tuple[tuple[int, int], str, float | None]] = [
    ((32768, 90), "float64", 2.5),
    ((131072, 90), "float64", 2.5),
    ((4096, 1024), "float64", 2.5),
    ((32768, 90), "float32", 4.0),
    ((131072, 90), "float32", 4.0),
    ((32768, 90), "int32", 4.0),
    ((131072, 90), "int32", 4.0),
    ((131072, 90), "int64", None),
    ((8192, 4096), "float64", None),
    ((1 << 20, 1), "float64", None),
    ((1 << 20, 1), "int32", None),
    ((1 << 18, 8), "float64", None),
]


def _milliseconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    kept = run()  # freed after the clock has stopped
    elapsed = time.perf_counter() - start
    del kept
    return 1e3 * elapsed


def measure(shape: tuple[int, int], dtype: str, repeats: int) -> dict[str, Any]:
    """Medians in milliseconds of a copy, a transform into a new array and a transform in place."""
    a = np.random.default_rng(0).integers(-100, 100, size=shape).astype(dtype)
    work = np.zeros_like(a)  # zeros stay zeros: no overflow, no matter how often
    runs: dict[str, Callable[[], Any]] = {
        "copy_ms": a.copy,
        "fwht_ms": lambda: fwht(a),
        "inplace_ms": lambda: fwht(work, inplace=True),
    }
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(_milliseconds(run))
    median = {name: statistics.median(values) for name, values in times.items()}
    hot = {name: statistics.median(_milliseconds(run) for _ in range(repeats)) for name, run in runs.items()}
    return {
        "rows": shape[0],
        "columns": shape[1],
        "dtype": dtype,
        **median,
        "ratio": median["fwht_ms"] / median["copy_ms"],
        "inplace_ratio": median["inplace_ms"] / median["copy_ms"],
        "hot_ratio": hot["fwht_ms"] / hot["copy_ms"],
        "hot_inplace_ratio": hot["inplace_ms"] / hot["copy_ms"],
    }


def rows(cases: list[tuple[tuple[int, int], str, float | None]], repeats: int) -> Iterator[dict[str, Any]]:
    """All cases, each printed."""
    print(f"{'shape':>14} {'dtype':>8} {'copy ms':>8} {'fwht ms':>8} {'ratio':>6} {'in place':>8} {'bar':>5}")
    for shape, dtype, bar in cases:
        result = {**measure(shape, dtype, repeats), "bar": bar}
        print(
            f"{shape[0]}x{shape[1]}".rjust(14), f"{dtype:>8} {result['copy_ms']:8.2f} {result['fwht_ms']:8.2f}",
            f"{result['ratio']:6.2f} {result['inplace_ratio']:8.2f} {bar or '-':>5}", flush=True,
        )  # fmt: skip
        yield result
