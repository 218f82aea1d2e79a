"""Parquet and Arrow files as a stream of batches; every cell by a rule of its own, as in `readers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from fastdp_dask.data.remote import File, opened
from fastdp_dask.errors import DataTypeError


def read_parquet(files: Sequence[File], columns: Columns, skip: int = 0) -> tuple[Iterator[Batch], int]:
    """Return batches of Parquet files after `skip` rows, and the number of all rows; all schemas are checked first."""
    lengths = []
    for file in files:
        schema, groups = parquet_groups(file)
        check_schema(file, schema, columns)
        lengths.append(groups)
    return _parquet_batches(files, lengths, columns, skip), sum(map(sum, lengths))


def parquet_groups(file: File) -> tuple[Any, list[int]]:
    """Schema of a Parquet file, and the rows of each of its row groups; from its footer, public."""
    import pyarrow.parquet as pq

    (head,) = quietly(file, partial(read_once, lambda path: pq.read_metadata(opened(path)), file))
    return head.schema.to_arrow_schema(), [head.row_group(k).num_rows for k in range(head.num_row_groups)]


def parquet_rows(file: File, groups: Sequence[int], columns: Columns) -> Batch:
    """Return the rows of some row groups as one batch."""
    import pyarrow.parquet as pq

    def read(path: File) -> Any:
        with pq.ParquetFile(opened(path)) as table:
            return table.read_row_groups(list(groups), columns=list(columns.names), use_threads=False)

    (table,) = quietly(file, partial(read_once, read, file))
    return arrow_batch(table.combine_chunks(), columns)


def _parquet_batches(
    files: Sequence[File], lengths: Sequence[Sequence[int]], columns: Columns, skip: int
) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    for file, rows in zip(files, lengths, strict=True):
        first = 0
        while first < len(rows) and skip >= rows[first]:  # whole row groups need not be read
            skip -= rows[first]
            first += 1
        if first == len(rows):
            continue

        def batches(file: File = file, wanted: Sequence[int] = range(first, len(rows))) -> Iterator[Any]:
            with pq.ParquetFile(opened(file)) as table:
                yield from table.iter_batches(columns.batch_rows, row_groups=list(wanted), columns=list(columns.names))

        yield from _after(skip, quietly(file, batches), columns)
        skip = 0


def _after(skip: int, batches: Iterator[Any], columns: Columns) -> Iterator[Batch]:
    """Convert record batches but for the first `skip` rows."""
    for batch in batches:
        if skip < batch.num_rows:
            yield arrow_batch(batch.slice(skip), columns)
        skip = max(0, skip - batch.num_rows)


def read_arrow(files: Sequence[File], columns: Columns, skip: int = 0) -> Iterator[Batch]:
    """Yield batches of Arrow files (Feather version 2, or a stream) after `skip` rows; schemas are checked first."""
    for file in files:
        (schema,) = quietly(file, partial(read_once, lambda path: _open_arrow(path)[0], file))
        check_schema(file, schema, columns)
    return _after(skip, _record_batches(files, columns), columns)


def _open_arrow(file: File) -> tuple[Any, Iterator[Any]]:
    """Schema and record batches of a file, mapped into memory if it is on this machine."""
    import pyarrow as pa

    mapped = pa.memory_map(str(file)) if isinstance(file, Path) else pa.PythonFile(file.open(), "r")
    try:
        reader = pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return stream.schema, iter(stream)
    return reader.schema, (reader.get_batch(k) for k in range(reader.num_record_batches))


def _record_batches(files: Sequence[File], columns: Columns) -> Iterator[Any]:
    for file in files:

        def batches(file: File = file) -> Iterator[Any]:
            for record_batch in _open_arrow(file)[1]:
                for start in range(0, record_batch.num_rows, columns.batch_rows):
                    yield record_batch.slice(start, columns.batch_rows)

        yield from quietly(file, batches)


def arrow_batch(table: Any, columns: Columns) -> Batch:
    """Return the batch of an Arrow table or record batch."""
    batch = {name: _numbers(_one(table.column(name))) for name in columns.numeric}
    for name, labels in columns.categorical.items():
        codes, cells = _distinct(_one(table.column(name)))
        batch[name] = category_codes(codes, cells, labels)
    for name in columns.dates:
        batch[name] = _dates(_one(table.column(name)))
    return batch


def _one(cells: Any) -> Any:
    """The cells of a column as one array."""
    return cells.combine_chunks() if hasattr(cells, "combine_chunks") else cells


def _distinct(cells: Any) -> tuple[Array, list[Any]]:
    """Codes (-1: null) and the distinct cells that they stand for."""
    import pyarrow as pa

    cells = cells if hasattr(cells, "dictionary") else cells.dictionary_encode()
    indices = cells.indices.cast(pa.int64())  # they may be unsigned
    return indices.fill_null(-1).to_numpy(zero_copy_only=False), _dictionary_values(cells.dictionary)


def _dictionary_values(dictionary: Any) -> list[Any]:
    # Text is decoded here: an invalid byte in one record must neither raise nor show.
    import pyarrow as pa

    if pa.types.is_string(dictionary.type):
        raw = dictionary.cast(pa.binary())
    elif pa.types.is_large_string(dictionary.type):
        raw = dictionary.cast(pa.large_binary())
    elif str(dictionary.type) == "string_view":
        raw = dictionary.cast(pa.binary_view())
    else:
        return list(dictionary.to_pylist())
    return [None if value is None else value.decode(errors="replace") for value in raw.to_pylist()]


def check_schema(file: File, schema: Any, columns: Columns) -> None:
    """Refuse a file whose columns are absent or of a type that cannot be read as declared."""
    import pyarrow as pa

    place = positions_of(file, schema.names, columns.names)
    for name in columns.names:
        kind = declared = schema.field(place[name]).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        is_number = is_number or pa.types.is_decimal(kind) or pa.types.is_null(kind)
        is_text = str(kind) in ("string", "large_string", "string_view")
        is_date = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        if name in columns.dates:
            if not (is_date or is_text):
                raise DataTypeError(
                    f"{file}: column {name!r} must hold dates or ISO texts to be a date, got {declared}. Convert it."
                )
        elif name in columns.categorical:
            if not (is_number or is_text):
                raise DataTypeError(
                    f"{file}: column {name!r} must hold text or numbers to be categorical, got {declared}. Convert it."
                )
        elif not is_number:
            remedy = "Declare date = [...] for it" if is_date else "Declare its categories"
            raise DataTypeError(
                f"{file}: column {name!r} must be numeric, got {declared}. {remedy} in the bounds file, or convert it."
            )


def _numbers(cells: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_float16(cells.type):  # older Arrow has no cast from it
        return np.asarray(cells.to_numpy(zero_copy_only=False), dtype=np.float64)
    return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def _dates(cells: Any) -> Array:
    """Dates and timestamps by the clock of their own zone, texts by `dates.parse`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return date_cells(*_distinct(cells))
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    found = moments(cells.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        local = pc.local_timestamp(pa.array(found, pa.timestamp("us", kind.tz)))  # would wrap around at either end
        found = moments(local.to_numpy(zero_copy_only=False))
    return found
