"""`fastdp plan`: what a fit would do, before a single value is read."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Annotated

import typer

from fastdp_dask import plan as make_plan
from fastdp_dask.commands import outcome, storage, tables
from fastdp_dask.data import open_store
from fastdp_dask.planning import measure as measure_machine
from fastdp_dask.planning import partial_bytes


def plan(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Store written by fastdp ingest, or its URL.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget, > 0.")],
    delta: Annotated[float, typer.Option(help="0 < delta < 1, well below 1/n; for example 1/n^2.")],
    solver: Annotated[
        str, typer.Option(help="auto, fastihm, ihm, adassp, linear_mixing or fast_linear_mixing.")
    ] = "auto",
    preset: Annotated[str, typer.Option(help="tight: least noise; paper: to the letter of the papers.")] = "tight",
    n_iter: Annotated[int | None, typer.Option(help="Rounds T.")] = None,
    k1: Annotated[int | None, typer.Option(help="Rows of a Gaussian sketch.")] = None,
    k2: Annotated[int | None, typer.Option(help="Rows of the Hadamard sketch.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure this machine first (seconds) and keep what was found.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    storage_option: storage.StorageOptions = None,
) -> None:
    """Show what a fit would do, and what every solver would cost and achieve: time, memory, noise, predicted error.

    Reads the store's shape and declared bounds, no data value.
    """
    store = open_store(data, storage_options=storage.options(storage_option))
    n, d = store.X.shape
    if measure:
        outcome.say("measuring this machine")
        _, file = measure_machine()
        outcome.say("not kept: no folder for caches can be written" if file is None else f"kept in {file}")
    made = make_plan(
        n, d, epsilon=epsilon, delta=delta, solver=solver, preset=preset, n_iter=n_iter, k1=k1, k2=k2,
        chunk_rows=store.X.chunks[0], dtype=store.X.dtype,
    )  # fmt: skip
    chunk = max(store.X.chunks[0]) * d * store.X.dtype.itemsize
    bytes_of = {
        "read in each pass": store.X.nbytes + store.y.nbytes,
        "largest chunk": chunk,
        "partial result of the largest pass": partial_bytes(made),
        "driver": 2 * partial_bytes(made) + 8 * 6 * made.n_columns**2,
    }
    low, high = store.declaration.bounds_y
    half = (high - low) / 2
    added_error = math.sqrt(made.forecasts[0].risk) * half
    if as_json:
        facts = {"bytes": bytes_of, "predicted_error_beyond_least_squares": added_error}
        print(json.dumps({**asdict(made), **facts}, indent=1, default=str))
        return
    console = tables.console()
    print(made.describe())
    table = tables.table("bytes", ">MiB")
    for what, amount in bytes_of.items():
        table.add_row(what, f"{amount / 2**20:,.1f}")
    count = store.X.numblocks[0]
    tables.show(console, f"{n:,} rows in {count:,} chunk{'s' * (count != 1)}", table)
    if delta >= 1 / n:
        print(f"Careful: delta = {delta:g} is not below 1/n = {1 / n:.2g}: it would allow one record to be published.")
    tables.show_forecasts(console, made.forecasts, half, store.declaration.target)
    print(
        f"Predicted: error beyond least squares, in {store.declaration.target}, root mean square: about "
        f"{added_error:.2g} (over a few guessed spectra; no value was read)."
    )
