"""Cells: each is read by a rule of its own, whatever its neighbours are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data_cases import NAN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastdp_dask.data.readers import (
    MISSING,
    UNDECLARED,
    Columns,
    _csv_numbers,
    find_files,
    match_category,
    read_csv,
)
from fastdp_dask.errors import ArgumentError

NASTY = ["", "1", "-1", "18446744073709551615", "9" * 30, "1e400", "True", "FALSE", "abc", " 3 ", "nan"]
NASTY += ["-Infinity", "0x10", "1_000", "9007199254740993", "0.1", "NA", "None", "１", "1e-400", "inf", "2j"]
NASTY += ["2020-01-01", "1.", ".5", "é", "∞", "-0", "1e", "--1", "NaT", "<NA>", "1d5", "1 2", "1+2j"]
cells = st.sampled_from(NASTY) | st.floats().map(repr) | st.integers().map(str)
texts = st.text(st.characters(codec="utf-8", exclude_characters='",\r\n\x00'), max_size=6)


def parse(path: Path, rows: list[str]) -> tuple[np.ndarray, np.ndarray]:
    path.write_text("a,b\n" + "".join(f"{row},{row}\n" for row in rows), encoding="utf-8")
    batches = list(read_csv([path], Columns(("a",), {"b": ["1", "abc"]})))
    return np.concatenate([b["a"] for b in batches]), np.concatenate([b["b"] for b in batches])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(cells | texts, min_size=1, max_size=6))
def test_a_cell_does_not_depend_on_its_neighbours(tmp_path: Path, rows: list[str]) -> None:
    """Else one record could blank others, and the noise is calibrated for one."""
    together = parse(tmp_path / "t.csv", rows)
    alone = [parse(tmp_path / "t.csv", [row]) for row in rows]
    np.testing.assert_array_equal(together[0], np.concatenate([a for a, _ in alone]))
    np.testing.assert_array_equal(together[1], np.concatenate([b for _, b in alone]))


def test_numbers_and_words(tmp_path: Path) -> None:
    rows = ["1", "-2.5e3", "True", "false", " 3 ", "inf", "", "NA", "abc", "1,5"]
    numbers, _ = parse(tmp_path / "t.csv", [f'"{row}"' for row in rows])
    np.testing.assert_array_equal(numbers, [1, -2500, 1, 0, 3, np.inf, NAN, NAN, NAN, NAN])


@given(st.floats(-1e300, 1e300))
def test_numbers_are_read_to_the_precision_of_a_store(value: float) -> None:
    """Older pandas is off by a few units in the last place of float64; float32 has 2^29 of them."""
    (read,) = _csv_numbers(pd.Series([repr(value)], dtype=str))
    assert abs(read - value) <= 1e-12 * abs(value) + 1e-300


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("3", 0),
        ("3.0", 0),
        ("03", 0),
        (3, 0),
        (3.0, 0),
        ("NA", 1),
        ("x", 2),
        ("X", UNDECLARED),
        ("3.5", UNDECLARED),
        ("inf", UNDECLARED),
        (" x", UNDECLARED),
        ("", MISSING),
        (None, MISSING),
        (NAN, MISSING),
    ],
)
def test_categories_match_by_text_or_whole_number(cell: object, code: int) -> None:
    assert match_category(cell, {"3": 0, "NA": 1, "x": 2}) == code


def test_a_declared_text_comes_before_its_number() -> None:
    labels = {"01": 0, "1": 1}
    assert [match_category(cell, labels) for cell in ("01", "1", "1.0", "001")] == [0, 1, 1, 1]


def test_files_are_found_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv.gz", "c.PARQUET", "d/x.parquet", "d/deep/a.pq", "d/_skip.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"")
    assert find_files(tmp_path / "b.csv") == ([tmp_path / "b.csv"], "csv")
    assert find_files(str(tmp_path / "*.csv*")) == ([tmp_path / "a.csv.gz", tmp_path / "b.csv"], "csv")
    assert find_files(tmp_path / "c.PARQUET")[1] == "parquet"
    assert [f.name for f in find_files(tmp_path / "d")[0]] == ["a.pq", "x.parquet"]
    for source, message in (
        (tmp_path / "absent.csv", "matches no file"),
        (f"{tmp_path}/*", "mixes csv and parquet"),
    ):
        with pytest.raises(ArgumentError, match=message):
            find_files(source)
    (tmp_path / "e.xlsx").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"must end in \.csv.*got the suffix '\.xlsx'"):
        find_files(tmp_path / "e.xlsx")


def test_an_invalid_byte_in_a_category_neither_raises_nor_shows(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from fastdp_dask.data import ingest, open_store

    raw = pa.array([b"a", b"\xff\xfe", b"b"], type=pa.binary())
    text = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])  # text that was never checked
    pq.write_table(pa.table({"kind": text, "v": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    bounds = {"target": {"name": "v", "lower": 0, "upper": 5}, "features": {"kind": {"categories": ["a", "b"]}}}
    ingest(tmp_path / "t.parquet", tmp_path / "s", target="v", bounds=bounds)
    assert open_store(tmp_path / "s").X.compute().tolist() == [[1, 0], [0, 0], [0, 1]]


def test_a_blank_line_is_a_record_with_nothing_in_it(tmp_path: Path) -> None:
    from fastdp_dask.data import ingest, open_store

    (tmp_path / "u.csv").write_text("x,v\n1,1\n,\n3,3\n")
    bounds = {"target": {"name": "v", "lower": 0, "upper": 5}, "features": {"x": {"lower": 0, "upper": 5}}}
    (tmp_path / "w.csv").write_text("x,v\n1,1\n\n3,3\n")
    for number, name in enumerate(("u.csv", "w.csv")):
        report = ingest(tmp_path / name, tmp_path / str(number), target="v", bounds=bounds)
        assert report.rows == 3
        assert np.isnan(open_store(tmp_path / str(number)).y.compute()).tolist() == [False, True, False]
