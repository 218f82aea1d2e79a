"""Data, rows in plain NumPy that every solver takes, and noise that is not there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from naive import DenseRows, gradient

from fastdp_dask import PrivacyLeakWarning, rng
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.rows.with_target import WithTarget
from fastdp_dask.solvers import dispatch, gradient_descent
from fastdp_dask.solvers.base import Plan, Solution

CONTRACT = [
    ("fastihm", "tight"), ("fastihm", "paper"), ("ihm", "tight"), ("ihm", "paper"), ("adassp", "tight"),
    ("adassp", "paper"), ("linear_mixing", "tight"), ("linear_mixing", "paper"), ("fast_linear_mixing", "tight"),
    ("fast_linear_mixing", "paper"),
]  # fmt: skip


def records(n: int, seed: int = 0, outliers: bool = False) -> tuple[np.ndarray, np.ndarray, Scaling]:
    """X uniform, y linear in it with noise; with outliers some y at the opposite bound, so that residuals exceed 1."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (n, 3))
    y = np.clip(X @ [0.9, -0.4, 0.2] + 0.1 + 0.05 * generator.standard_normal(n), -1, 1)
    if outliers:
        far = (np.abs(y) > 0.5) & (generator.random(n) < 0.2)
        y[far] = -np.sign(y[far])
    return X, y, declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1))


class FamilyRows(DenseRows):
    """`DenseRows` with the target as a column, and under dense sketches."""

    def with_target(self) -> FamilyRows:
        joined = FamilyRows(self.X, self.y, WithTarget.of(self.scaling))
        joined.counted_by = self
        return joined

    def __init__(self, X: np.ndarray, y: np.ndarray, scaling: Scaling) -> None:
        self.counted_by: FamilyRows | None = None
        super().__init__(X, y, scaling)
        self.X, self.y = X, y

    def gaussian_sketch(self, size: int, keys: Sequence[int], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        self.n_passes += 1
        sketches = [rng.standard_normals(key, (size, self.n_rows)) @ self.rows for key in keys]
        return sketches, gradient(self.rows, self.target, np.zeros(self.rows.shape[1]), clip)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "n_passes" and value and self.counted_by is not None:
            self.counted_by.n_passes += 1
        super().__setattr__(name, value)


class NoNoise:
    """A generator whose noise is its mean: normal and Laplace numbers are 0, each χ² its largest number of degrees."""

    def standard_normal(self, shape: Any = None) -> Any:
        return 0.0 if shape is None else np.zeros(shape)

    def discrete_gaussian(self, scale: int, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)

    discrete_laplace = discrete_gaussian

    def chisquare(self, degrees: np.ndarray) -> np.ndarray:
        return np.full(np.shape(degrees), float(np.max(degrees)))  # so that W = K·Σ exactly


def run(plan: Plan, rows: Any, seed: int = 1, log: ReleaseLog | None = None) -> Solution:
    """One seeded fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        noise = rng.NoiseSource(seed)
    log = ReleaseLog() if log is None else log
    if isinstance(plan, gradient_descent.GradientDescentPlan):
        return gradient_descent.solve(rows, plan, public_seed=3, noise=noise, releases=log)
    return dispatch.solve(rows, plan, public_seed=3, noise=noise, releases=log)


def plan_of(solver: str, preset: str, n: int, d: int, epsilon: float, delta: float, **options: Any) -> Plan:
    """The plan that `LinearRegression` would make."""
    request = dispatch.check_request(epsilon=epsilon, delta=delta, solver=solver, preset=preset, **options)
    return dispatch.make_plan(request, n, d)


def clipped_solution(rows: DenseRows, ridge: float = 0.0) -> np.ndarray:
    """θ with Σ x_i clip_1(y_i − x_iᵀθ) = ridge·θ, by Newton steps from least squares."""
    X, y = rows.rows, rows.target
    identity = ridge * np.eye(X.shape[1])
    theta = np.linalg.solve(X.T @ X + identity, X.T @ y)
    for _ in range(50):
        inside = np.abs(y - X @ theta) <= 1
        step = np.linalg.solve(X[inside].T @ X[inside] + identity, gradient(X, y, theta, 1.0) - ridge * theta)
        theta = theta + step
    assert np.abs(gradient(X, y, theta, 1.0) - ridge * theta).max() < 1e-10 * math.sqrt(len(y))
    return theta


def joined_moments(rows: FamilyRows) -> np.ndarray:
    """BᵀB of B = [X y]/√2, with y on the grid."""
    target = np.trunc(rows.target * GRID).clip(1 - GRID, GRID - 1) / GRID
    B = np.column_stack([rows.rows, target]) / math.sqrt(2)
    return B.T @ B
