"""Pairs of data sets that differ in one record being blank: ordinary, hostile and degenerate ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask.data import Declaration

TINY = 5e-324


@dataclass(frozen=True)
class Neighbours:
    """X (n, d), y (n,), and the record that is blank in the other data set."""

    X: np.ndarray
    y: np.ndarray
    record: int = 0

    def members(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Both data sets."""
        X, y = self.X.copy(), self.y.copy()
        X[self.record], y[self.record] = np.nan, np.nan
        return (self.X, self.y), (X, y)

    def declaration(self) -> Declaration:
        """Bounds of ±1."""
        d = self.X.shape[1]
        names = [f"x{j}" for j in range(d)]
        bounds: tuple[float, float] = (-1.0, 1.0)
        return Declaration(feature_names=names, bounds_X=[bounds] * d, groups=[], target="y", bounds_y=bounds)


def _plain(n: int = 64, d: int = 3, record: int = 0, **changed: float) -> Neighbours:
    """Ordinary records; `changed` puts one value into the target or a feature of the record."""
    generator = np.random.default_rng(n + d)
    X = generator.uniform(-1, 1, (n, d))
    y = np.clip(X.sum(axis=1) / d + 0.05 * generator.standard_normal(n), -1, 1)
    for where, value in changed.items():
        if where == "y":
            y[record] = value
        elif where == "row":
            X[record], y[record] = value, value
        else:
            X[record, int(where[1:])] = value
    return Neighbours(X, y, record)


def _rows(X: np.ndarray, record: int = 0) -> Neighbours:
    return Neighbours(X.astype(float), np.linspace(-1, 1, len(X)), record)


def _alone(n: int, value: float) -> Neighbours:
    """All records blank but one."""
    X, y = np.full((n, 2), np.nan), np.full(n, np.nan)
    X[n // 2], y[n // 2] = value, 1.0
    return Neighbours(X, y, n // 2)


_LINE = np.linspace(-1, 1, 48)

PAIRS: dict[str, Neighbours] = {
    "ordinary": _plain(),
    "last record": _plain(record=63),
    "nan in a feature": _plain(x1=np.nan),
    "nan in the target": _plain(y=np.nan),
    "infinite feature": _plain(x0=np.inf),
    "minus infinite target": _plain(y=-np.inf),
    "1e308 everywhere": _plain(row=1e308),
    "-1e308 in a feature": _plain(x2=-1e308),
    "denormal record": _plain(row=TINY),
    "minus zero": _plain(row=-0.0),
    "zero record": _plain(row=0.0),
    "far beyond the bounds": _plain(x0=1e6, y=-1e6),
    "the record that makes it full rank": _rows(np.vstack([np.tile([1.0, 1.0], (40, 1)), [[1.0, -1.0]]]), 40),
    "rank-deficient": _rows(np.outer(_LINE, [1.0, 0.5, -1.0])),
    "constant column": _rows(np.column_stack([_LINE, np.full(48, 0.25)])),
    "collinear columns": _rows(np.column_stack([_LINE, _LINE * (1 + 1e-12)])),
    "more columns than records": _rows(np.random.default_rng(5).uniform(-1, 1, (6, 20)), 2),
    "one record": _rows(np.ones((1, 2))),
    "two records": _rows(np.eye(2)),
    "all but one blank": _alone(32, 1.0),
    "all blank or hostile": _alone(32, np.inf),
}
