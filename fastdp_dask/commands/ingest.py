"""`fastdp ingest`: a table becomes a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from fastdp_dask import data
from fastdp_dask.blocked.progress import silent
from fastdp_dask.commands import outcome, storage
from fastdp_dask.commands.stopping import Stoppable


def ingest(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="CSV, Parquet, Arrow or HDF5 file, Zarr group, folder, glob, or a URL."),
    ],
    dest: Annotated[str, typer.Argument(metavar="DEST", help="The new store, a Zarr group, or its URL.")],
    target: Annotated[str, typer.Option(help="Column that becomes y.")],
    bounds: Annotated[
        Path,
        typer.Option(help="TOML or JSON file of declared bounds and categories. Public: never from the data."),
    ],
    features: Annotated[str | None, typer.Option(help="Columns to keep, a,b,…; without it every declared one.")] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    chunk_rows: Annotated[int, typer.Option(help="Rows in a chunk, a power of two.")] = 65536,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing store.")] = False,
    storage_option: storage.StorageOptions = None,
) -> None:
    """Convert a table to a store, in constant memory; interrupted, the same command goes on.

    A cell that is missing, or neither number nor date, becomes what the bounds file declares, else NaN: a fit counts
    such a record as blank.
    """
    wanted = None if features is None else [name.strip() for name in features.split(",")]
    stopped = f"stopped on request; what was written to {dest} is kept. Run the same command again."
    with Stoppable(silent, stopped):
        report = data.ingest(
            source, dest, target=target, features=wanted, bounds=bounds, dtype=dtype, chunk_rows=chunk_rows,
            overwrite=overwrite, progress=_RowLines(), storage_options=storage.options(storage_option),
        )  # fmt: skip
    print(
        f"{report.path}: {report.rows:,} rows x {report.columns} features in {report.chunks} "
        f"chunk{'s' * (report.chunks != 1)}, {report.seconds:.1f} s"
    )


class _RowLines:
    """Tells of rows written, a line at most every ten seconds."""

    def __init__(self, every: float = 10.0) -> None:
        self._every = every
        self._began = self._last = time.monotonic()

    def __call__(self, rows: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            of = "" if total is None else f" of {total:,}"
            outcome.say(f"{rows:,}{of} rows, {rows / (now - self._began):,.0f} rows/s")
