"""Tables to stores: what each kind of cell becomes, and that nothing said about it depends on a cell."""

from __future__ import annotations

import gzip
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from data_cases import BOUNDS, BOUNDS_TOML, NAN

from fastdp_dask.data import IngestReport, ingest, open_store, read_declaration
from fastdp_dask.errors import BoundsError, DataShapeError, DataTypeError, FastDPError, StoreError

SECRET = "7315.25"  # a data value: no message may hold it

CSV = """id,delay,distance,origin,late
1,5,100,EWR,true
2,-3.5,7315.25,JFK,False
3,,200,LGA,1
4,12,oops,EWR,0
5,1,300,ZZZ,0
6,2,400,,0
7,3,500,NA,maybe
"""

# Columns: distance, origin=EWR, origin=JFK, origin=LGA, late.
WANTED_X = [
    [100, 1, 0, 0, 1],
    [7315.25, 0, 1, 0, 0],
    [200, 0, 0, 1, 1],
    [NAN, 1, 0, 0, 0],  # not a number
    [300, 0, 0, 0, 0],  # a category that is not declared
    [400, NAN, NAN, NAN, 0],  # a missing category
    [500, 0, 0, 0, NAN],  # "NA" is a text like any other in a categorical column
]
WANTED_Y = [5, -3.5, NAN, 12, 1, 2, 3]


def contents(path: Path) -> tuple[np.ndarray, np.ndarray]:
    store = open_store(path)
    return store.X.compute(), store.y.compute()


def check(path: Path, X: Any = WANTED_X, y: Any = WANTED_Y) -> None:
    got_X, got_y = contents(path)
    np.testing.assert_array_equal(got_X, np.array(X, "f4"))
    np.testing.assert_array_equal(got_y, np.array(y, "f4"))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(CSV)
    return tmp_path / "t.csv"


def take(source: str | Path, dest: Path, bounds: Any = BOUNDS, **options: Any) -> IngestReport:
    return ingest(source, dest, target="delay", bounds=bounds, **options)


def test_csv(csv: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    report = take(csv, tmp_path / "s", progress=lambda rows, total: seen.append((rows, total)))
    check(tmp_path / "s")
    assert open_store(tmp_path / "s").declaration == read_declaration(BOUNDS)
    assert (report.path, report.rows, report.columns, report.chunks) == (tmp_path / "s", 7, 5, 1)
    assert report.seconds > 0
    assert seen == [(7, None)]


def test_compressed_csv_and_bounds_file(tmp_path: Path) -> None:
    (tmp_path / "bounds.toml").write_text(BOUNDS_TOML)
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write(CSV)
    with zipfile.ZipFile(tmp_path / "t.csv.zip", "w") as archive:
        archive.writestr("inner.csv", CSV)
    for name in ("t.csv.gz", "t.csv.zip"):
        take(tmp_path / name, tmp_path / f"{name}.zarr", bounds=tmp_path / "bounds.toml")
        check(tmp_path / f"{name}.zarr")


def test_a_glob_keeps_the_order_of_names_and_each_file_its_own_columns(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("late,origin,distance,delay\n1,LGA,9,8\n")
    take(str(tmp_path / "*.csv"), tmp_path / "s", chunk_rows=4)
    check(tmp_path / "s", [[9, 0, 0, 1, 1], *WANTED_X], [8, *WANTED_Y])


def test_features_are_selected_in_the_order_asked_for(csv: Path, tmp_path: Path) -> None:
    take(csv, tmp_path / "s", features=["late", "distance"], dtype="float64")
    np.testing.assert_array_equal(contents(tmp_path / "s")[0], np.array(WANTED_X)[:, [4, 0]])


def test_irregular_lines_change_their_own_record_only(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(
        b"\xef\xbb\xbfdelay,distance,origin,late\r\n"
        b"1,2,EWR,0,extra,fields\r\n"
        b"3\r\n"
        b"\r\n"
        b'"4","5","JFK","1"\r\n'
        b"6,\xff\xfe,\xff,0\r\n"
        b"7,8,LGA,0"
    )
    take(tmp_path / "t.csv", tmp_path / "s")
    wanted = [[2, 1, 0, 0, 0], [NAN] * 5, [NAN] * 5, [5, 0, 1, 0, 1], [NAN, 0, 0, 0, 0], [8, 0, 0, 1, 0]]
    check(tmp_path / "s", wanted, [1, 3, NAN, 4, 6, 7])


def test_a_longer_first_record_does_not_shift_the_columns(tmp_path: Path) -> None:
    """A parser that guesses takes the surplus field for row names, and every record of the file moves."""
    (tmp_path / "t.csv").write_text("delay,id,distance,origin,late\n1,0,2,EWR,0,9\n3,0,4,JFK,1\n")
    take(tmp_path / "t.csv", tmp_path / "s")
    check(tmp_path / "s", [[2, 1, 0, 0, 0], [4, 0, 1, 0, 1]], [1, 3])


def test_a_cell_beyond_float32_is_not_spoken_of(tmp_path: Path) -> None:
    """pytest turns every warning into an error, and NumPy would warn of the overflow."""
    (tmp_path / "t.csv").write_text("delay,distance,origin,late\n1e308,-1e308,EWR,0\n")
    take(tmp_path / "t.csv", tmp_path / "s")
    check(tmp_path / "s", [[-np.inf, 1, 0, 0, 0]], [np.inf])


def parquet(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=3)
    return path


def test_parquet_columns_of_every_numeric_type(tmp_path: Path) -> None:
    types = [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]
    types += [pa.decimal128(5, 2), pa.uint64(), pa.dictionary(pa.int32(), pa.int16())]
    ones = [1, None, 0, 1]
    columns = {f"c{k}": pa.array(ones).cast(pa.int16()) for k in range(len(types))}
    for k, kind in enumerate(types):
        if pa.types.is_dictionary(kind):
            columns[f"c{k}"] = columns[f"c{k}"].dictionary_encode()
        elif pa.types.is_float16(kind):
            columns[f"c{k}"] = pa.array([None if v is None else np.float16(v) for v in ones], pa.float16())
        elif pa.types.is_decimal(kind):
            columns[f"c{k}"] = columns[f"c{k}"].cast(pa.decimal128(7, 2)).cast(kind)
        else:
            columns[f"c{k}"] = columns[f"c{k}"].cast(kind)
    columns["nothing"] = pa.nulls(4)
    source = parquet(tmp_path / "t.parquet", delay=pa.array([1.5, NAN, None, 4]), **columns)
    bounds = {"target": BOUNDS["target"], "features": {name: {"lower": 0, "upper": 1} for name in columns}}
    seen: list[tuple[int, int | None]] = []
    report = take(source, tmp_path / "s", bounds, progress=lambda rows, total: seen.append((rows, total)))
    X = np.repeat(np.array([[1], [NAN], [0], [1]]), len(types) + 1, axis=1)
    X[:, -1] = NAN
    check(tmp_path / "s", X, [1.5, NAN, NAN, 4])
    assert report.rows == 4
    assert seen[-1] == (4, 4)


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (pa.array(["a", "b", None, "z", "a", ""]), ["a", "b"]),
        (pa.array(["a", "b", None, "z", "a", ""]).dictionary_encode(), ["a", "b"]),
        (pa.array(["a", "b", None, "z", "a", ""], pa.large_string()), ["a", "b"]),
        (pa.array([1, 2, None, 9, 1, None]), [1, 2]),
        (pa.array([1.0, 2.0, None, 9.5, 1.0, NAN]), [1, 2]),
    ],
)
def test_parquet_categories(tmp_path: Path, cells: pa.Array, labels: list[Any]) -> None:
    source = parquet(tmp_path / "t.parquet", delay=list(range(6)), k=cells)
    bounds = {"target": BOUNDS["target"], "features": {"k": {"categories": labels}}}
    take(source, tmp_path / "s", bounds)
    check(tmp_path / "s", [[1, 0], [0, 1], [NAN, NAN], [0, 0], [1, 0], [NAN, NAN]], range(6))


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for k in range(3):
        parquet(tmp_path / "folder" / f"part-{k}.parquet", **{"delay": [k, k], "a.b": [0.5, k]})
    bounds = {"target": BOUNDS["target"], "features": {"a.b": {"lower": 0, "upper": 1}}}
    assert take(tmp_path / "folder", tmp_path / "s", bounds, chunk_rows=4).chunks == 2
    check(tmp_path / "s", [[0.5], [0], [0.5], [1], [0.5], [2]], [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("kind", ["timestamp", "string", "list"])
def test_a_parquet_column_that_is_not_numeric_is_named(tmp_path: Path, kind: str) -> None:
    columns = {"timestamp": pd.Timestamp("2020-01-01"), "string": SECRET, "list": [1.0]}
    source = parquet(tmp_path / "t.parquet", delay=[1.0], distance=[columns[kind]], late=[1])
    with pytest.raises(DataTypeError, match=r"t\.parquet: column 'distance' must be numeric, got") as caught:
        take(source, tmp_path / "s", features=["distance", "late"])
    assert SECRET not in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_what_does_not_fit_is_named(csv: Path, tmp_path: Path) -> None:
    with pytest.raises(BoundsError, match="feature 'altitude' has no bounds"):
        take(csv, tmp_path / "s", features=["altitude"])
    with pytest.raises(BoundsError, match="target='other'"):
        ingest(csv, tmp_path / "s", target="other", bounds=BOUNDS)
    for header, problem in (
        ("delay,distance,origin", "has no column 'late' \\(got 3 columns\\)"),
        ("delay,distance,origin,late,late", "has 2 columns named 'late'"),
    ):
        (tmp_path / "bad.csv").write_text(f"{header}\n1,2,3,4,5\n")
        with pytest.raises(DataShapeError, match=rf"bad\.csv: the header {problem}"):
            take(tmp_path / "bad.csv", tmp_path / "s")
    (tmp_path / "bad.csv").write_text("delay,distance,origin,late\n")
    with pytest.raises(DataShapeError, match="at least one row"):
        take(tmp_path / "bad.csv", tmp_path / "s")
    assert not (tmp_path / "s").exists()


def damaged(tmp_path: Path, kind: str) -> Path:
    """Return a file that breaks its parser near a secret value."""
    suffix = {"gz": "csv.gz", "page": "parquet", "footer": "parquet"}.get(kind, "csv")
    path = tmp_path / f"t.{suffix}"
    if kind == "header":  # no header line: the first record stands in its place
        path.write_text(f"1,{SECRET},EWR,0\n" * 3)
    elif kind == "empty":
        path.write_text("")
    elif kind == "quote":
        path.write_text(f'{CSV}8,"{SECRET},EWR,0\n')
    elif kind == "gz":
        path.write_bytes(gzip.compress(CSV.encode())[:-12])
    else:
        parquet(path, delay=[1.0] * 9, distance=[float(SECRET)] * 9, late=[1] * 9)
        content = path.read_bytes()
        path.write_bytes(content[:8] + b"\xff" * 60 + content[68:] if kind == "page" else content[:-40])
    return path


@pytest.mark.parametrize("kind", ["header", "empty", "quote", "gz", "page", "footer"])
def test_messages_about_damaged_files_hold_no_value(tmp_path: Path, kind: str) -> None:
    source = damaged(tmp_path, kind)
    features = ["distance", "late"] if source.suffix == ".parquet" else None
    with pytest.raises(FastDPError, match=source.name) as caught:
        take(source, tmp_path / "s", features=features)
    error: BaseException | None = caught.value
    assert SECRET not in str(error)
    assert "7315" not in str(error)
    assert error is not None
    assert error.__cause__ is None, "the parser's own message may quote a record"
    assert error.__context__ is None, "the parser's own message may quote a record"
    assert not (tmp_path / "s").exists()


def test_a_missing_reader_is_named(csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # what the import system takes for "not there"
    with pytest.raises(StoreError, match=r"pandas is needed.*pip install 'fastdp-dask\[ingest\]'"):
        take(csv, tmp_path / "s")


PEAK = """
import re, sys
from fastdp_dask.data import ingest
source, dest, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [f"c{j}" for j in range(30)]
bounds = {"target": {"name": "y", "lower": 0, "upper": 1}}
bounds["features"] = {name: {"lower": 0, "upper": 1} for name in names}
assert ingest(source, dest, target="y", bounds=bounds, chunk_rows=4096).rows == n
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status).group(1)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    """Peak resident memory of a process of its own, which counts what the parsers allocate outside Python.

    The long table holds 200,000 x 31 cells more than the short one: 50 MB as numbers, more as text.  A reader
    that kept them would need that; 32 MB are left to allocators, which seldom reuse every freed page
    (measured: 4 MB for CSV, 15 MB for Parquet, where Arrow's pool itself stays at 37 MB for any length).
    """
    rng = np.random.default_rng(0)
    digits = rng.integers(0, 1000, (240_000, 31)) / 1000
    table = pa.table({name: digits[:, j] for j, name in enumerate([*(f"c{j}" for j in range(30)), "y"])})
    peaks = []
    for n in (40_000, 240_000):
        source = tmp_path / f"{n}.{kind}"
        if kind == "csv":
            pa_csv.write_csv(table.slice(0, n), source)
        else:
            pq.write_table(table.slice(0, n), source, row_group_size=8192)
        command = [sys.executable, "-c", PEAK, str(source), str(tmp_path / f"{n}.zarr"), str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 32, f"peak memory in MB: {peaks}"
