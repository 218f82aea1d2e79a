"""How often intervals of private coefficients cover the truth, on three kinds of generated data.

    python examples/interval_coverage.py            # 500 runs of each; about half an hour
    python examples/interval_coverage.py --quick    # seconds

Each run draws new targets, and fits with `uncertainty=True` at epsilon = 1 (fastihm: 0.3 to 10) and delta = 1/n².
Coverage is of the coefficients of the population, by intervals of 95 %: the mean over runs and coefficients, with the
lowest and the highest coefficient.  `without_privacy` is what the same intervals would cover if they knew of sampling
error alone.  `width` is the median width of an interval over the least one possible: that of least squares without
privacy.

* sphere: 16 features, rows uniform on the unit sphere, no intercept.
* correlated: 6 features, neighbours correlated by 0.8, rows scaled down to a norm of 1.
* categories: 3 numbers within bounds, categories of 6, 3 and 4, and an intercept.
"""

from __future__ import annotations

import argparse
import csv
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask import LinearRegression, PrivacyLeakWarning
from fastdp_dask.rows.groups import CompleteGroup

SETTINGS = (("ihm", 1.0), ("fastihm", 0.3), ("fastihm", 1.0), ("fastihm", 3.0), ("fastihm", 10.0), ("adassp", 1.0))
_COLUMNS = (
    "set", "n", "solver", "epsilon", "runs", "coverage", "lowest", "highest", "without_privacy", "privacy_share",
    "width",
)  # fmt: skip


@dataclass(frozen=True)
class Design:
    """Rows, what is declared about them, the truth in the order of `confint`, and the deviation of the residuals."""

    name: str
    X: np.ndarray
    truth: np.ndarray
    design: np.ndarray
    noise: float
    declared: dict[str, Any]

    def targets(self, generator: np.random.Generator) -> np.ndarray:
        """y of one run."""
        return self.design @ self.truth + self.noise * generator.standard_normal(len(self.X))


def sphere(n: int, generator: np.random.Generator) -> Design:
    """16 features, rows uniform on the unit sphere."""
    X = generator.standard_normal((n, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = 0.3 * generator.standard_normal(16)
    return Design("sphere", X, truth, X, 0.1, {"data_norm": 1.0, "bounds_y": (-1, 1), "fit_intercept": False})


def correlated(n: int, generator: np.random.Generator) -> Design:
    """6 features, correlated by 0.8^|i−j|."""
    covariance = 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    X = 0.25 * generator.standard_normal((n, 6)) @ np.linalg.cholesky(covariance).T
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    truth = 0.3 * generator.standard_normal(6)
    return Design("correlated", X, truth, X, 0.1, {"data_norm": 1.0, "bounds_y": (-1, 1), "fit_intercept": False})


def categories(n: int, generator: np.random.Generator) -> Design:
    """3 numbers within bounds, 3 categories and an intercept; coefficients of a category count from their mean."""
    numbers = np.column_stack(
        [generator.uniform(18, 80, n), np.minimum(generator.gamma(2, 8, n), 60), generator.integers(0, 24, n)]
    )
    X, groups, truth = [numbers], [], [0.3, 0.5, -0.2]
    for size in (6, 3, 4):
        X.append(np.eye(size)[generator.integers(0, size, n)])
        first = sum(part.shape[1] for part in X[:-1])
        groups.append(CompleteGroup(range(first, first + size)))
        effects = 2.0 * generator.standard_normal(size)
        truth += list(effects - effects.mean())
    rows = np.column_stack(X)
    declared = {
        "bounds_X": ([18.0, 0.0, 0.0] + [0.0] * 13, [80.0, 60.0, 23.0] + [1.0] * 13), "groups": groups,
        "bounds_y": (-40.0, 100.0),
    }  # fmt: skip
    design = np.column_stack([rows, np.ones(n)])
    return Design("categories", rows, np.array([*truth, 12.0]), design, 6.0, declared)


DESIGNS: tuple[Callable[[int, np.random.Generator], Design], ...] = (sphere, correlated, categories)


def measure(design: Design, solver: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Coverage over `runs` fits."""
    n = len(design.X)
    inside, sampling, shares, widths = [], [], [], []
    fisher = np.sqrt(np.diag(np.linalg.pinv(design.design.T @ design.design)))
    for seed in range(runs):
        y = design.targets(np.random.default_rng(1000 + seed))
        model = LinearRegression(
            epsilon=epsilon, delta=1.0 / n**2, solver=solver, uncertainty=True, random_state=seed, **design.declared
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            model.fit(design.X, y)
        found = model.intervals_
        assert found is not None
        away = np.abs(np.array(found.estimate) - design.truth)
        inside.append(away <= 1.959964 * found.standard_error)
        sampling.append(away <= 1.959964 * np.sqrt(found.sampling_variance))
        shares.append(found.privacy_share)
        widths.append(found.standard_error / (design.noise * fisher))
    each = np.mean(inside, axis=0)
    numbers = (each.mean(), each.min(), each.max(), np.mean(sampling), np.mean(shares), np.median(widths))
    values = (design.name, n, solver, epsilon, runs, *(f"{value:.3f}" for value in numbers))
    return dict(zip(_COLUMNS, values, strict=True))


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write `interval_coverage.csv`."""
    parser = argparse.ArgumentParser(description="Coverage of the intervals of private coefficients.")
    parser.add_argument("--quick", action="store_true", help="4 runs on 4,096 rows")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    n, runs = (4096, 4) if options.quick else (options.rows, options.runs)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "interval_coverage.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        for number, make in enumerate(DESIGNS):
            design = make(n, np.random.default_rng(number))
            for solver, epsilon in SETTINGS:
                line = measure(design, solver, epsilon, runs)
                writer.writerow(line)
                stream.flush()
                print("  ".join(f"{key} {value}" for key, value in line.items()))


if __name__ == "__main__":
    sys.exit(main())
