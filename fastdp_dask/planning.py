"""`plan`: what a fit would do, from public facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastdp_dask import _validate
from fastdp_dask.costs import cache, choice, layout
from fastdp_dask.costs.machine import Machine
from fastdp_dask.costs.risk import UNKNOWN, Guess
from fastdp_dask.errors import ArgumentError
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan

__all__ = ["Guess", "Machine", "measure", "partial_bytes", "plan"]


def plan(
    n_samples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float,
    chunk_rows: int | tuple[int, ...] | None = None,
    dtype: Any = "float32",
    fit_intercept: bool = True,
    solver: str = "auto",
    preset: str = "tight",
    n_iter: int | None = None,
    k1: int | None = None,
    k2: int | None = None,
    coherence: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    machine: Machine | None = None,
    guess: Guess = UNKNOWN,
    compare: bool = True,
) -> Plan:
    """The plan that `LinearRegression.fit` would follow for data of this shape; no data is looked at.

    With it come predictions for every solver of the family: passes, seconds, bytes, memory, noise and excess risk.
    They follow from the shape, the chunks, the budget, the workers and the machine's constants, and change no privacy.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X, public.
    chunk_rows : int or tuple of int, optional
        Rows of a chunk of X (or of each), public: the plan then says how many tasks a pass has and what each hands on.
    dtype : numpy dtype
        Of X.
    epsilon, delta, fit_intercept, solver, preset, n_iter, k1, k2, coherence
        As in `LinearRegression`.
    workers, threads, memory_limit : int, optional
        Worker processes, threads of all of them together, and bytes of the tightest one (0: no limit); by default
        those of the active client, or this process's threads.
    machine : Machine, optional
        Constants of the machine; by default those that `measure` kept for this machine, else the shipped ones.
    guess : Guess, optional
        What is publicly known of the data's energy and spectrum.
    compare : bool
        Whether to predict for every solver, and for a larger epsilon and more rows (about a second).

    Returns
    -------
    Plan
        `.describe()` for a person, `.to_dict()` for JSON, `.forecasts` for the predictions, the plan's own first.

    Raises
    ------
    ArgumentError
        If an argument is out of its range.
    """
    request = dispatch.check_request(
        epsilon=epsilon, delta=delta, solver=solver, preset=preset, n_iter=n_iter, k1=k1, k2=k2, coherence=coherence
    )
    features = _validate.count("n_features", n_features)
    rows = _validate.count("n_samples", n_samples)
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None:
            _validate.count(name, value)
    lies = layout.layout(
        rows, features, chunks=_chunks(rows, chunk_rows), itemsize=np.dtype(dtype).itemsize, workers=workers,
        threads=threads, memory_limit=memory_limit,
    )  # fmt: skip
    constants = cache.load() if machine is None else machine
    made = choice.make_plan(request, rows, features + int(fit_intercept), lies, constants, guess=guess)
    if compare:
        made = choice.compared(made, request, lies, constants, guess)
    if chunk_rows is None:
        return made
    handed_on = partial_bytes(made) / 2**20
    told = (
        f"{len(lies.chunks):,} chunks of at most {max(lies.chunks):,} rows: a task of the first pass hands on "
        f"{handed_on:,.1f} MiB"
    )
    return replace(made, reasons=(*made.reasons, told))


def measure() -> tuple[Machine, str | None]:
    """Measure this machine's constants (seconds) and keep them; with them the file, None where none can be written."""
    from fastdp_dask.costs import measure as measuring  # compiles kernels: only for whoever asks for it

    found = measuring.measure()
    file = cache.keep(found)
    return found, None if file is None else str(file)


def _chunks(rows: int, given: int | tuple[int, ...] | None) -> int | tuple[int, ...] | None:
    if isinstance(given, tuple):
        if sum(given) != rows or any(length < 0 for length in given):
            raise ArgumentError(
                f"chunk_rows must be the rows of a chunk, or of each chunk with a sum of n_samples={rows}, got a sum "
                f"of {sum(given)}. Leave it out for the default."
            )
        return given
    return None if given is None else _validate.count("chunk_rows", given)


def partial_bytes(made: Plan) -> int:
    """Bytes of the largest partial result that a pass moves: k2 × d for each sketch, or d × d, in 64 bits."""
    sketches = made.n_iter if made.preset == "paper" else 1
    rows = sketches * made.k2 if made.k2 else made.n_columns
    return 8 * made.n_columns * (rows + 1)
