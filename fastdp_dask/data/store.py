"""The data set on disk: a Zarr group with X, y and what is declared about them, opened lazily.

Layout: arrays ``X`` (n, d) and ``y`` (n,), float32 or float64, in chunks of whole rows (a power of two, all
columns in one chunk); group attributes ``feature_names, target, bounds_X, bounds_y, groups, categories,
n_rows``, ``store_id`` and ``complete``, set to true by the last write.  A missing value is NaN, and so is the fill
value: a chunk that somebody chose to do without stands for blanked records, never for rows of zeros.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from dask.base import tokenize

from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.here import read
from fastdp_dask.data.location import Location, Options, located
from fastdp_dask.errors import BoundsError, DataShapeError, DataTypeError, StoreError

_ATTRIBUTES = ("feature_names", "target", "bounds_X", "bounds_y", "n_rows")
_REMEDY = "Write the store again (fastdp ingest with overwrite), or restore it from a copy."


@dataclass(frozen=True, eq=False)
class Store:
    """An opened data set; reading happens when a task asks for rows.

    Attributes
    ----------
    path : Path or str
        The Zarr group, or its URL; public.
    X : dask array (n, d)
        Private.  One chunk per stored chunk of rows, all columns in one chunk; float32 or float64.
    y : dask array (n,)
        Private.  Chunks of rows as in X.
    declaration : Declaration
        Names, bounds and groups; public.
    n_rows : int
        Number of records n; public.
    store_id : str
        Drawn at random whenever `write_store` writes; empty for a store written elsewhere.  Public.
    """

    path: Path | str
    X: Any
    y: Any
    declaration: Declaration
    n_rows: int
    store_id: str = ""

    @property
    def source(self) -> str:
        """What `LinearRegression.fit` takes as `source`: a store that was written again is other data.

        Its path and its random id, so that nothing in it depends on a value.  A chunk that is edited in place goes
        unnoticed: telling would take a digest of private rows.
        """
        return f"{self.path}#{self.store_id}" if self.store_id else str(self.path)


class _Rows:
    """Rows of one stored array, read on request; pickles as a location, so tasks stay small."""

    ndim: int

    def __init__(
        self, place: Location, name: str, stamp: str, shape: tuple[int, ...], stored: np.dtype[Any]
    ) -> None:
        self.place, self.name, self.stamp, self.shape, self.ndim = place, name, stamp, shape, len(shape)
        self.dtype = np.promote_types(stored, np.float32)  # exact: whole numbers above 16 bits get float64

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        failure = ""
        try:
            array = _open_array(self.place, self.name, self.stamp)
            rows: np.ndarray[Any, Any] = np.asarray(array[index] if self.place.local is None else read(array, index))
        except MemoryError:
            raise
        except Exception as error:  # the text of a codec's error may hold a checksum of private rows
            failure = type(error).__name__
        if failure:
            raise StoreError(
                f"array {self.name} of store {self.place} cannot be read ({failure}): "
                f"a chunk is corrupt or the store was changed after it was opened. {_REMEDY}"
            )
        return rows.astype(self.dtype, copy=False)


@lru_cache(maxsize=16)
def _open_array(place: Location, name: str, stamp: str) -> zarr.Array:
    """Return an open array; `stamp` keeps an array that was replaced on disk out of the cache."""
    array = zarr.open_group(place.url, mode="r", storage_options=place.zarr_options)[name]
    if not isinstance(array, zarr.Array):
        raise TypeError(name)
    return array


def open_store(
    path: str | Path, *, allow_missing_chunks: bool = False, storage_options: Options | None = None
) -> Store:
    """Open a data set without reading a row of it.

    Parameters
    ----------
    path : path of a Zarr group, or its URL: ``file://``, ``s3://``, ``gs://`` or ``az://``
    allow_missing_chunks : bool
        False refuses a store whose chunk files are not all there: Zarr reads an absent chunk as its fill
        value and says nothing.  True accepts that; `write_store` fills with NaN, so such records are blanked.
    storage_options : mapping, optional
        For a URL: keyword arguments of its fsspec file system.  They travel to the workers inside the tasks, and
        nowhere else; credentials that every worker finds in its own environment need not.

    Returns
    -------
    Store
        Whole numbers, booleans and float16 of stores written elsewhere are widened to floats.

    Raises
    ------
    ArgumentError
        The URL is of no known storage, or holds a user or a query.
    StoreError
        Missing or interrupted store, missing or malformed attributes, missing chunks; the storage cannot be reached, or
        the package for it is not installed.
    DataTypeError
        X or y is not numeric (string, object, complex, datetime).
    DataShapeError
        X and y do not fit together or do not fit the attributes.

    Notes
    -----
    Chunk files are counted by name; only public facts decide whether this function raises.
    """
    root = located("data", path, storage_options)
    group = _open_group(root)
    attributes = dict(group.attrs)
    if attributes.get("complete", True) is not True:
        raise StoreError(
            f"store {root} is incomplete: its writing was interrupted. Run the same fastdp ingest again, which goes "
            "on, or write the store again with overwrite."
        )
    X, y = _member(root, group, "X", 2), _member(root, group, "y", 1)
    declaration, n_rows = _read_attributes(root, attributes)
    for wanted, got, what in (
        (n_rows, X.shape[0], "rows of X against n_rows"),
        (n_rows, y.shape[0], "length of y against n_rows"),
        (declaration.n_features, X.shape[1], "columns of X against feature_names"),
    ):
        if wanted != got:
            raise DataShapeError(f"store {root}: {what}: expected {wanted}, got {got}. {_REMEDY}")
    if not allow_missing_chunks:
        for name, array in (("X", X), ("y", y)):
            _refuse_missing_chunks(root, name, array)
    stamp = root.stamp()
    rows = _row_chunks(n_rows, (X.shards or X.chunks)[0])
    lazy_X = _lazy(_Rows(root, "X", stamp, X.shape, X.dtype), (rows, (X.shape[1],)))
    lazy_y = _lazy(_Rows(root, "y", stamp, y.shape, y.dtype), (rows,))
    return Store(root.shown, lazy_X, lazy_y, declaration, n_rows, str(attributes.get("store_id") or ""))


def _open_group(root: Location) -> zarr.Group:
    if not root.exists():  # asked first: a storage that cannot be reached has an error of its own
        raise StoreError(f"store {root} does not exist: expected a Zarr group. Write it with fastdp ingest.")
    try:
        return zarr.open_group(root.url, mode="r", storage_options=root.zarr_options)
    except Exception as error:  # what is read here is metadata, public; its text is of no help to a user
        kind = type(error).__name__
    raise StoreError(f"store {root} is not a readable Zarr group ({kind}). Write it with fastdp ingest.")


def _member(root: Location, group: zarr.Group, name: str, ndim: int) -> zarr.Array:
    kind = "absent"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr's remarks on dtypes that are refused below
            array = group.get(name)
    except Exception as error:  # a dtype that Zarr does not know, or damaged metadata
        array, kind = None, type(error).__name__
    if not isinstance(array, zarr.Array):
        raise StoreError(f"store {root} has no readable array {name!r} ({kind}): expected X and y. {_REMEDY}")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DataTypeError(
            f"array {name} of store {root} must be numeric, got dtype {array.dtype}. Store floats."
        )
    if array.ndim != ndim:
        raise DataShapeError(
            f"array {name} of store {root} must have {ndim} axes, got {array.ndim}. {_REMEDY}"
        )
    if min(array.shape) < 1:
        raise DataShapeError(
            f"array {name} of store {root} must have a row and a column at least, got shape {array.shape}. {_REMEDY}"
        )
    return array


def _read_attributes(root: Location, attributes: Mapping[str, Any]) -> tuple[Declaration, int]:
    absent = [name for name in _ATTRIBUTES if attributes.get(name) is None]
    if absent:
        raise StoreError(f"store {root} lacks the attributes {', '.join(absent)}. {_REMEDY}")
    try:
        declaration = Declaration.from_dict(attributes)
    except BoundsError as error:
        raise StoreError(f"store {root} has malformed attributes: {error}") from None
    n_rows = attributes["n_rows"]
    if isinstance(n_rows, bool) or not isinstance(n_rows, int):
        raise StoreError(
            f"store {root}: n_rows must be a whole number, got {type(n_rows).__name__}. {_REMEDY}"
        )
    return declaration, n_rows


def _refuse_missing_chunks(root: Location, name: str, array: zarr.Array) -> None:
    """Compare the names of files, or of keys, with the chunk grid (shards, where there are shards).

    `nchunks_initialized` answers the same question, but in quadratic time: 2.3 s at 20,000 chunks.
    """
    steps = array.shards or array.chunks
    grid = [range(-(-length // step)) for length, step in zip(array.shape, steps, strict=True)]
    held = root.names(name)
    total = missing = 0
    for position in itertools.product(*grid):
        total += 1
        missing += array.metadata.encode_chunk_key(position) not in held
    if missing:
        raise StoreError(
            f"array {name} of store {root} has {total - missing} of {total} chunks: the rest would read as "
            f"the fill value. {_REMEDY} Or pass allow_missing_chunks=True (--allow-missing-chunks) to accept that."
        )


def _row_chunks(n_rows: int, step: int) -> tuple[int, ...]:
    whole, rest = divmod(n_rows, step)
    return (step,) * whole + ((rest,) if rest else ())


def _lazy(rows: _Rows, chunks: tuple[tuple[int, ...], ...]) -> Any:
    name = f"{rows.name}-{tokenize(rows.place.url, rows.name, rows.stamp)}"
    meta = np.empty((0,) * rows.ndim, dtype=rows.dtype)  # given, so that nothing is called to find it out
    return da.from_array(rows, chunks=chunks, name=name, asarray=False, inline_array=True, meta=meta)
