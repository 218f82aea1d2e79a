"""HDF5 files and Zarr groups as a stream of batches: named one-dimensional arrays are the columns of a table.

A two-dimensional array ``A`` of k columns stands for k columns: those of its attribute, or of its group's attribute,
``feature_names`` if that lists k names, else ``A[0]``, ``A[1]``, …  A field ``f`` of an array of records is a column
``f``.  Arrays inside groups are named by their path, as in ``survey/age``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.data.dates import moments
from fastdp_dask.data.readers import (
    Array,
    Batch,
    Columns,
    category_codes,
    date_cells,
    positions_of,
    quietly,
    read_once,
)
from fastdp_dask.errors import DataShapeError, DataTypeError

_LARGEST_READ = 2**22  # cells; batches follow stored chunks up to here, so that a chunk is decoded once


@dataclass(frozen=True)
class _Column:
    """Where a column lies: which array, and which column or field of it."""

    array: str
    part: int | str | None
    dtype: np.dtype[Any]
    rows: int


def read_arrays(files: Sequence[Path], columns: Columns, kind: str, skip: int = 0) -> tuple[Iterator[Batch], int]:
    """Return batches of HDF5 files or Zarr groups after `skip` rows, and the number of all rows.

    All layouts are checked first.
    """
    rows = 0
    places = []
    for file in files:
        (place,) = quietly(file, partial(read_once, partial(_layout, kind), file))
        positions_of(file, [name for name, _ in place], columns.names)
        places.append({name: column for name, column in place if name in columns.names})
        rows += _checked(file, places[-1], columns)
    return _batches(files, places, columns, kind, skip), rows


def _batches(
    files: Sequence[Path], places: Sequence[Mapping[str, _Column]], columns: Columns, kind: str, skip: int
) -> Iterator[Batch]:
    for file, place in zip(files, places, strict=True):
        total = next(iter(place.values())).rows
        for batch in quietly(file, partial(_slices, file, place, columns, kind, min(skip, total))):
            yield _to_batch(batch, columns)
        skip = max(0, skip - total)


def _slices(
    file: Path, place: Mapping[str, _Column], columns: Columns, kind: str, first: int
) -> Iterator[dict[str, Array]]:
    """Rows of the wanted columns from `first` on, each array read once for all of its columns."""
    total = next(iter(place.values())).rows
    with _opened(kind, file) as group:
        arrays = {column.array: group[column.array] for column in place.values()}
        step = max(_step(array, columns.batch_rows) for array in arrays.values())
        for start in range(first, total, step):
            read = {name: np.asarray(array[start : start + step]) for name, array in arrays.items()}
            yield {name: _part(read[column.array], column.part) for name, column in place.items()}


def _step(array: Any, batch_rows: int) -> int:
    chunk = (array.chunks or array.shape)[0]
    cells = chunk * int(np.prod(array.shape[1:]))
    return chunk * max(1, batch_rows // chunk) if cells <= _LARGEST_READ else batch_rows


def _part(rows: Array, part: int | str | None) -> Array:
    if part is None:
        return rows
    return rows[part] if isinstance(part, str) else rows[:, part]


def _to_batch(cells: Mapping[str, Array], columns: Columns) -> Batch:
    batch: Batch = {}
    with np.errstate(all="ignore"):  # a warning would tell of a value
        for name in columns.numeric:
            batch[name] = cells[name].astype(np.float64)
        for name, labels in columns.categorical.items():
            codes, distinct = _distinct(cells[name])
            batch[name] = category_codes(codes, distinct, labels)
        for name in columns.dates:
            if cells[name].dtype.kind == "M":
                batch[name] = moments(cells[name])
            else:
                batch[name] = date_cells(*_distinct(cells[name]))
    return batch


def _distinct(cells: Array) -> tuple[Array, list[Any]]:
    values: dict[Any, int] = {}
    codes = np.array([values.setdefault(cell, len(values)) for cell in cells.tolist()], dtype=np.int64)
    return codes, [cell.decode(errors="replace") if isinstance(cell, bytes) else cell for cell in values]


def _checked(file: Path, place: Mapping[str, _Column], columns: Columns) -> int:
    """Rows of the wanted columns, if their types and lengths are those of one table."""
    for name, column in place.items():
        kind = column.dtype.kind
        if name in columns.dates:
            fits, expected = kind in "MOSUT", "dates or ISO texts to be a date"
        elif name in columns.categorical:
            fits, expected = kind in "biufOSUT", "text or numbers to be categorical"
        else:
            fits, expected = kind in "biuf", "numbers"
        if not fits:
            raise DataTypeError(
                f"{file}: column {name!r} must hold {expected}, got dtype {column.dtype}. Declare it as what it is, or "
                "convert it."
            )
    lengths = {column.rows for column in place.values()}
    if len(lengths) != 1:
        listed = ", ".join(f"{name!r} {column.rows:,}" for name, column in place.items())
        raise DataShapeError(f"{file}: columns must be of one length, got {listed} rows. Keep one table in a group.")
    return lengths.pop()


def _layout(kind: str, file: Path) -> list[tuple[str, _Column]]:
    """Name and place of every column."""
    found: list[tuple[str, _Column]] = []
    with _opened(kind, file) as group:
        for name, array in _arrays(kind, group):
            if array.dtype.names:
                found += [(f, _Column(name, f, array.dtype[f], array.shape[0])) for f in array.dtype.names]
            elif len(array.shape) == 1:
                found.append((name, _Column(name, None, array.dtype, array.shape[0])))
            elif len(array.shape) == 2:
                names = _names(name, array, group)
                found += [(n, _Column(name, j, array.dtype, array.shape[0])) for j, n in enumerate(names)]
    return found


def _names(name: str, array: Any, group: Any) -> list[str]:
    for owner in (array, group):
        listed = owner.attrs.get("feature_names")
        if listed is not None and len(listed) == array.shape[1]:
            return [each.decode() if isinstance(each, bytes) else str(each) for each in listed]
    return [f"{name}[{j}]" for j in range(array.shape[1])]


def _arrays(kind: str, group: Any) -> Iterable[tuple[str, Any]]:
    if kind == "zarr":
        members = sorted(group.members(max_depth=None), key=lambda item: item[0])
        return [(name, member) for name, member in members if hasattr(member, "shape")]
    found: list[tuple[str, Any]] = []
    group.visititems(lambda name, item: found.append((name, item)))
    return [(name, item) for name, item in found if hasattr(item, "shape")]


def _opened(kind: str, file: Path) -> AbstractContextManager[Any]:
    if kind == "zarr":
        import zarr

        return nullcontext(zarr.open_group(str(file), mode="r"))
    return _opened_hdf5(file)


@contextmanager
def _opened_hdf5(file: Path) -> Iterator[Any]:
    import h5py

    with h5py.File(file, "r") as group:
        yield group
