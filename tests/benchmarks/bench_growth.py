"""How the time of a fit grows with rows, columns, sketch size, chunks and workers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_passes import fit, make_store, pass_runs
from bench_timing import table
from distributed import Client, LocalCluster


def exponents(
    folder: Path, n: int, d: int, k2: int, chunk_rows: int, repeats: int, factors: dict[str, tuple[int, ...]]
) -> Iterator[dict[str, Any]]:
    """Time against one size at a time, and the slope of its logarithm: 1 is proportional.

    `factors`: by how much each of n, d, k2 and chunk_rows is multiplied.
    """
    for name, steps in factors.items():
        sizes, found = [], []
        for step in steps:
            facts = {"n": n, "d": d, "k2": k2, "chunk_rows": chunk_rows}
            facts[name] *= step
            store = make_store(folder / f"{name}{step}", facts["n"], facts["d"], facts["chunk_rows"])
            runs = {**pass_runs(store, facts["k2"]), "fit": lambda s=store, k=facts["k2"]: fit(s.X, s.y, k)}
            found.append(table(f"growth in {name}", facts, runs, repeats))
            sizes.append(facts[name])
        slopes = {
            run: float(np.polyfit(np.log(sizes), [math.log(one["seconds"][run]) for one in found], 1)[0])
            for run in found[0]["seconds"]
        }
        longer = found[-1]["seconds"]["fit"] / found[0]["seconds"]["fit"]
        print(f"exponents in {name}: " + ", ".join(f"{run} {slope:.2f}" for run, slope in slopes.items()))
        print(f"{sizes[-1] / sizes[0]:g} times {name}: {longer:.1f} times the time of a fit")
        yield {"title": f"growth in {name}", "sizes": sizes, "exponents": slopes, "fit_ratio": longer, "tables": found}


def workers(folder: Path, n: int, d: int, k2: int, chunk_rows: int, repeats: int) -> dict[str, Any]:
    """A fit on one and on two worker processes of one thread; its rows are so many that work on them dominates."""
    store = make_store(folder / "workers", n, d, chunk_rows)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    options = {"threads_per_worker": 1, "processes": True, "memory_limit": 0, "dashboard_address": ":0"}
    for count, times in seconds.items():
        with LocalCluster(n_workers=count, **options) as cluster, Client(cluster):
            for number in range(repeats + 1):
                start = time.perf_counter()
                fit(store.X, store.y, k2)
                if number:
                    times.append(time.perf_counter() - start)
    one, two = (float(np.median(times)) for times in seconds.values())
    print(f"\nworkers: one {one:.3f} s, two {two:.3f} s, {one / two:.2f} times as fast (bar 1.7)")
    facts = {"n": n, "d": d, "k2": k2, "chunk_rows": chunk_rows}
    return {"title": "workers", "facts": facts, "seconds": {"1": one, "2": two}, "speedup": one / two, "bar": 1.7}
