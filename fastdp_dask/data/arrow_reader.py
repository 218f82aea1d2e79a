"""Parquet and Arrow files as a stream of batches; every cell by a rule of its own, as in `readers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.data.readers import Array, Batch, Columns, category_codes, positions_of, quietly, read_once
from fastdp_dask.errors import DataTypeError


def read_parquet(files: Sequence[Path], columns: Columns) -> tuple[Iterator[Batch], int]:
    """Return batches of Parquet files and the number of rows; all schemas are checked first."""
    import pyarrow.parquet as pq

    rows = 0
    for file in files:
        (head,) = quietly(file, partial(read_once, pq.read_metadata, file))
        _check_schema(file, head.schema.to_arrow_schema(), columns)
        rows += head.num_rows
    return _parquet_batches(files, columns), rows


def _parquet_batches(files: Sequence[Path], columns: Columns) -> Iterator[Batch]:
    import pyarrow.parquet as pq

    for file in files:

        def batches(file: Path = file) -> Iterator[Any]:
            with pq.ParquetFile(file) as table:
                yield from table.iter_batches(columns.batch_rows, columns=list(columns.names))

        for table in quietly(file, batches):
            batch = {name: _arrow_numbers(table.column(name)) for name in columns.numeric}
            for name, labels in columns.categorical.items():
                cells = table.column(name)
                cells = cells if hasattr(cells, "dictionary") else cells.dictionary_encode()
                codes = cells.indices.fill_null(-1).to_numpy(zero_copy_only=False)
                batch[name] = category_codes(codes, _dictionary_values(cells.dictionary), labels)
            yield batch


def _dictionary_values(dictionary: Any) -> list[Any]:
    # Text is decoded here: an invalid byte in one record must neither raise nor show.
    import pyarrow as pa

    if pa.types.is_string(dictionary.type):
        raw = dictionary.cast(pa.binary())
    elif pa.types.is_large_string(dictionary.type):
        raw = dictionary.cast(pa.large_binary())
    else:
        return list(dictionary.to_pylist())
    return [None if value is None else value.decode(errors="replace") for value in raw.to_pylist()]


def _check_schema(file: Path, schema: Any, columns: Columns) -> None:
    import pyarrow as pa

    place = positions_of(file, schema.names, columns.names)
    for name in columns.names:
        kind = declared = schema.field(place[name]).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        is_number = is_number or pa.types.is_decimal(kind) or pa.types.is_null(kind)
        is_text = str(kind) in ("string", "large_string", "string_view")
        if name in columns.categorical and not (is_number or is_text):
            raise DataTypeError(
                f"{file}: column {name!r} must hold text or numbers to be categorical, got {declared}."
            )
        if name not in columns.categorical and not is_number:
            raise DataTypeError(
                f"{file}: column {name!r} must be numeric, got {declared}. "
                "Declare its categories in the bounds file, or convert it."
            )


def _arrow_numbers(cells: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_float16(cells.type):  # older Arrow has no cast from it
        return cells.to_numpy(zero_copy_only=False).astype(np.float64)
    return cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
