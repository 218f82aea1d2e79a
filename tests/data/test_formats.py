"""One table in every format gives one store; dates and gaps become what is declared; a killed ingestion goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from data_cases import NAN
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.data import Declaration, dates, ingest, open_store, read_declaration
from fastdp_dask.errors import BoundsError, DataShapeError, DataTypeError, FastDPError, StoreError

TOML = """
[target]
name = "pay"
lower = 0
upper = 100

[features.age]
lower = 18
upper = 80
missing = 40
missing_indicator = true

[features.hired]
date = ["days", "year"]
date_categories = ["weekday"]
lower = 2000-01-01
upper = 2030-01-01

[features.region]
categories = ["north", "south", "unknown"]
missing = "unknown"

[features.left]
date = "hour"
missing = 2020-01-01T12:00:00
"""

AGE = [30.0, NAN, 50.0, 60.0]
HIRED = ["2001-02-03", "2024-02-29T18:00:00", None, "1999-12-31"]
REGION = ["north", None, "elsewhere", "south"]
LEFT = ["2020-05-06T07:08:09", None, "2021-01-01", "2021-01-01T23:59:59.5"]
PAY = [1.0, 2.0, 3.0, 4.0]


def weekday(text: str) -> list[int]:
    return [int(k == datetime.fromisoformat(text).weekday()) for k in range(7)]


def days(text: str) -> float:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) / timedelta(days=1)


# age, age.missing, hired.days, hired.year, seven weekdays, three regions, left.hour
WANTED = [
    [30, 0, days(HIRED[0]), 2001, *weekday(HIRED[0]), 1, 0, 0, 7],
    [40, 1, days(HIRED[1]), 2024, *weekday(HIRED[1]), 0, 0, 1, 12],
    [50, 0, NAN, NAN, *[NAN] * 7, 0, 0, 0, 0],
    [60, 0, days(HIRED[3]), 1999, *weekday(HIRED[3]), 0, 1, 0, 23],
]


def frame() -> pd.DataFrame:
    return pd.DataFrame({"age": AGE, "hired": HIRED, "region": REGION, "left": LEFT, "pay": PAY})


def stamps(texts: list[str | None]) -> list[datetime | None]:
    return [None if text is None else datetime.fromisoformat(text) for text in texts]


def as_csv(path: Path) -> Path:
    frame().to_csv(path / "t.csv", index=False)
    return path / "t.csv"


def arrow(typed: bool) -> pa.Table:
    texts = pa.table({"age": AGE, "hired": HIRED, "region": REGION, "left": LEFT, "pay": PAY})
    if not typed:
        return texts
    hired = pa.array(stamps(HIRED), pa.timestamp("ns", "UTC"))
    left = pa.array(stamps(LEFT), pa.timestamp("ms"))
    return texts.set_column(1, "hired", hired).set_column(3, "left", left)


def as_parquet(path: Path) -> Path:
    pq.write_table(arrow(True), path / "t.parquet", row_group_size=3)
    return path / "t.parquet"


def as_feather(path: Path) -> Path:
    pyarrow.feather.write_feather(arrow(False), path / "t.feather", compression="lz4", chunksize=3)
    return path / "t.feather"


def as_stream(path: Path) -> Path:
    with pa.ipc.new_stream(path / "t.arrow", arrow(True).schema) as stream:
        stream.write_table(arrow(True), max_chunksize=3)
    return path / "t.arrow"


def text(values: list[str | None]) -> list[str]:
    return ["" if value is None else value for value in values]


def as_hdf5(path: Path) -> Path:
    with h5py.File(path / "t.h5", "w") as group:
        numbers = group.create_dataset("numbers", data=np.array([AGE, PAY]).T, chunks=(2, 2), compression="gzip")
        numbers.attrs["feature_names"] = ["age", "pay"]
        for name, values in (("hired", HIRED), ("region", REGION), ("left", LEFT)):
            group[name] = text(values)
    return path / "t.h5"


def as_records(path: Path) -> Path:
    kinds = [("age", "f8"), ("hired", "S30"), ("region", "S10"), ("left", "S30"), ("pay", "i4")]
    columns = zip(AGE, text(HIRED), text(REGION), text(LEFT), map(int, PAY), strict=True)
    with h5py.File(path / "t.hdf5", "w") as group:
        group["table"] = np.array(list(columns), dtype=kinds)
    return path / "t.hdf5"


def as_zarr(path: Path) -> Path:
    group = zarr.create_group(str(path / "t.zarr"))
    for name, values in (("age", AGE), ("pay", PAY)):
        group.create_array(name, data=np.array(values), chunks=(3,))
    for name, values in (("hired", HIRED), ("left", LEFT), ("region", REGION)):
        group.create_array(name, data=np.array(text(values), dtype="U30"), chunks=(2,))
    return path / "t.zarr"


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize(
    "write", [as_csv, as_parquet, as_feather, as_stream, as_hdf5, as_records, as_zarr], ids=lambda f: f.__name__
)
def test_every_format_gives_the_same_store(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    (tmp_path / "bounds.toml").write_text(TOML)
    report = ingest(write(tmp_path), tmp_path / "s", target="pay", bounds=tmp_path / "bounds.toml", dtype="float64")
    store = open_store(tmp_path / "s")
    np.testing.assert_array_equal(store.X.compute(), np.array(WANTED))
    np.testing.assert_array_equal(store.y.compute(), PAY)
    assert (report.rows, report.columns) == (4, 15)
    assert store.declaration == read_declaration(tmp_path / "bounds.toml")
    assert store.declaration.sources == ("age", "hired", "region", "left")


# -- declarations ----------------------------------------------------------------------------------------------


def test_bounds_of_dates_and_round_trips(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(TOML)
    declared = read_declaration(tmp_path / "b.toml")
    bounds = dict(zip(declared.feature_names, declared.bounds_X, strict=True))
    assert bounds["hired.days"] == (days("2000-01-01"), days("2030-01-01"))
    assert bounds["hired.year"] == (2000, 2030)
    assert bounds["left.hour"] == (0, 23)
    assert bounds["age.missing"] == (0, 1)
    assert len(declared.groups) == 2
    assert Declaration.from_dict(declared.to_dict()) == declared
    assert read_declaration(declared) == declared
    assert read_declaration(declared, features=["left", "age"]).feature_names == ("left.hour", "age", "age.missing")


WRONG = [
    ({"date": ["days"]}, r"'x': lower must be a date such as 2024-01-31, got nothing"),
    ({"date": ["days"], "lower": 3, "upper": date(2000, 1, 1)}, r"lower must be a date .*, got 3"),
    ({"date": ["days"], "lower": "2001-01-01", "upper": date(2000, 1, 1)}, r"lower < upper"),
    ({"date": ["century"]}, r"date must list some of days, year, .*got 'century'"),
    ({"date": []}, r"date must list at least one"),
    ({"date_categories": ["days"]}, r"date_categories must list some of month, weekday, hour"),
    ({"date": ["hour"], "lower": date(2000, 1, 1)}, r"lower and upper must be left out.* got them for hour"),
    ({"date": ["hour"], "date_categories": ["hour"]}, r"parts of a date must not repeat"),
    ({"date": ["hour"], "missing": 3}, r"missing must be a date"),
    ({"lower": 0, "upper": 1, "missing": 2}, r"missing must be a number inside its bounds, got 2\.0"),
    ({"lower": 0, "upper": 1, "missing": "x"}, r"missing must be a number inside its bounds, got 'x'"),
    ({"lower": 0, "upper": 1, "missing_indicator": True}, r"missing_indicator needs a public value"),
    ({"lower": 0, "upper": 1, "missing": 0, "missing_indicator": 1}, r"missing_indicator must be true or false"),
    ({"categories": ["a"], "missing": "b"}, r"missing must be one of its categories, got 'b'"),
]


@pytest.mark.parametrize(("entry", "message"), WRONG)
def test_what_is_declared_wrongly_is_named(entry: dict[str, Any], message: str) -> None:
    table = {"target": {"name": "y", "lower": 0, "upper": 1}, "features": {"x": entry}}
    with pytest.raises(BoundsError, match=message):
        read_declaration(table)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_parts_of_a_date_are_those_of_the_standard_library(moment: datetime) -> None:
    cells = dates.parse([moment.isoformat(), "no date", ""])
    assert np.isnat(cells).tolist() == [False, True, True]
    wanted = {
        "year": moment.year, "month": moment.month, "day": moment.day, "hour": moment.hour,
        "weekday": moment.weekday(), "dayofyear": moment.timetuple().tm_yday, "days": dates.days(moment),
    }  # fmt: skip
    assert set(wanted) == set(dates.PARTS)
    for part, number in wanted.items():
        got = dates.part_numbers(cells, part)
        # Microseconds of 8,000 years have 58 bits, a double has 53.
        assert got[0] == pytest.approx(number, rel=1e-15, abs=1e-9)
        assert np.isnan(got[1:]).all()
    for part, labels in dates.LABELS.items():
        assert dates.part_codes(cells, part, -2).tolist() == [
            labels.index({"weekday": labels[moment.weekday()]}.get(part, str(wanted[part]))), -2, -2,
        ]  # fmt: skip


def test_an_hour_is_that_of_the_clock_on_the_wall(tmp_path: Path) -> None:
    zoned = pa.array([datetime(2024, 7, 1, 12)], pa.timestamp("s", "Asia/Tokyo"))  # noon UTC, nine in the evening there
    pq.write_table(pa.table({"t": zoned, "y": [1.0]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("t,y\n2024-07-01T21:00:00+09:00,1\n")
    table = {"target": {"name": "y", "lower": 0, "upper": 1}, "features": {"t": {"date": "hour"}}}
    for name in ("t.parquet", "t.csv"):
        ingest(tmp_path / name, tmp_path / f"{name}.s", target="y", bounds=table)
        assert open_store(tmp_path / f"{name}.s").X.compute().tolist() == [[21.0]]


# -- what does not fit --------------------------------------------------------------------------------------------


def test_layouts_that_are_no_table_are_refused_without_a_value(tmp_path: Path) -> None:
    table = {"target": {"name": "y", "lower": 0, "upper": 1}, "features": {"A[1]": {"lower": 0, "upper": 1}}}

    def refused(error: type[FastDPError], message: str) -> None:
        with pytest.raises(error, match=message) as caught:
            ingest(tmp_path / "t.h5", tmp_path / "s", target="y", bounds=table)
        assert "7315" not in str(caught.value)
        assert not (tmp_path / "s").exists()

    with h5py.File(tmp_path / "t.h5", "w") as group:
        group["A"], group["y"] = np.full((3, 2), 7315.25), np.ones(2)
    refused(DataShapeError, r"t\.h5: columns must be of one length, got 'A\[1\]' 3, 'y' 2 rows")
    with h5py.File(tmp_path / "t.h5", "w") as group:
        group["A"], group["y"] = np.full((3, 2), 7315.25), ["7315.25"] * 3
    refused(DataTypeError, r"t\.h5: column 'y' must hold numbers, got dtype object")
    with h5py.File(tmp_path / "t.h5", "w") as group:
        group["A"] = np.full((3, 2), 7315.25)
    refused(DataShapeError, r"t\.h5: the header has no column 'y' \(got 2 columns\)")
    (tmp_path / "t.h5").write_bytes((tmp_path / "t.h5").read_bytes()[:200])
    refused(StoreError, r"t\.h5 cannot be read \(OSError\)")
    pq.write_table(pa.table({"A[1]": [datetime(2020, 1, 1)], "y": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(DataTypeError, match=r"'A\[1\]' must be numeric, got timestamp.*Declare date = "):
        ingest(tmp_path / "t.parquet", tmp_path / "s", target="y", bounds=table)


# -- an ingestion that is killed ----------------------------------------------------------------------------------

INGEST = """
import sys
from fastdp_dask.data import ingest
bounds = {"target": {"name": "y", "lower": 0, "upper": 1}, "features": {"x": {"lower": 0, "upper": 1}}}
ingest(sys.argv[1], sys.argv[2], target="y", bounds=bounds, chunk_rows=1024)
"""
BOUNDS = {"target": {"name": "y", "lower": 0, "upper": 1}, "features": {"x": {"lower": 0, "upper": 1}}}
ROWS = 50_000


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    generator = np.random.default_rng(0)
    table = pa.table({"x": generator.uniform(size=ROWS), "y": np.arange(ROWS) / ROWS})
    pq.write_table(table, folder / "t.parquet", row_group_size=8_000)
    table.to_pandas().to_csv(folder / "t.csv", index=False)
    pyarrow.feather.write_feather(table, folder / "t.feather", chunksize=8_000)
    with h5py.File(folder / "t.h5", "w") as group:
        group["x"], group["y"] = table["x"].to_numpy(), table["y"].to_numpy()
    return {kind: folder / f"t.{kind}" for kind in ("csv", "parquet", "feather", "h5")}


def kill_midway(source: Path, dest: Path) -> int:
    """Start an ingestion, kill it once a third is there; return the rows that were."""
    process = subprocess.Popen([sys.executable, "-c", INGEST, str(source), str(dest)])
    for _ in range(60_000):
        if len(list(dest.glob("X/c/*"))) > ROWS // 1024 // 3:
            break
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the ingestion ended before it could be killed"
    return len(list(dest.glob("X/c/*"))) * 1024


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_killed_ingestion_goes_on_where_it_was(tmp_path: Path, sources: dict[str, Path], kind: str) -> None:
    there = kill_midway(sources[kind], tmp_path / "s")
    with pytest.raises(StoreError, match="incomplete"):
        open_store(tmp_path / "s")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("X/c/*/0")}
    seen: list[int] = []
    ingest(
        sources[kind], tmp_path / "s", target="y", bounds=BOUNDS, chunk_rows=1024,
        progress=lambda rows, _: seen.append(rows),
    )  # fmt: skip
    assert seen[0] > there - 3 * 1024  # nothing before it was handed over again
    # All chunks but the last two, of which the kill may have cut one, are those of the first attempt.
    assert sum(path.stat().st_mtime_ns == stamp for path, stamp in kept.items()) >= len(kept) - 2
    check_whole(tmp_path, sources[kind])


def check_whole(tmp_path: Path, source: Path) -> None:
    """The store that went on is the one that was never stopped."""
    ingest(source, tmp_path / "whole", target="y", bounds=BOUNDS, chunk_rows=1024)
    went_on, whole = open_store(tmp_path / "s"), open_store(tmp_path / "whole")
    np.testing.assert_array_equal(went_on.X.compute(), whole.X.compute())
    np.testing.assert_array_equal(went_on.y.compute(), whole.y.compute())
    attributes = dict(zarr.open_group(str(tmp_path / "s"), mode="r").attrs)
    assert attributes.keys() == dict(zarr.open_group(str(tmp_path / "whole"), mode="r").attrs).keys()


class Stopped(BaseException):
    """Stands for a request to stop."""


def stop(rows: int, _: int | None) -> None:
    if rows > ROWS // 2:
        raise Stopped


@pytest.mark.parametrize("kind", ["feather", "h5"])
def test_a_stopped_ingestion_goes_on_where_it_was(tmp_path: Path, sources: dict[str, Path], kind: str) -> None:
    options: dict[str, Any] = {"target": "y", "bounds": BOUNDS, "chunk_rows": 1024}
    with pytest.raises(Stopped):
        ingest(sources[kind], tmp_path / "s", progress=stop, **options)
    seen: list[int] = []
    ingest(sources[kind], tmp_path / "s", progress=lambda rows, _: seen.append(rows), **options)
    assert seen[0] > ROWS // 2 - 3 * 1024
    check_whole(tmp_path, sources[kind])


def test_other_bounds_or_files_do_not_go_on(tmp_path: Path, sources: dict[str, Path]) -> None:
    def take(**options: Any) -> None:
        chosen = {"source": sources["parquet"], "bounds": BOUNDS, **options}
        ingest(dest=tmp_path / "s", target="y", chunk_rows=1024, **chosen)

    with pytest.raises(Stopped):
        take(progress=stop)
    other = {**BOUNDS, "features": {"x": {"lower": 0, "upper": 2}}}
    for changed in ({"bounds": other}, {"source": sources["csv"]}, {"dtype": "float64"}):
        with pytest.raises(StoreError, match="exists already"):
            take(**changed)
    take(bounds=other, overwrite=True)
    assert open_store(tmp_path / "s").n_rows == ROWS
