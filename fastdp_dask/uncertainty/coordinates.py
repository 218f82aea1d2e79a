"""Which combinations of coefficients the data can tell, and how they read in the user's units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastdp_dask.rows.scaling import Scaling


def members(scaling: Scaling, complete: Sequence[bool]) -> list[np.ndarray]:
    """Columns of each group that is declared complete (`fastdp_dask.rows.groups`)."""
    return [np.flatnonzero(scaling.group == number) for number, whole in enumerate(complete) if whole]


def estimable(scaling: Scaling, complete: Sequence[bool]) -> np.ndarray:
    """Orthonormal basis (d, p) of what a record of one indicator in each complete group can tell of θ.

    Such a record has the same value in the intercept's column as in the sum of each group's columns: adding a number
    to the coefficients of one group and taking it off the intercept (or, without one, off another group) changes
    nothing.  Those directions are left out.
    """
    d = scaling.n_columns
    constants = [np.isin(np.arange(d), columns).astype(float) for columns in members(scaling, complete)]
    if scaling.fit_intercept:
        constants.append((np.arange(d) == d - 1).astype(float))
    if len(constants) < 2:
        return np.eye(d)
    null = np.column_stack([constants[-1] - other for other in constants[:-1]])
    full, _ = np.linalg.qr(np.column_stack([null, np.eye(d)]))
    return full[:, null.shape[1] : d]


def centred(scaling: Scaling, complete: Sequence[bool]) -> list[np.ndarray]:
    """The complete groups whose coefficients count from their mean: all, or without an intercept all but the last."""
    groups = members(scaling, complete)
    return groups if scaling.fit_intercept else groups[:-1]


def to_user(scaling: Scaling, complete: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """The affine map (d', d), (d',) from θ to coefficients and, last, the intercept if there is one, in user's units.

    Coefficients of a complete group are taken from their mean, which goes to the intercept (or, without one, to the
    last complete group): so they, too, are combinations that the data can tell.  All others are those of `coef_`.
    """
    d, features = scaling.n_columns, scaling.n_features
    columns = [np.append(*scaling.to_user(column)) for column in np.vstack([np.zeros(d), np.eye(d)])]
    shift, matrix = columns[0], np.column_stack([column - columns[0] for column in columns[1:]])
    groups = members(scaling, complete)
    moved = np.eye(features + 1)
    for group in centred(scaling, complete):
        moved[np.ix_(group, group)] -= 1.0 / len(group)
        taken_up = np.array([features]) if scaling.fit_intercept else groups[-1]
        moved[np.ix_(taken_up, group)] += 1.0 / len(group)
    kept = features + int(scaling.fit_intercept)
    return (moved @ matrix)[:kept], (moved @ shift)[:kept]
