"""How far the planner's predictions are from what is measured, and what its choices cost.

    python tests/benchmarks/bench_planner.py {speed,grid,risk} [RESULTS.json] [--quick] [--csv FILE] [--folder DIR]

speed: a sketch pass with what follows it on the driver (ZᵀZ, its smallest singular value, a Wishart draw) against the
pass for XᵀX, at 2^18 x 1,024 and 2^17 x 4,096, k2 = 16,384; float32, Zarr without compression, two threads.
grid: every solver on twelve shapes: the one that was picked against the fastest of those whose predicted risk is
within 1.2 of the least, and predicted against measured seconds, both of the processor.
risk: predicted against measured excess risk, medians over seeds, on data that nothing was tuned on.

The runs of a table take turns, so that a change of the machine's load meets all of them.  `cpu` are seconds of all
threads, which a shared machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr

from fastdp_dask import SRHT, PrivacyLeakWarning, plan, planning, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.costs import cache, choice
from fastdp_dask.costs.measure import measure
from fastdp_dask.linalg import gram_of, one_blas_thread
from fastdp_dask.mechanisms import spectral
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan

_SOLVERS = ("ihm", "fastihm", "adassp", "linear_mixing", "fast_linear_mixing")
_THREADS = 2
Result = dict[str, Any]


# -- speed ---------------------------------------------------------------------------------------------------


def on_disk(folder: Path, n: int, d: int, chunk_rows: int) -> da.Array:
    """Standard normal float32 numbers in a Zarr array without compression."""
    path = folder / f"{n}x{d}.zarr"
    shutil.rmtree(path, ignore_errors=True)
    array = zarr.create_array(str(path), shape=(n, d), chunks=(chunk_rows, d), dtype="f4", compressors=None)
    generator = np.random.default_rng(0)
    for start in range(0, n, chunk_rows):
        array[start : start + chunk_rows] = generator.standard_normal((chunk_rows, d), dtype=np.float32)
    return da.from_zarr(str(path))


def clock(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a run gives, its seconds, and those of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    return found, time.perf_counter() - wall, time.process_time() - cpu


def speed(folder: Path, quick: bool, repeats: int) -> list[Result]:
    """Both routes to a released Hessian, up to the Wishart draw of the sketched one."""
    shapes = [(1 << 12, 32, 512, 3.0)] if quick else [(1 << 18, 1024, 16384, 3.0), (1 << 17, 4096, 16384, 6.0)]
    results = []
    noise = rng.NoiseSource(None).stream("benchmark")
    for n, d, k2, bar in shapes:
        X = on_disk(folder, n, d, min(n, 16384))
        y = da.zeros(n, chunks=(X.chunks[0],))
        rows = BlockedRows(X, y, declare(d, bounds_X=(-3, 3), bounds_y=(-3, 3), fit_intercept=False))
        sketch = SRHT(n, k2, seed=1)

        def sketched(rows: BlockedRows = rows, sketch: SRHT = sketch, d: int = d, k2: int = k2) -> None:
            (sums,), _ = rows.sketch([sketch], 1.0)
            gram = gram_of(sums, GRID * math.sqrt(k2))
            spectral.singular_value_of(gram)
            wishart(16 * d, gram + np.eye(d), noise)

        times: dict[str, list[tuple[float, float]]] = {"sketch": [], "gram": []}
        for _ in range(repeats):
            for name, run in (("sketch", sketched), ("gram", lambda rows=rows: rows.gram(1.0))):
                times[name].append(clock(run)[1:])
        best = {name: min(values) for name, values in times.items()}
        cpu = {name: min(value[1] for value in values) for name, values in times.items()}
        result = {
            "n": n, "d": d, "k2": k2, "bar": bar, "runs": times,
            "ratio": best["gram"][0] / best["sketch"][0], "cpu_ratio": cpu["gram"] / cpu["sketch"],
        }  # fmt: skip
        print(
            f"{n:,} x {d:,}, k2 = {k2:,}: sketch and driver {best['sketch'][0]:.1f} s (cpu {cpu['sketch']:.1f}), "
            f"XᵀX {best['gram'][0]:.1f} s (cpu {cpu['gram']:.1f}): x {result['ratio']:.1f} "
            f"(cpu x {result['cpu_ratio']:.1f}), bar {bar:g}",
            flush=True,
        )
        results.append(result)
        shutil.rmtree(folder / f"{n}x{d}.zarr")
    return results


# -- grid ----------------------------------------------------------------------------------------------------


def grid(folder: Path, quick: bool, repeats: int) -> list[Result]:
    """The choice, and the predicted seconds of every solver, on twelve shapes."""
    shapes = [(2048, 4)] if quick else [
        (1 << 12, 4), (1 << 12, 64), (1 << 14, 16), (1 << 14, 256), (1 << 16, 4), (1 << 16, 16), (1 << 16, 64),
        (1 << 16, 512), (1 << 18, 16), (1 << 18, 64), (1 << 20, 8), (1 << 20, 32),
    ]  # fmt: skip
    machine = cache.load()
    results = []
    for number, (n, d) in enumerate(shapes):
        epsilon = (0.3, 1.0, 5.0)[number % 3]
        if number == 0 and not quick:
            machine = measure()
        X = on_disk(folder, n, d, min(n, 32768))
        y = da.zeros(n, chunks=(X.chunks[0],))
        scaling = declare(d, bounds_X=(-3, 3), bounds_y=(-3, 3), fit_intercept=False)
        made = plan(
            n, d, epsilon=epsilon, delta=1 / n**2, fit_intercept=False, chunk_rows=X.chunks[0], threads=_THREADS,
            workers=1, machine=machine,
        )  # fmt: skip
        least = min(forecast.risk for forecast in made.forecasts)
        near = [choice.name(f) for f in made.forecasts if f.risk <= choice.NEAR * least]
        plans = {choice.name(f): planned(n, d, epsilon, f.solver, f.k2) for f in made.forecasts}
        seconds, cpu = in_turns({name: run_of(X, y, scaling, chosen) for name, chosen in plans.items()}, repeats)
        picked = choice.name(made.forecasts[0])
        over = cpu[picked] / min(cpu[name] for name in near)
        alone = choice.Layout(X.chunks[0], d)  # one thread: all its seconds are those of the processor
        predicted = {name: choice.forecast(chosen, alone, machine).seconds for name, chosen in plans.items()}
        factors = {name: predicted[name] / cpu[name] for name in plans}
        print(
            f"{n:>9,} x {d:<4} epsilon {epsilon:g}: {picked} x {over:.2f} of the fastest of {len(near)}; cpu: "
            + ", ".join(f"{name} {cpu[name]:.3f} s x {factors[name]:.2f}" for name in plans),
            flush=True,
        )
        results.append({
            "n": n, "d": d, "epsilon": epsilon, "picked": picked, "over": over, "near": near, "seconds": seconds,
            "cpu": cpu, "predicted_cpu": predicted,
        })  # fmt: skip
        shutil.rmtree(folder / f"{n}x{d}.zarr")
    return results


def planned(n: int, d: int, epsilon: float, solver: str, k2: int) -> Plan:
    """The plan of one solver."""
    size = k2 if k2 and solver.startswith("fast") else None
    return dispatch.make_plan(dispatch.check_request(epsilon=epsilon, delta=1 / n**2, solver=solver, k2=size), n, d)


def run_of(X: da.Array, y: da.Array, scaling: Scaling, made: Plan) -> Callable[[], Any]:
    """A whole fit after its plan."""
    return lambda: dispatch.solve(
        BlockedRows(X, y, scaling), made, public_seed=1, noise=rng.NoiseSource(None), releases=ReleaseLog()
    )


def in_turns(runs: dict[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds, and those of all threads, of the fastest of several runs each, in turns, after one that compiles."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            found = clock(run)[1:]
            if number:
                times[name].append(found)
    wall, cpu = ({name: min(value[i] for value in values) for name, values in times.items()} for i in (0, 1))
    return wall, cpu


# -- risk ----------------------------------------------------------------------------------------------------


def data_sets(quick: bool, csv: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray, Scaling, planning.Guess]]:
    """Name, X, y, bounds, and what is publicly known of the data: how long rows are, and whether columns are alike."""
    generator = np.random.default_rng(5)
    n, d = (2048, 8) if quick else (65536, 24)
    theta = generator.standard_normal(d) / np.sqrt(d)

    def target(X: np.ndarray) -> np.ndarray:
        y = X @ theta + np.sqrt(0.1) * generator.standard_normal(len(X)) * np.std(X @ theta) * 3
        return np.asarray(y / np.abs(y).max())

    alike = (1.0,) * d
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    normed = declare(d, data_norm=1.0, bounds_y=(-1, 1), fit_intercept=False)
    yield "sphere", X, target(X), normed, planning.Guess(row_energy=1.0, spectrum=alike)
    X = generator.uniform(-1, 1, (n, d))
    boxed = declare(d, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    yield "uniform", X, target(X), boxed, planning.Guess(row_energy=1 / 3, spectrum=alike)
    root = np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))
    shape = tuple(np.linalg.svd(root, compute_uv=False) ** 2)
    X = generator.standard_normal((n, d)) @ root.T
    X /= np.linalg.norm(X, axis=1).max()
    yield "correlated", X, target(X), normed, planning.Guess(spectrum=shape, tilt=0.0)
    X = np.eye(d)[generator.integers(0, d, n)]
    grouped = declare(d, bounds_X=(0, 1), groups=[list(range(d))], bounds_y=(-1, 1), fit_intercept=False)
    yield "one-hot", X, target(X), grouped, planning.Guess(row_energy=1.0, spectrum=alike)
    if csv is not None:
        table = np.genfromtxt(csv, delimiter=",", skip_header=1)[:, :9]  # the tenth is text
        table = table[np.isfinite(table).all(axis=1)]
        X, y = table[:, :8], table[:, 8]
        ends = (X.min(axis=0), X.max(axis=0))
        bounds = declare(8, bounds_X=ends, bounds_y=(y.min(), y.max()))
        # Bounds are extremes: columns fill little of them, and the intercept is the one strong direction.
        yield csv.stem, X, y, bounds, planning.Guess(spectrum=(1.0, *np.geomspace(1e-2, 1e-4, 8)))


def risk(quick: bool, repeats: int, csv: Path | None) -> list[Result]:
    """Predicted over measured risk: mean of the guesses, the nearest of them, with public facts, and with moments."""
    results = []
    for title, X, y, scaling, known in data_sets(quick, csv):
        n, d = X.shape[0], scaling.n_columns
        rows, target = scaling.rows(X, y)
        scaled = rows / GRID
        gram, best = scaled.T @ scaled, np.linalg.lstsq(scaled, target, rcond=None)[0]
        # Not private: what is left then is the error of the formulas.
        fitted = scaled @ best
        moments = replace(
            known, row_energy=float(np.trace(gram)) / n, signal=float(np.mean(fitted**2)),
            residual=float(np.mean((target - fitted) ** 2)), spectrum=tuple(np.linalg.eigvalsh(gram)),
        )  # fmt: skip
        for epsilon in (1.0,) if quick else (0.3, 1.0, 5.0):
            for solver in _SOLVERS:
                request = dispatch.check_request(epsilon=epsilon, delta=1 / n**2, solver=solver)
                made = dispatch.make_plan(request, n, d)
                lies = choice.Layout((n,), d)
                told = choice.forecast(made, lies, cache.load())
                informed = choice.forecast(made, lies, cache.load(), known)
                exact = choice.forecast(made, lies, cache.load(), moments)
                found = []
                for seed in range(repeats):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", PrivacyLeakWarning)
                        noise = rng.NoiseSource(seed)
                    blocks = BlockedRows(da.from_array(X, chunks=(16384, -1)), da.from_array(y, chunks=16384), scaling)
                    out = dispatch.solve(blocks, made, public_seed=seed, noise=noise, releases=ReleaseLog())
                    away = out.theta - best
                    found.append(float(away @ gram @ away) / n)
                measured = statistics.median(found)
                within = min(max(told.risks), max(min(told.risks), measured))
                results.append({
                    "set": title, "n": n, "d": d, "epsilon": epsilon, "solver": solver, "measured": measured,
                    "mean_of_guesses": told.risk / measured, "range_of_guesses": within / measured,
                    "with_public_facts": informed.risk / measured, "with_moments": exact.risk / measured,
                })  # fmt: skip
                print(
                    f"{title:>10} epsilon {epsilon:<4g} {solver:<19} measured {measured:8.2e}, predicted x "
                    f"{told.risk / measured:6.2f}, range x {within / measured:5.2f}, with public facts x "
                    f"{informed.risk / measured:6.2f}, with moments x {exact.risk / measured:5.2f}",
                    flush=True,
                )
    return results


def main(arguments: list[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=["speed", "grid", "risk"])
    parser.add_argument("json", nargs="?", type=Path, help="also write the figures to this file")
    parser.add_argument("--repeats", type=int, default=3, help="runs per figure (default 3)")
    parser.add_argument("--quick", action="store_true", help="small data, two runs")
    parser.add_argument("--csv", type=Path, help="one more set for the risk: numbers, the ninth column the target")
    parser.add_argument("--folder", type=Path, help="where the data is written (default: a temporary folder)")
    options = parser.parse_args(arguments)
    repeats = 2 if options.quick else options.repeats
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        dask.config.set(scheduler="threads", num_workers=_THREADS),
        one_blas_thread(),
    ):
        if options.table == "risk":
            results = risk(options.quick, repeats, options.csv)
        else:
            results = {"speed": speed, "grid": grid}[options.table](Path(folder), options.quick, repeats)
    if options.json is not None:
        document = {"table": options.table, "machine": cache.load().to_dict(), "results": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
