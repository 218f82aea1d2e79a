"""Cells at the ends of their types: one record decides no error and no warning, only its own row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from fastdp_dask.data import dates, ingest, open_store, open_table
from fastdp_dask.data.arrow_reader import arrow_batch
from fastdp_dask.data.readers import MISSING, UNDECLARED, Columns

Y = {"name": "y", "lower": 0, "upper": 1}
ENDS = np.iinfo(np.int64)
UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "1000000ns", "7D")
# Ends of the type, and where seconds, milliseconds and days begin to overflow as microseconds.
COUNTS = sorted(
    {ENDS.min + k for k in range(1, 4)}
    | {ENDS.max - k for k in range(3)}
    | {sign * (ENDS.max // per) + k for per in (1000, 10**6, 86_400 * 10**6) for sign in (-1, 1) for k in (-1, 0, 1)}
    | {sign * 2**k for sign in (-1, 1) for k in range(0, 63, 3)}
)


def exact(count: int, unit: str) -> datetime | None:
    """The moment, by whole numbers of any size, or None if the standard library has none."""
    digits = unit.rstrip("YMWDhmsunpfa")
    step, unit = int(digits or 1), unit[len(digits) :]
    if unit in ("Y", "M"):
        months = count * step * (12 if unit == "Y" else 1)
        year, month = 1970 + months // 12, months % 12 + 1
        return datetime(year, month, 1) if 1 <= year <= 9999 else None
    attoseconds = {"W": 604_800, "D": 86_400, "h": 3600, "m": 60, "s": 1}.get(unit, 0) * 10**18
    attoseconds = attoseconds or 10 ** {"ms": 15, "us": 12, "ns": 9, "ps": 6, "fs": 3, "as": 0}[unit]
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=count * step * attoseconds // 10**12)
    except OverflowError:
        return None


@pytest.mark.parametrize("unit", UNITS)
def test_a_moment_of_any_unit_is_exact_or_missing(unit: str) -> None:
    got = dates.moments(np.array([*COUNTS, ENDS.min]).view(f"M8[{unit}]"))
    assert got.dtype == np.dtype("M8[us]")
    assert got.tolist() == [*(exact(count, unit) for count in COUNTS), None]


def test_a_moment_without_a_unit_is_missing() -> None:
    assert np.isnat(dates.moments(np.array([0, 1, ENDS.max, ENDS.min]).view("M8"))).all()


@pytest.mark.parametrize("part", dates.LABELS)
def test_no_count_of_microseconds_has_a_code_beyond_the_labels(part: str) -> None:
    codes = dates.part_codes(np.array(COUNTS).view("M8[us]"), part, MISSING)
    assert ((codes == MISSING) | ((codes >= 0) & (codes < len(dates.LABELS[part])))).all()


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+05:30", "-12:00"])
@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "dictionary"])
def test_a_timestamp_of_any_zone_has_parts_within_their_ranges(kind: str, zone: str | None) -> None:
    unit = "us" if kind == "dictionary" else kind
    counts = [*COUNTS, -62_135_596_800 * 10**6, 253_402_300_799 * 10**6]  # first and last second, in microseconds
    cells = pa.array(counts, pa.int64()).cast(pa.timestamp(unit, zone))
    cells = cells.dictionary_encode() if kind == "dictionary" else cells
    t = arrow_batch(pa.table({"t": cells}), Columns((), {}, ("t",)))["t"]
    for part in set(dates.PARTS) - dates.NEED_BOUNDS:
        numbers = dates.part_numbers(t, part)
        low, high = dates.part_bounds(part, datetime.min, datetime.max)
        assert (np.isnan(numbers) == np.isnat(t)).all()
        assert ((numbers >= low) & (numbers <= high))[~np.isnat(t)].all()
    if unit == "ns" and zone != "UTC" and zone is not None:  # an offset does not carry the last hours round to 1677
        assert t.max() > np.datetime64("2262-04-11", "us") - np.timedelta64(1, "D")
        assert t[counts.index(ENDS.max)] > np.datetime64("2262", "us")


def as_parquet(path: Path, cells: Any) -> Path:
    pq.write_table(pa.table({"t": cells, "y": [0.0, 0.5, 1.0]}), path / "t.parquet")
    return path / "t.parquet"


def as_arrow(path: Path, cells: Any) -> Path:
    table = pa.table({"t": cells, "y": [0.0, 0.5, 1.0]})
    with pa.ipc.new_file(path / "t.arrow", table.schema) as file:
        file.write_table(table)
    return path / "t.arrow"


def as_csv(path: Path, cells: Any) -> Path:
    first, second, third = cells.cast(pa.string()).to_pylist()
    (path / "t.csv").write_text(f"t,y\n{first},0\n{second},0.5\n{third},1\n")
    return path / "t.csv"


def as_zarr(path: Path, cells: Any) -> Path:
    group = zarr.create_group(str(path / "t.zarr"), zarr_format=2)
    group.create_array("t", data=cells.to_numpy(zero_copy_only=False), chunks=(3,))
    group.create_array("y", data=np.array([0.0, 0.5, 1.0]), chunks=(3,))
    return path / "t.zarr"


@pytest.mark.parametrize("count", [ENDS.min + 1, ENDS.max])
@pytest.mark.parametrize("write", [as_parquet, as_arrow, as_csv, as_zarr], ids=lambda f: f.__name__)
def test_a_date_that_no_calendar_has_is_missing_in_every_format(
    tmp_path: Path, write: Callable[[Path, Any], Path], count: int
) -> None:
    cells = pa.array([0, count, 3_600_000_000], pa.int64()).cast(pa.timestamp("us"))
    bounds = {"target": Y, "features": {"t": {"date": ["day"], "date_categories": ["hour", "month"]}}}
    source = write(tmp_path, cells)
    ingest(source, tmp_path / "s", target="y", bounds=bounds)
    X = open_store(tmp_path / "s").X.compute()
    assert np.isnan(X).all(axis=1).tolist() == [False, True, False]
    assert X[[0, 2], 0].tolist() == [1, 1]
    assert X[[0, 2], 1:25].argmax(axis=1).tolist() == [0, 1]
    if source.suffix == ".parquet":
        np.testing.assert_array_equal(open_table(source, bounds=bounds).X.compute(), X)


def texts(kind: str, raw: list[bytes | None]) -> Any:
    """Text that was never checked: bytes under the name of a text type."""
    if kind == "string_view":
        return pa.array(raw, pa.binary_view()).view(pa.string_view())
    if kind == "dictionary":
        words = sorted({each for each in raw if each is not None})
        codes = pa.array([None if each is None else words.index(each) for each in raw], pa.int32())
        return pa.DictionaryArray.from_arrays(codes, texts("string_view", words))
    return pa.array(raw, pa.large_binary() if kind == "large_string" else pa.binary()).view(kind)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_an_invalid_byte_in_any_type_of_text_matches_nothing(tmp_path: Path, kind: str) -> None:
    columns = Columns((), {"place": ["a", "b"]}, ("t",))
    place = texts(kind, [b"a", b"\xff\xfe, longer than a view holds", None, b"b"])
    t = texts(kind, [b"2024-01-01", b"2024-01-0\xff", None, b"2024-01-02"])
    batch = arrow_batch(pa.table({"place": place, "t": t}), columns)
    assert batch["place"].tolist() == [0, UNDECLARED, MISSING, 1]
    assert batch["t"].tolist() == [datetime(2024, 1, 1), None, None, datetime(2024, 1, 2)]
    bounds = {"target": Y, "features": {"t": {"categories": ["a", "b"]}}}
    ingest(as_arrow(tmp_path, place.slice(0, 3)), tmp_path / "s", target="y", bounds=bounds)
    np.testing.assert_array_equal(open_store(tmp_path / "s").X.compute(), [[1, 0], [0, 0], [np.nan, np.nan]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("column", ["t", "y"])
def test_no_number_is_warned_of(tmp_path: Path, column: str, dtype: str) -> None:
    """A signalling NaN, an infinity, the largest and the smallest number; a warning is an error in these tests."""
    bits = [0x7FF0000000000001, 0xFFF0000000000001, 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF, 1]
    cells = {"t": np.full(5, 0.5), "y": np.full(5, 0.5)} | {column: np.array(bits, dtype=np.uint64).view(np.float64)}
    pq.write_table(pa.table(cells), tmp_path / "t.parquet")
    bounds = {"target": Y, "features": {"t": {"lower": 0, "upper": 1}}}
    ingest(tmp_path / "t.parquet", tmp_path / "s", target="y", bounds=bounds, dtype=dtype)
    for store in (open_store(tmp_path / "s"), open_table(tmp_path / "t.parquet", bounds=bounds, dtype=dtype)):
        values = store.y.compute() if column == "y" else store.X.compute()[:, 0]
        assert np.isnan(values).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.uint32(), pa.uint64()], ids=str)
def test_dictionaries_may_have_indices_of_any_type(index: Any) -> None:
    cells = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], index), pa.array(["a", "b"]))
    assert arrow_batch(pa.table({"c": cells}), Columns((), {"c": ["a", "b"]}))["c"].tolist() == [1, MISSING, 0]
