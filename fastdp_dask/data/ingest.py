"""From CSV and Parquet to a store: a stream of batches becomes columns of X and y, in constant memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from fastdp_dask.data.arrow_reader import read_parquet
from fastdp_dask.data.bounds import Declaration, indicator_name, read_declaration
from fastdp_dask.data.readers import MISSING, Batch, Columns, find_files, read_csv
from fastdp_dask.data.write import Block, write_store
from fastdp_dask.errors import StoreError


@dataclass(frozen=True)
class IngestReport:
    """What an ingestion did; public facts only.

    Attributes
    ----------
    path : Path
        The store.
    rows, columns, chunks : int
        Number of records n, of features d (indicators counted singly), of chunks of X.
    seconds : float

    The size of the store on disk is not among them: compressed, it depends on the values.
    """

    path: Path
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
) -> IngestReport:
    """Convert a table to a store, row by row in the order of the files.

    Parameters
    ----------
    source : path or glob
        CSV with a header line (plain, or one file per .gz, .zip, .bz2 or .xz), a Parquet file or a folder of
        them.  Files are taken in sorted order.
    dest : path
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
        A Parquet column is neither numeric nor declared categorical.  CSV has no schema: there such a column
        holds cells that are not numbers, and they become NaN without a word.
    StoreError
        A file is damaged, `dest` exists, or pandas or pyarrow is not installed.

    Notes
    -----
    A missing cell, or one that is not a number, becomes NaN; the fit blanks that record.  A category that is
    not declared gives an all-zero group; an empty cell of a categorical column gives NaN.  None of this is
    reported: whether a record has such a cell is private, and an error, a warning or a count would reveal it.
    For the same reason messages name files and columns, never a cell or a line.
    """
    started = time.perf_counter()
    declaration = read_declaration(bounds, target=target, features=features)
    files, kind = find_files(source)
    _require("pandas" if kind == "csv" else "pyarrow")
    columns = columns_of(declaration)
    n_rows: int | None = None
    if kind == "csv":
        batches = read_csv(files, columns)
    else:
        batches, n_rows = read_parquet(files, columns)
    blocks = (to_block(batch, declaration, dtype) for batch in batches)
    path = write_store(
        dest, blocks, declaration, n_rows or None, dtype, chunk_rows, overwrite=overwrite, progress=progress
    )
    X = zarr.open_group(str(path), mode="r")["X"]
    assert isinstance(X, zarr.Array)
    seconds = time.perf_counter() - started
    return IngestReport(path, X.shape[0], X.shape[1], X.nchunks, seconds)


def to_block(batch: Batch, declaration: Declaration, dtype: str = "float32") -> Block:
    """Return (X, y) of one batch: numeric columns as they are, categories as indicators; private.

    With code c of a row and K labels, the group's columns are ``[c = 0], ..., [c = K − 1]``; all zero for an
    undeclared category, all NaN for a missing one.
    """
    y = batch[declaration.target]
    X = np.zeros((len(y), declaration.n_features), dtype=dtype)
    position = {name: j for j, name in enumerate(declaration.feature_names)}
    for source, labels in declaration.categories:
        codes = batch[source]
        columns = np.array([position.pop(indicator_name(source, label)) for label in labels])
        known = np.flatnonzero(codes >= 0)
        X[known, columns[codes[known]]] = 1
        X[np.ix_(np.flatnonzero(codes == MISSING), columns)] = np.nan
    with np.errstate(over="ignore"):  # a warning would tell of a value
        for name, j in position.items():
            X[:, j] = batch[name]
        return X, y.astype(dtype)


def columns_of(declaration: Declaration) -> Columns:
    """Return the source columns that a declaration needs: numeric ones, the target last, then categorical."""
    made = {indicator_name(source, label) for source, labels in declaration.categories for label in labels}
    numeric = [name for name in declaration.feature_names if name not in made]
    return Columns((*numeric, declaration.target), dict(declaration.categories))


def _require(module: str) -> None:
    if find_spec(module) is None:
        raise StoreError(f"{module} is needed to read this source. Run: pip install 'fastdp-dask[ingest]'")
