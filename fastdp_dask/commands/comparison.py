"""The fits that the demo compares, each timed and judged on held-out records."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask import LinearRegression
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.progress import PassReport
from fastdp_dask.commands.workers import peak_memory, reset_peak_memory
from fastdp_dask.data import Store
from fastdp_dask.rows.scaling import declare
from fastdp_dask.solvers.base import Plan


@dataclass(frozen=True)
class Fit:
    """One private fit of the comparison."""

    label: str
    short: str
    solver: str
    preset: str


_OLS = Fit("OLS, not private", "OLS", "", "")
FITS = (
    Fit("FastIHM (paper)", "paper", "fastihm", "paper"),
    Fit("FastIHM (tight)", "tight", "fastihm", "tight"),
    Fit("IHM by Gram (tight)", "Gram", "ihm", "tight"),
)


@dataclass(frozen=True)
class Held:
    """Held-out records without a missing value, as they are: not clipped."""

    X: np.ndarray
    y: np.ndarray

    def rmse(self, predicted: Any) -> float:
        """Root of the mean squared error, in units of y."""
        return float(np.sqrt(np.mean((self.y - predicted) ** 2)))


@dataclass(frozen=True)
class Result:
    """One row of the comparison.

    `plan` is None where nothing is private.  `peak` is the largest resident size in bytes that a worker
    process had during the fit, what it held before included.
    """

    label: str
    short: str
    plan: Plan | None
    coef: np.ndarray
    intercept: float
    rmse: float
    r2: float
    passes: int
    seconds: float
    peak: int


def read_complete(store: Store) -> Held:
    """The records of a store that have every value."""
    X, y = (np.asarray(part.compute(), dtype=np.float64) for part in (store.X, store.y))
    whole = np.isfinite(X).all(axis=1) & np.isfinite(y)
    return Held(X[whole], y[whole])


def without_privacy(store: Store, held: Held, client: Any) -> Result:
    """Ordinary least squares from XᵀX and Xᵀy of the scaled, clipped rows: one pass, exact, **not private**.

    Indicators of a category add up to the intercept, so that the solution of least norm is taken.
    """
    scaling = declare(store.declaration.n_features, **store.declaration.estimator_arguments())
    rows = BlockedRows(store.X, store.y, scaling, PassReport())
    client.run(reset_peak_memory)
    began = time.perf_counter()
    gram, moment = rows.gram(clip=1.0)  # |y| ≤ 1 after scaling: nothing is clipped
    theta = np.linalg.lstsq(gram, moment, rcond=1e-10)[0]
    seconds = time.perf_counter() - began
    coef, intercept = scaling.to_user(theta)
    return _judge(_OLS, None, coef, intercept, rows.n_passes, seconds, held, client)


def private_fit(fit: Fit, store: Store, held: Held, client: Any, folder: Path, epsilon: float, delta: float) -> Result:
    """One private fit, with its run folder `folder`/solver-preset."""
    model = LinearRegression(
        epsilon=epsilon, delta=delta, solver=fit.solver, preset=fit.preset,
        run_dir=folder / f"{fit.solver}-{fit.preset}", **store.declaration.estimator_arguments(),
    )  # fmt: skip
    client.run(reset_peak_memory)
    began = time.perf_counter()
    model.fit(store.X, store.y, feature_names=store.declaration.feature_names, progress=PassReport())
    seconds = time.perf_counter() - began
    return _judge(fit, model.plan_, model.coef_, model.intercept_, model.n_passes_, seconds, held, client)


def _judge(
    fit: Fit, plan: Plan | None, coef: np.ndarray, intercept: float, passes: int, seconds: float, held: Held,
    client: Any,
) -> Result:  # fmt: skip
    rmse = held.rmse(held.X @ coef + intercept)
    r2 = 1.0 - (rmse / held.rmse(held.y.mean())) ** 2
    peak = max(client.run(peak_memory).values())
    return Result(fit.label, fit.short, plan, coef, intercept, rmse, r2, passes, seconds, peak)
