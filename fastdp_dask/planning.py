"""`plan`: what a fit would do, from public facts alone."""

from __future__ import annotations

from fastdp_dask import _validate
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan


def plan(
    n_samples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    fit_intercept: bool = True,
    solver: str = "auto",
    preset: str = "tight",
    n_iter: int | None = None,
    k1: int | None = None,
    k2: int | None = None,
    coherence: str = "auto",
) -> Plan:
    """The plan that `LinearRegression.fit` would follow for data of this shape; no data is looked at.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X, public.
    epsilon, delta, fit_intercept, solver, preset, n_iter, k1, k2, coherence
        As in `LinearRegression`.

    Returns
    -------
    Plan
        `.describe()` for a person, `.to_dict()` for JSON.

    Raises
    ------
    ArgumentError
        If an argument is out of its range.
    """
    request = dispatch.check_request(
        epsilon=epsilon, delta=delta, solver=solver, preset=preset, n_iter=n_iter, k1=k1, k2=k2, coherence=coherence
    )
    columns = _validate.count("n_features", n_features) + int(fit_intercept)
    return dispatch.make_plan(request, _validate.count("n_samples", n_samples), columns)
