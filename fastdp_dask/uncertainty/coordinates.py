"""Which combinations of coefficients the data can tell, and how they read in the user's units."""

from __future__ import annotations

import numpy as np

from fastdp_dask.rows.scaling import Scaling


def members(scaling: Scaling) -> list[np.ndarray]:
    """Columns of each declared group."""
    return [np.flatnonzero(scaling.group == number) for number in range(scaling.n_groups)]


def estimable(scaling: Scaling) -> np.ndarray:
    """Orthonormal basis (d, p) of what a record of one indicator in each group can tell of θ.

    Such a record has the same value in the intercept's column as in the sum of each group's columns: adding a number
    to the coefficients of one group and taking it off the intercept (or, without one, off another group) changes
    nothing.  Those directions are left out.
    """
    d = scaling.n_columns
    constants = [np.isin(np.arange(d), columns).astype(float) for columns in members(scaling)]
    if scaling.fit_intercept:
        constants.append((np.arange(d) == d - 1).astype(float))
    if len(constants) < 2:
        return np.eye(d)
    null = np.column_stack([constants[-1] - other for other in constants[:-1]])
    full, _ = np.linalg.qr(np.column_stack([null, np.eye(d)]))
    return full[:, null.shape[1] : d]


def to_user(scaling: Scaling) -> tuple[np.ndarray, np.ndarray]:
    """The affine map (d', d), (d',) from θ to coefficients and, last, the intercept if there is one, in user's units.

    Coefficients of a group are taken from their mean, which goes to the intercept (or, without one, to the last
    group): so they, too, are combinations that the data can tell.
    """
    d, features = scaling.n_columns, scaling.n_features
    columns = [np.append(*scaling.to_user(column)) for column in np.vstack([np.zeros(d), np.eye(d)])]
    shift, matrix = columns[0], np.column_stack([column - columns[0] for column in columns[1:]])
    groups = members(scaling)
    moved = np.eye(features + 1)
    for group in groups if scaling.fit_intercept else groups[:-1]:
        moved[np.ix_(group, group)] -= 1.0 / len(group)
        taken_up = np.array([features]) if scaling.fit_intercept else groups[-1]
        moved[np.ix_(taken_up, group)] += 1.0 / len(group)
    kept = features + int(scaling.fit_intercept)
    return (moved @ matrix)[:kept], (moved @ shift)[:kept]
