"""Several targets of one record: each clipped and scaled by its own bounds, X scaled once and alike for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastdp_dask.rows.scaling import Scaling, bound_pair, center_and_half, declare


def declare_each(
    n_features: int, n_targets: int, *, bounds_y: Any, fit_intercept: bool, **bounds: Any
) -> list[Scaling]:
    """One `Scaling` for each of t targets; they differ in nothing but y.

    Parameters
    ----------
    n_features, n_targets : int
        d without the intercept, and t.
    bounds_y : (lower, upper)
        Two numbers for all targets, or two vectors of t numbers.
    fit_intercept : bool
    **bounds
        As in `declare`.

    Raises
    ------
    BoundsError
        As in `declare`.
    """
    lower, upper = bound_pair("bounds_y", bounds_y, n_targets)
    first = declare(
        n_features, bounds_y=(float(lower[0]), float(upper[0])), fit_intercept=fit_intercept, **bounds
    )
    center, half = center_and_half(lower, upper, shift=fit_intercept)
    return [
        replace(
            first, y_center=float(center[j]), y_half=float(half[j]), y_bounds=(float(lower[j]), float(upper[j]))
        )
        for j in range(n_targets)
    ]


def whole_records(y: np.ndarray) -> np.ndarray:
    """Targets (m, t) as float64, all nan in a row where one of them is not finite.

    A record is blank for every target or for none, since XᵀX is one and the same for all of them.
    """
    with np.errstate(all="ignore"):
        made = np.array(np.ma.filled(y.astype(np.float64), np.nan), dtype=np.float64)
    made[~np.isfinite(made).all(axis=1)] = np.nan
    return made


def user_units(scalings: list[Scaling], theta: np.ndarray) -> tuple[np.ndarray, Any]:
    """Coefficients and intercept in the user's units: (n_features,) and a number from theta (n_columns,).

    For several targets (t, n_features) and (t,) from theta (n_columns, t).
    """
    if theta.ndim == 1:
        return scalings[0].to_user(theta)
    pairs = [scaling.to_user(theta[:, j]) for j, scaling in enumerate(scalings)]
    return np.array([slope for slope, _ in pairs]), np.array([shift for _, shift in pairs])


def facts_of(scalings: list[Scaling]) -> dict[str, Any]:
    """`Scaling.to_dict`, with the bounds of every target where there are several."""
    facts = scalings[0].to_dict()
    return facts if len(scalings) == 1 else {**facts, "bounds_y": [list(each.y_bounds) for each in scalings]}
