"""The same fit many times: what depends on the data alone is computed once, what is random every time.

A pass over the data is a deterministic function of the data and of the public sketch, and a plan is one of public
facts, so that a thousand fits may share them.  Every draw of noise, and all that follows from it, runs anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from fastdp_dask import linalg
from fastdp_dask.blocked import kernels
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.residuals import residual_chunk
from fastdp_dask.blocked.source import as_blocks
from fastdp_dask.rows.grid import GRID, residual_grid
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.sketch.srht import SRHT


class ReplayedRows:
    """The `RowOperator` of NumPy arrays X (n, d) and y (n,): `BlockedRows` that remembers its passes.

    Gradients, each at a θ of its own, come from the kernel of that pass, called on the one chunk there is.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, scaling: Scaling) -> None:
        features, target, _ = as_blocks(X, y)
        assert target is not None
        self.scaling, self.n_rows, self.n_passes = scaling, len(X), 0
        self._rows = BlockedRows(features, target, scaling)
        self._X, self._y = X, y[:, None]
        self._known: dict[Any, Any] = {}

    @property
    def sketches(self) -> tuple[SRHT, ...]:
        """The sketches of the pass that was asked for; none where there was no such pass."""
        return next((key[1] for key in self._known if key[0] == "sketch"), ())

    @property
    def grams(self) -> list[np.ndarray]:
        """ZᵀZ of each of these sketches, or XᵀX, by the pass that was asked for."""
        for (kind, *_), (found, _) in self._known.items():
            if kind == "gram":
                return [found]
            if kind == "sketch":
                sizes = [sketch.sketch_size for sketch in self.sketches]
                return [linalg.gram_of(sums, GRID * math.sqrt(k2)) for sums, k2 in zip(found, sizes, strict=True)]
        return []

    def _once(self, key: Any, compute: Callable[[], Any]) -> Any:
        self.n_passes += 1
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def sketch(self, sketches: Sequence[SRHT], clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        """As the protocol says; computed once for these sketches."""
        key = ("sketch", tuple(sketches), clip)
        found: tuple[list[np.ndarray], np.ndarray] = self._once(key, lambda: self._rows.sketch(sketches, clip))
        return found

    def deviation(self, sketches: Sequence[SRHT], sums: Sequence[np.ndarray]) -> list[float]:
        """As the protocol says; computed once for these sketches."""
        key = ("deviation", tuple(sketches))
        found: list[float] = self._once(key, lambda: self._rows.deviation(sketches, sums))
        return found

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        """As the protocol says; computed once."""
        found: tuple[np.ndarray, np.ndarray] = self._once(("gram", clip), lambda: self._rows.gram(clip))
        return found

    def gradient(self, theta: np.ndarray, clip: float) -> np.ndarray:
        """As the protocol says."""
        self.n_passes += 1
        grid = residual_grid(self.n_rows, clip)
        sums = kernels.gradient_chunk(self._X, self._y, 0, scaling=self.scaling, theta=theta, clip=clip, grid=grid)
        return np.asarray(sums[0] / (GRID * grid))

    def squared_residuals(self, theta: np.ndarray, clip: float) -> float:
        """As the protocol says."""
        self.n_passes += 1
        grid = residual_grid(self.n_rows, clip)
        sums = residual_chunk(self._X, self._y, 0, scaling=self.scaling, theta=theta, clip=clip, grid=grid)
        return float(sums[0, 0]) / grid**2


@contextmanager
def without_pools() -> Iterator[None]:
    """Slabs of a product one after the other: to start threads takes longer than all of a small fit."""
    genuine = linalg.ThreadPoolExecutor
    linalg.ThreadPoolExecutor = _Serial  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        linalg.ThreadPoolExecutor = genuine  # type: ignore[misc]


class _Serial(nullcontext["_Serial"]):
    """A pool that computes at once, in the order of its arguments."""

    def __enter__(self) -> _Serial:
        return self

    map = staticmethod(map)
