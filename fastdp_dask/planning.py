"""`plan`: what a fit would do, from public facts alone."""

from __future__ import annotations

from dataclasses import replace

from fastdp_dask import _validate
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan


def plan(
    n_samples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    chunk_rows: int | None = None,
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
    chunk_rows : int, optional
        Rows of a chunk of X, public: the plan then says how many tasks a pass has and what each hands on.
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
    rows = _validate.count("n_samples", n_samples)
    made = dispatch.make_plan(request, rows, columns)
    if chunk_rows is None:
        return made
    chunks = -(-rows // _validate.count("chunk_rows", chunk_rows))
    handed_on = partial_bytes(made) / 2**20
    told = f"{chunks:,} chunks of at most {chunk_rows:,} rows: a task of the first pass hands on {handed_on:,.1f} MiB"
    return replace(made, reasons=(*made.reasons, told))


def partial_bytes(made: Plan) -> int:
    """Bytes of the largest partial result that a pass moves: k2 × d for each sketch, or d × d, in 64 bits."""
    sketches = made.n_iter if made.preset == "paper" else 1
    rows = sketches * made.k2 if made.k2 else made.n_columns
    return 8 * made.n_columns * (rows + 1)
