"""Declared bounds → rows of norm ≤ 1 on the integer grid, and coefficients back to the user's units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fastdp_dask import _validate
from fastdp_dask.errors import BoundsError, BoundsTypeError
from fastdp_dask.rows import _row_kernels
from fastdp_dask.rows._lanes import LANES
from fastdp_dask.rows.grid import GRID, entry_limit

_LARGEST = 1e150  # squares of declared numbers stay finite
_SMALLEST = 1e-150


@dataclass(frozen=True)
class Scaling:
    r"""The public map from a record (x, y) to the scaled record that the private passes see.

    With bounds: each feature is clipped to its bounds and mapped affinely to [−1, 1]; an indicator of a declared
    group is clipped to [0, 1] and not centred, and of each group only the largest entry is kept; an intercept
    column of ones is appended; the row is divided by

        c = sqrt(numeric columns + groups + intercept),

    so that ‖row‖ ≤ 1 by construction.  With `data_norm` = R: rows longer than R are scaled down to R, an intercept
    column of value R is appended, and the row is divided by R, or sqrt(2) R.  y is clipped and mapped to [−1, 1].
    Without an intercept nothing is shifted: x and y are divided by the larger of |lower| and |upper|, so that a
    model through the origin stays one.

    A record with a non-finite entry becomes the zero record.  Rows are integers in units of 2^-16, truncated
    towards zero (`grid`); targets are float64.

    Every field is public: declared by the user, never read from the data.
    """

    n_features: int
    fit_intercept: bool
    y_center: float
    y_half: float
    y_bounds: tuple[float, float]
    radius: float | None
    lower: np.ndarray = field(repr=False)
    upper: np.ndarray = field(repr=False)
    center: np.ndarray = field(repr=False)
    half: np.ndarray = field(repr=False)
    group: np.ndarray = field(repr=False)
    n_groups: int = 0

    @property
    def n_columns(self) -> int:
        """d, the columns of the scaled rows: features and the intercept."""
        return self.n_features + int(self.fit_intercept)

    @cached_property
    def parts(self) -> int:
        """c²: numeric columns + groups + intercept (1 or 2 with `data_norm`)."""
        if self.radius is not None:
            return 1 + int(self.fit_intercept)
        return int(np.count_nonzero(self.group < 0)) + self.n_groups + int(self.fit_intercept)

    @cached_property
    def largest_entry(self) -> int:
        """Bound on the absolute value of an entry of `rows`, in grid units."""
        return entry_limit(self.parts) if self.radius is None else GRID - 1

    def rows(
        self, X: np.ndarray, y: np.ndarray, out: np.ndarray | None = None, target: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Grid rows (m, n_columns) int32 in units of 2^-16, and scaled targets (m,) float64 in [−1, 1].

        X (m, n_features) float32 or float64 and y (m,) float64, C-contiguous; private.  The values are a function
        of each record alone.
        """
        m = X.shape[0]
        out = np.empty((m, self.n_columns), dtype=np.int32) if out is None else out
        target = np.empty(m, dtype=np.float64) if target is None else target
        limit, top = self._limit_and_top
        intercept = limit if self.fit_intercept else 0
        if self.radius is None and not self.n_groups:
            _row_kernels.scale_plain(
                X, y, self.center, *self._factor_and_ends, intercept,
                *self.y_bounds, self.y_center, 1.0 / self.y_half, out, target,
            )  # fmt: skip
        elif self.radius is None:
            _row_kernels.scale_bounded(
                X, y, self.lower, self.upper, self.center, top / self.half, self.group, self.n_groups, limit,
                intercept, *self.y_bounds, self.y_center, 1.0 / self.y_half, out, target,
            )  # fmt: skip
        else:
            _row_kernels.scale_normed(
                X, y, self.radius, top, intercept,
                *self.y_bounds, self.y_center, 1.0 / self.y_half, out, target,
            )  # fmt: skip
        return out, target

    @property
    def plain(self) -> bool:
        """Whether each column has bounds of its own and nothing else: `_plain_kernels` are for these."""
        return self.radius is None and not self.n_groups

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """What `_plain_kernels` take as columns and labels."""
        columns = np.zeros((4, -(-self.n_columns // LANES) * LANES))
        columns[:, : self.n_features] = self.center, *self._factor_and_ends
        intercept = self._limit_and_top[0] if self.fit_intercept else 0
        columns[2:, self.n_features : self.n_columns] = intercept  # whatever stands there, it is clipped to this
        return columns, np.array([*self.y_bounds, self.y_center, 1.0 / self.y_half, intercept])

    @cached_property
    def _limit_and_top(self) -> tuple[int, float]:
        return entry_limit(self.parts), GRID / math.sqrt(self.parts)

    @cached_property
    def _factor_and_ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grid units per unit of each feature, and the scaled bounds: kept, since `rows` is called for small tiles."""
        limit, top = self._limit_and_top
        factor = top / self.half
        ends = ((side - self.center) * factor for side in (self.lower, self.upper))
        lowest, highest = (np.clip(end, -limit, limit) for end in ends)
        return factor, lowest, highest

    def to_user(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Coefficients in the user's units, (n_features,), and the intercept, from theta (n_columns,)."""
        unit = math.sqrt(self.parts)
        slope = self.y_half * theta[: self.n_features] / (unit * self.half)
        shift = self.y_center
        if self.fit_intercept:
            constant = entry_limit(self.parts) / GRID  # what the column of ones is on the grid
            shift = shift + self.y_half * float(theta[self.n_features]) * constant - float(slope @ self.center)
        return slope, float(shift)

    def to_dict(self) -> dict[str, Any]:
        """The public facts, for a plan or a report."""
        return {
            "n_features": self.n_features,
            "fit_intercept": self.fit_intercept,
            "row_parts": self.parts,
            "data_norm": self.radius,
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "group": self.group.tolist(),
            "bounds_y": list(self.y_bounds),
        }


def declare(
    n_features: int,
    *,
    bounds_X: Any = None,
    data_norm: Any = None,
    groups: Any = None,
    bounds_y: Any = None,
    fit_intercept: bool = True,
) -> Scaling:
    """Check declared bounds and build the `Scaling`.

    Parameters
    ----------
    n_features : int
        Columns of X.
    bounds_X : (lower, upper), optional
        Scalars or vectors of n_features numbers, lower < upper.  Columns of a group need no bounds of their own:
        they are indicators in [0, 1] whatever stands here.
    data_norm : float, optional
        Bound R on the Euclidean norm of a row; exactly one of `bounds_X` and `data_norm` must be given.
    groups : sequence of sequences of int, optional
        Disjoint lists of column indices; at most one column of a list is non-zero in a row.
    bounds_y : (lower, upper)
        Two numbers, lower < upper.
    fit_intercept : bool

    Raises
    ------
    BoundsError
        If bounds are missing, not finite, of the wrong length, or lower ≥ upper; if a group is malformed.
    """
    if (bounds_X is None) == (data_norm is None):
        got = "neither" if bounds_X is None else "both"
        raise BoundsError(
            f"exactly one of bounds_X and data_norm must be given, got {got}. Declare bounds_X=(lower, upper) from "
            "public knowledge of the features, or data_norm=R for the Euclidean norm of a row."
        )
    y_lower, y_upper = (float(v[0]) for v in bound_pair("bounds_y", bounds_y, 1))
    group, n_groups = _group_index(groups, n_features)
    radius = None
    if data_norm is not None:
        if n_groups:
            raise BoundsError("groups need bounds_X, got data_norm. Declare bounds_X=(lower, upper) instead.")
        radius = _validate.positive("data_norm", data_norm, "Declare the largest Euclidean norm of a row.")
        if not _SMALLEST < radius < _LARGEST:
            raise BoundsError(
                f"data_norm must lie between {_SMALLEST} and {_LARGEST}, got data_norm={radius!r}. Change its unit."
            )
        lower, upper = np.full(n_features, -radius), np.full(n_features, radius)
        center, half = np.zeros(n_features), np.full(n_features, radius)
    else:
        lower, upper = bound_pair("bounds_X", bounds_X, n_features, ignore=group >= 0)
        lower, upper = np.where(group >= 0, 0.0, lower), np.where(group >= 0, 1.0, upper)
        center, half = center_and_half(lower, upper, shift=fit_intercept)
        center, half = np.where(group >= 0, 0.0, center), np.where(group >= 0, 1.0, half)
    y_center, y_half = center_and_half(np.array([y_lower]), np.array([y_upper]), shift=fit_intercept)
    return Scaling(
        n_features=n_features,
        fit_intercept=bool(fit_intercept),
        y_center=float(y_center[0]),
        y_half=float(y_half[0]),
        y_bounds=(y_lower, y_upper),
        radius=radius,
        lower=lower,
        upper=upper,
        center=center,
        half=half,
        group=group,
        n_groups=n_groups,
    )


def center_and_half(lower: np.ndarray, upper: np.ndarray, *, shift: bool) -> tuple[np.ndarray, np.ndarray]:
    """The affine map of [lower, upper] to [−1, 1], or without a shift the division by the larger end."""
    if shift:
        return (lower + upper) / 2, (upper - lower) / 2
    return np.zeros_like(lower), np.maximum(np.abs(lower), np.abs(upper))


def bound_pair(name: str, value: Any, size: int, ignore: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds, (size,) each, from a declared pair of numbers or vectors; BoundsError if it is none."""
    hint = f"Declare {name}=(lower, upper) from public knowledge, never from the data."
    if value is None:
        raise BoundsError(f"{name} must be given: expected a pair (lower, upper), got None. {hint}")
    if isinstance(value, str) or not (isinstance(value, Sequence | np.ndarray) and len(value) == 2):
        raise BoundsError(f"{name} must be a pair (lower, upper), got {type(value).__name__}. {hint}")
    sides = []
    for side, part in zip(("lower", "upper"), value, strict=True):
        # NumPy would read digits in a text as a number.
        if any(isinstance(each, str | bytes) for each in np.asarray(part, dtype=object).flat):
            raise BoundsTypeError(f"{name}: {side} must be a number or {size} numbers, got text. {hint}")
        try:
            array = np.asarray(part, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise BoundsError(f"{name}: {side} must be a number or {size} numbers, got another type. {hint}") from None
        if array.ndim > 1 or (array.ndim == 1 and array.size not in (1, size)):
            raise BoundsError(f"{name}: {side} must be a number or {size} numbers, got shape {array.shape}. {hint}")
        sides.append(np.array(np.broadcast_to(array, (size,))))
    lower, upper = sides
    used = np.ones(size, dtype=bool) if ignore is None else ~ignore
    for side, array in zip(("lower", "upper"), sides, strict=True):
        bad = np.flatnonzero(used & ~(np.abs(array) <= _LARGEST))  # nan too
        if bad.size:
            raise BoundsError(
                f"{name}: {side} must be finite and at most {_LARGEST}, got {float(array[bad[0]])!r} for column "
                f"{bad[0]}. {hint}"
            )
    bad = np.flatnonzero(used & ~(upper - lower > _SMALLEST))
    if bad.size:
        raise BoundsError(
            f"{name}: lower must be below upper, got lower={float(lower[bad[0]])!r} and "
            f"upper={float(upper[bad[0]])!r} for column {bad[0]}. Give "
            f"(all lowers, all uppers), not a pair for each column. {hint}"
        )
    return lower, upper


def _group_index(groups: Any, n_features: int) -> tuple[np.ndarray, int]:
    index = np.full(n_features, -1, dtype=np.int64)
    if groups is None:
        return index, 0
    hint = "Pass disjoint lists of column indices, one list for each category."
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise BoundsError(f"groups must be a list of lists of columns, got {type(groups).__name__}. {hint}")
    for number, members in enumerate(groups):
        if isinstance(members, str) or not isinstance(members, Sequence | np.ndarray) or len(members) == 0:
            raise BoundsError(f"groups: group {number} must be a non-empty list of columns, got another. {hint}")
        for column in members:
            if isinstance(column, bool) or not isinstance(column, int | np.integer):
                raise BoundsError(
                    f"groups: a column of group {number} must be an index, got {type(column).__name__}. {hint}"
                )
            if not 0 <= column < n_features:
                raise BoundsError(f"groups: columns must lie in 0 … {n_features - 1}, got {column}. {hint}")
            if index[column] >= 0:
                raise BoundsError(f"groups must not repeat a column, got column {column} twice. {hint}")
            index[column] = number
    return index, len(groups)
