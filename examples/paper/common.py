"""What the figures share: results as CSV with their circumstances, data, seeded runs, a quiet way to draw."""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numba
import numpy as np
import scipy

from fastdp_dask import PrivacyLeakWarning, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.linalg import one_blas_thread
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.solvers import dispatch, gradient_descent, ihm_paper
from fastdp_dask.solvers.base import Plan

_CHUNK = 32768


@dataclass(frozen=True)
class DataSet:
    """Raw data, its declaration, and least squares of the scaled problem."""

    X: np.ndarray
    y: np.ndarray
    scaling: Scaling
    gram: np.ndarray
    best: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """n and d."""
        return self.X.shape[0], self.X.shape[1]

    def rows(self) -> BlockedRows:
        """The data as solvers see it."""
        chunks = (min(self.X.shape[0], _CHUNK), self.X.shape[1])
        return BlockedRows(da.from_array(self.X, chunks=chunks), da.from_array(self.y, chunks=chunks[0]), self.scaling)

    def excess(self, theta: np.ndarray) -> float:
        """Mean squared error of θ beyond that of least squares, scaled numbers."""
        away = theta - self.best
        return float(away @ self.gram @ away) / self.X.shape[0]


def sphere(n: int, d: int) -> DataSet:
    """Rows uniform on the unit sphere; y = Xθ + noise of variance 0.1, θ ~ N(0, I/d); y over its largest |y|."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ (generator.standard_normal(d) / np.sqrt(d)) + generator.normal(0, np.sqrt(0.1), n)
    y /= np.abs(y).max()
    scaling = declare(d, data_norm=1.0, bounds_y=(-1, 1), fit_intercept=False)
    grid, target = scaling.rows(X, y)
    scaled = grid / GRID
    return DataSet(X, y, scaling, scaled.T @ scaled, np.linalg.lstsq(scaled, target, rcond=None)[0])


def fit(data: DataSet, plan: Plan, seed: int, *, dense: bool = False) -> tuple[float, float]:
    """Excess risk and seconds of one seeded fit; `dense`: IHM by multiplying with Gaussian matrices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        noise = rng.NoiseSource(seed)
    rows, log = data.rows(), ReleaseLog()
    start = time.perf_counter()
    if dense:
        assert isinstance(plan, ihm_paper.IHMPlan)
        with one_blas_thread():
            found = ihm_paper.solve_dense(rows, plan, noise=noise, releases=log)
    elif isinstance(plan, gradient_descent.GradientDescentPlan):
        found = gradient_descent.solve(rows, plan, public_seed=seed, noise=noise, releases=log)
    else:
        found = dispatch.solve(rows, plan, public_seed=seed, noise=noise, releases=log)
    seconds = time.perf_counter() - start
    return data.excess(found.theta), seconds


def medians(data: DataSet, plan: Plan, runs: int, *, dense: bool = False) -> tuple[float, float]:
    """Median excess risk and seconds over seeds 0 … runs − 1."""
    found = np.array([fit(data, plan, seed, dense=dense) for seed in range(runs)])
    return float(np.median(found[:, 0])), float(np.median(found[:, 1]))


def plan_of(solver: str, preset: str, shape: tuple[int, int], epsilon: float, **options: Any) -> Plan:
    """The plan of a solver at δ = 1/n²."""
    n, d = shape
    request = dispatch.check_request(epsilon=epsilon, delta=1.0 / n**2, solver=solver, preset=preset, **options)
    return dispatch.make_plan(request, n, d)


def facts(start: float, **more: object) -> dict[str, object]:
    """Machine, versions and seconds since `start`."""
    versions = {module.__name__: module.__version__ for module in (np, scipy, numba, dask)}
    return {
        **more,
        "seconds": round(time.perf_counter() - start),
        "machine": f"{platform.machine()}, {platform.system()}, shared",
        "python": platform.python_version(),
        **versions,
    }


def write(
    out: Path, name: str, header: Sequence[str], rows: Iterable[Sequence[object]], about: dict[str, object]
) -> None:
    """`name`.csv with a first comment line that says where the numbers come from."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{name}.csv").open("w", newline="") as stream:
        stream.write("# " + json.dumps(about) + "\n")
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(header)
        lines.writerows([[f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows])


def draw(out: Path, name: str, panels: Sequence[Callable[[Any], None]]) -> None:
    """`name`.png: one axis for each panel, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(5.6 * len(panels), 4.4), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        panel(axis)
        axis.grid(alpha=0.3)
        labels = len(axis.get_legend_handles_labels()[1])
        if labels > 8:
            axis.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.01, 1.0))
        elif labels:
            axis.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(out / f"{name}.png", dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def options(description: str, arguments: Sequence[str] | None, quick: str) -> argparse.Namespace:
    """--quick, --runs and --out."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args(arguments)


def note(*words: object) -> None:
    """A line of progress on stderr."""
    print(*words, file=sys.stderr, flush=True)
