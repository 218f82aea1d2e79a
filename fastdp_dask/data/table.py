"""Parquet files as a data set, without a store: each task reads some row groups and makes its rows of X and y."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from dask.base import tokenize

from fastdp_dask.data.arrow_reader import check_schema, parquet_groups, parquet_rows
from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.bounds_file import read_declaration
from fastdp_dask.data.columns import columns_of, to_block
from fastdp_dask.data.readers import Columns, find_files
from fastdp_dask.data.store import Store
from fastdp_dask.errors import ArgumentError, DataShapeError

_ROWS = 65536  # neighbouring row groups are read by one task up to here
_SUFFIXES = (".parquet", ".pq")


class _Piece(NamedTuple):
    """What one task reads."""

    file: str
    groups: tuple[int, ...]
    rows: int


def is_table(source: str | Path) -> bool:
    """Whether `source` names Parquet files, by its suffix, or a folder of them; anything else is a store."""
    if str(source).lower().endswith(_SUFFIXES):
        return True
    folder = Path(source)
    return folder.is_dir() and not (folder / "zarr.json").exists() and any(
        file.suffix.lower() in _SUFFIXES for file in folder.iterdir()
    )  # fmt: skip


def open_table(
    source: str | Path,
    *,
    bounds: Declaration | Mapping[str, Any] | str | Path,
    target: str | None = None,
    features: Sequence[str] | None = None,
    dtype: str = "float32",
) -> Store:
    """Open Parquet files as a data set, from their footers alone.

    Every pass of a fit reads and decodes the files anew, and a column of texts costs more than its indicators: with
    more than a few passes, or slow storage, `ingest` pays.  The rows are those that `ingest` would write, bit for bit.

    Parameters
    ----------
    source : path or glob
        A Parquet file, or a folder of them; read in sorted order.
    bounds, target, features
        As in `read_declaration`.
    dtype : "float32" or "float64"

    Returns
    -------
    Store
        `X` and `y` in chunks of whole row groups.  Its `source` changes when a file is written again.

    Raises
    ------
    ArgumentError, BoundsError, DataShapeError, DataTypeError, StoreError
        As in `ingest`.
    """
    declaration = read_declaration(bounds, target=target, features=features)
    files, kind = find_files(source)
    if kind != "parquet":
        raise ArgumentError(
            f"source must be Parquet files to be fitted without a store, got {kind} at {source}. Ingest it first."
        )
    columns = columns_of(declaration)
    pieces: list[_Piece] = []
    for file in files:
        schema, groups = parquet_groups(file)
        check_schema(file, schema, columns)
        pieces += _pieces(str(file.resolve()), groups)
    n_rows = sum(piece.rows for piece in pieces)
    if n_rows == 0:
        raise DataShapeError(f"source must hold at least one row, got none in {source}. Check how it was written.")
    marks = [[str(file.resolve()), os.stat(file).st_mtime_ns] for file in files]
    both = _lazy(pieces, columns, declaration, np.dtype(dtype), tokenize(marks, declaration.to_dict(), dtype))
    table_id = hashlib.sha256(repr(marks).encode()).hexdigest()[:32]
    path = files[0].resolve() if len(files) == 1 else Path(str(source)).absolute()
    return Store(path, both[:, :-1], both[:, -1], declaration, n_rows, table_id)


def _pieces(file: str, groups: Sequence[int]) -> list[_Piece]:
    """Runs of row groups; one without a row belongs to nobody."""
    made: list[_Piece] = []
    for k, rows in enumerate(groups):
        if made and made[-1].rows + rows <= _ROWS:
            made[-1] = _Piece(file, (*made[-1].groups, k), made[-1].rows + rows)
        elif rows:
            made.append(_Piece(file, (k,), rows))
    return made


def _lazy(
    pieces: Sequence[_Piece], columns: Columns, declaration: Declaration, dtype: np.dtype[Any], token: str
) -> Any:
    """X and y side by side, so that a task that wants both reads a piece once."""
    listed = np.empty(len(pieces), dtype=object)
    listed[:] = pieces
    return da.map_blocks(
        partial(_load, columns=columns, declaration=declaration, dtype=dtype),
        da.from_array(listed, chunks=1, name=f"pieces-{token}"),
        name=f"parquet-{token}",
        chunks=(tuple(piece.rows for piece in pieces), (declaration.n_features + 1,)),
        new_axis=1,
        dtype=dtype,
        meta=np.empty((0, 0), dtype=dtype),
    )


def _load(
    pieces: np.ndarray[Any, Any], columns: Columns, declaration: Declaration, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    (piece,) = pieces
    X, y = to_block(parquet_rows(Path(piece.file), piece.groups, columns), declaration, dtype.name)
    return np.concatenate([X, y[:, None]], axis=1)
