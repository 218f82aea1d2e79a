"""From a table to a store: a stream of batches becomes columns of X and y, in constant memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import zarr

from fastdp_dask.data.array_reader import read_arrays
from fastdp_dask.data.arrow_reader import read_arrow, read_parquet
from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.bounds_file import read_declaration
from fastdp_dask.data.columns import columns_of, to_block
from fastdp_dask.data.location import Options, is_url, located
from fastdp_dask.data.readers import Batch, Columns, find_files, kind_of, read_csv
from fastdp_dask.data.remote import File, find_remote
from fastdp_dask.data.write import Block, write_store
from fastdp_dask.errors import StoreError


@dataclass(frozen=True)
class IngestReport:
    """What an ingestion did; public facts only.

    Attributes
    ----------
    path : Path or str
        The store, or its URL.
    rows, columns, chunks : int
        Number of records n, of features d (indicators counted singly), of chunks of X.
    seconds : float

    The size of the store on disk is not among them: compressed, it depends on the values.
    """

    path: Path | str
    rows: int
    columns: int
    chunks: int
    seconds: float


def ingest(
    source: str | Path,
    dest: str | Path,
    *,
    target: str,
    features: Sequence[str] | None = None,
    bounds: Declaration | dict[str, Any] | str | Path,
    dtype: str = "float32",
    chunk_rows: int = 65536,
    overwrite: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
    storage_options: Options | None = None,
) -> IngestReport:
    """Convert a table to a store, row by row in the order of the files.

    Parameters
    ----------
    source : path or glob
        CSV with a header line (plain, or one file per .gz, .zip, .bz2 or .xz), Parquet, Arrow (Feather version 2
        or a stream), HDF5 or a Zarr group with an array for each column (see `array_reader`); a folder of Parquet or
        Arrow files.  Files are taken in sorted order.  CSV, Parquet and Arrow may also stand under the URL of an
        object storage: ``s3://``, ``gs://`` or ``az://``.
    dest : path or such a URL
        The new store.
    target : str
        The column that becomes y; numeric.
    features : sequence of str, optional
        Source columns to keep, in this order; None: every declared one.
    bounds : path of a TOML or JSON file, mapping of that shape, or Declaration
        Public bounds and categories; see `read_declaration`.
    dtype, chunk_rows, overwrite
        As in `write_store`.
    progress : callable (rows done, rows in all or None), optional
    storage_options : mapping, optional
        Keyword arguments of the fsspec file system of source and dest, as far as they are URLs.

    Returns
    -------
    IngestReport

    Raises
    ------
    ArgumentError, BoundsError
        No file matches, or the declaration does not fit.
    DataShapeError
        A file lacks a declared column, or there is no row.
    DataTypeError
        A column is not of the type that it is declared to be.  CSV has no types: there such a column holds cells
        that are not numbers, and they become NaN without a word.
    StoreError
        A file is damaged, `dest` exists, or the package that reads this kind is not installed.

    Notes
    -----
    A missing cell, or one that is not a number or a date, becomes what the bounds file declares for it, else NaN; the
    fit blanks that record.  A category that is not declared gives an all-zero group; an empty cell of a categorical
    column counts as missing.  Stopped or killed, the same call goes on with what is written: a CSV is read again up to
    there, a Parquet file is not.

    None of the above is reported: whether a record has such a cell is private, and an error, a warning or a count
    would reveal it.  For the same reason messages name files and columns, never a cell or a line.
    """
    started = time.perf_counter()
    declaration = read_declaration(bounds, target=target, features=features)
    files, kind = _found(source, dest, storage_options)
    _require(_NEEDS[kind])
    columns = columns_of(declaration)
    _, n_rows = _read(files, kind, columns, 0)  # checks headers and schemas before anything is written
    origin = {"files": [_identity(file) for file in files]}

    def blocks(skip: int) -> Iterator[Block]:
        batches, _ = _read(files, kind, columns, skip)
        return (to_block(batch, declaration, dtype) for batch in batches)

    path = write_store(
        dest, blocks, declaration, n_rows or None, dtype, chunk_rows,
        overwrite=overwrite, progress=progress, origin=origin,
        storage_options=storage_options if is_url(dest) else None,
    )  # fmt: skip
    place = located("dest", path, storage_options if is_url(dest) else None)
    X = zarr.open_group(place.url, mode="r", storage_options=place.zarr_options)["X"]
    assert isinstance(X, zarr.Array)
    seconds = time.perf_counter() - started
    return IngestReport(path, X.shape[0], X.shape[1], X.nchunks, seconds)


_NEEDS = {"csv": "pandas", "parquet": "pyarrow", "arrow": "pyarrow", "hdf5": "h5py", "zarr": "zarr"}


def _found(source: str | Path, dest: str | Path, storage_options: Options | None) -> tuple[Sequence[File], str]:
    if is_url(source):
        return find_remote(str(source), storage_options, kind_of, ("csv", "parquet", "arrow"))
    if not is_url(dest):
        located("source", source, storage_options)  # refuses options that nothing takes
    return find_files(str(located("source", source)))


def _identity(file: File) -> list[str | int]:
    """What tells a file from another, or from itself once it was changed."""
    return [str(file.resolve()), file.stat().st_mtime_ns] if isinstance(file, Path) else [str(file), file.mark()]


def _read(files: Sequence[File], kind: str, columns: Columns, skip: int) -> tuple[Iterator[Batch], int | None]:
    """Batches of a table after `skip` rows, and the number of all its rows where a file tells."""
    if kind == "csv":
        return read_csv(files, columns, skip), None
    if kind == "arrow":
        return read_arrow(files, columns, skip), None
    if kind == "parquet":
        return read_parquet(files, columns, skip)
    return read_arrays([file for file in files if isinstance(file, Path)], columns, kind, skip)


def _require(module: str) -> None:
    if find_spec(module) is None:
        raise StoreError(f"{module} is needed to read this source. Run: pip install 'fastdp-dask[ingest]'")
