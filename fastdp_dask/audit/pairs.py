"""Neighbouring data sets that come near to what a claim allows: one record of norm 1, and the same record blanked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask.audit.replay import ReplayedRows
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.sketch.srht import SRHT


@dataclass(frozen=True)
class Pair:
    """X (n, d) and y (n,), and record 0, which the neighbour has blank; norms ≤ 1 and |y| ≤ 1."""

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def scaling(self) -> Scaling:
        """The declaration under which the rows are what they are."""
        return declare(self.X.shape[1], data_norm=1.0, bounds_y=(-1.0, 1.0), fit_intercept=False)

    @property
    def sides(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """(X, y) with the record, and without it."""
        X, y = self.X.copy(), self.y.copy()
        X[0], y[0] = 0.0, 0.0
        return (self.X, self.y), (X, y)

    def rows(self) -> tuple[ReplayedRows, ReplayedRows]:
        """Both data sets as a solver sees them."""
        scaling = self.scaling
        here, there = (ReplayedRows(X, y, scaling) for X, y in self.sides)
        return here, there


def rank_one(n: int, d: int = 1) -> Pair:
    """One record along the first axis, all others zero: a change of the whole of XᵀX."""
    X, y = np.zeros((n, d)), np.zeros(n)
    X[0, 0], y[0] = 1.0, 1.0
    return Pair("one record, others zero", X, y)


def weakest_direction(energy: float, others: float = 8.0) -> Pair:
    """d = 3: XᵀX is `energy` along the record's direction, the record included, and `others` times that elsewhere.

    With energy = γ no noise needs to be added: the record hides among the other rows alone.
    """
    basis = np.linalg.qr(np.array([[1.0, 2.0, 2.0], [0.0, 1.0, -1.0], [1.0, 0.0, 1.0]]).T)[0].T
    parts = [basis[:1]]
    for direction, total in zip(basis, (energy - 1.0, others * energy, others * energy), strict=True):
        count = max(1, int(np.ceil(total)))
        parts.append(np.tile(direction * np.sqrt(total / count), (count, 1)))
    X = np.concatenate(parts)
    return Pair("record along the weakest direction", X, np.zeros(len(X)))


def aligned_with(sketch: SRHT, deviation: float) -> Pair:
    """d = 1: every other row has the sign of its overlap with record 0 in the sketch, so that all of them add up.

    ‖δ_0‖ is `deviation`, or as much as rows of norm 1 reach.
    """
    dense = sketch.to_dense()
    overlap = dense[:, 0] @ dense
    overlap[0] = 0.0
    size = min(1.0, deviation / float(np.abs(overlap).sum()))
    X, y = size * np.sign(overlap)[:, None], np.zeros(sketch.n_rows)
    X[0], y[0] = 1.0, 1.0
    return Pair("rows aligned with the sketch", X, y)


def clipped_residual() -> tuple[Pair, np.ndarray]:
    """A record whose residual at θ is 4 C before the clip, and 13 others that pull the other way by 1.04 C in all.

    Clipped record by record the gradient moves by C; clipped as a whole it would move by 2 C.
    """
    direction = np.array([0.6, 0.8])
    X, y = np.tile(0.2 * direction, (14, 1)), np.full(14, -1.0)
    X[0], y[0] = direction, 1.0
    return Pair("record with a clipped residual", X, y), -3.0 * direction
