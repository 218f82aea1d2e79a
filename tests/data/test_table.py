"""Parquet files fitted as they are: the model of a store, from tasks that read what they need once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import bits, fit, model

from fastdp_dask.data import arrow_reader, ingest, is_table, open_store, open_table, table
from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError

BOUNDS: dict[str, Any] = {
    "target": {"name": "y", "lower": -1, "upper": 1},
    "features": {
        "a": {"lower": -1, "upper": 1, "missing": 0},
        "kind": {"categories": ["x", "z"]},
        "day": {"date": ["days"], "lower": "2020-01-01", "upper": "2021-01-01"},
    },
}
TIGHT = {"solver": "ihm", "preset": "tight", "n_iter": 2, "bounds_X": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of row groups of several lengths, one of them without a row."""
    generator = np.random.default_rng(0)
    (tmp_path / "t").mkdir()
    for k, n in enumerate((700, 0, 300)):
        a = np.where(generator.random(n) < 0.1, np.nan, generator.uniform(-1, 1, n))
        day = np.datetime64("2020-03-01") + generator.integers(0, 300, n)
        columns = {"y": generator.uniform(-1, 1, n), "a": pa.array(a, from_pandas=True), "day": pa.array(day)}
        columns["kind"] = pa.array(np.array(["x", "z", "w"], dtype=object)[generator.integers(0, 3, n)], pa.string())
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{k}.parquet", row_group_size=128)
    return tmp_path / "t"


def test_the_rows_and_the_model_are_those_of_a_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_ROWS", 300)
    ingest(folder, folder.parent / "s", target="y", bounds=BOUNDS)
    opened, stored = open_table(folder, bounds=BOUNDS), open_store(folder.parent / "s")
    assert opened.X.chunks[0] == (256, 256, 188, 300)  # row groups of a file, together up to 300 rows
    np.testing.assert_array_equal(opened.X.compute(), stored.X.compute())
    np.testing.assert_array_equal(opened.y.compute(), stored.y.compute())
    assert opened.X.dtype == stored.X.dtype
    assert opened.declaration == stored.declaration
    assert opened.n_rows == 1000
    fitted = [fit(model(**TIGHT | s.declaration.estimator_arguments()), s.X, s.y) for s in (opened, stored)]
    assert bits(fitted[0]) == bits(fitted[1])


def test_a_pass_reads_each_piece_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[Any, ...]] = []
    whole = arrow_reader.parquet_rows

    def counted(file: Path, groups: Any, columns: Any) -> Any:
        reads.append((file.name, *groups))
        return whole(file, groups, columns)

    monkeypatch.setattr(table, "parquet_rows", counted)
    opened = open_table(folder, bounds=BOUNDS)
    assert not reads
    fitted = fit(model(**TIGHT | opened.declaration.estimator_arguments(), persist=False), opened.X, opened.y)
    assert sorted(reads) == sorted([("0.parquet", *range(6)), ("2.parquet", *range(3))] * fitted.n_passes_)


def test_a_file_that_was_written_again_is_other_data(folder: Path) -> None:
    before = open_table(folder, bounds=BOUNDS).source
    assert open_table(folder, bounds=BOUNDS).source == before
    content = (folder / "2.parquet").read_bytes()
    (folder / "2.parquet").unlink()
    (folder / "2.parquet").write_bytes(content)
    assert open_table(folder, bounds=BOUNDS).source != before


def test_what_is_a_table(folder: Path) -> None:
    ingest(folder, folder.parent / "s", target="y", bounds=BOUNDS)
    assert is_table(folder)
    assert is_table(str(folder / "*.parquet"))
    assert is_table(folder / "0.parquet")
    assert not is_table(folder.parent / "s")
    assert not is_table(folder.parent / "absent")


def test_what_cannot_be_fitted_is_refused_from_footers(folder: Path) -> None:
    (folder.parent / "t.csv").write_text("a,y\n1,2\n")
    with pytest.raises(ArgumentError, match=r"source must be Parquet files to be fitted without a store, got csv"):
        open_table(folder.parent / "t.csv", bounds=BOUNDS)
    with pytest.raises(DataShapeError, match="source must hold at least one row"):
        open_table(folder / "1.parquet", bounds=BOUNDS)
    with pytest.raises(DataTypeError, match=r"column 'kind' must be numeric"):
        open_table(folder, bounds={**BOUNDS, "features": {"kind": {"lower": 0, "upper": 1}}})


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, to the newest pandas
@pytest.mark.parametrize("backend", [None, "pyarrow"])
def test_numbers_of_a_dask_frame_over_parquet(tmp_path: Path, backend: str | None) -> None:
    generator = np.random.default_rng(0)
    columns = {"a": generator.uniform(-1, 1, 600), "b": generator.integers(-1, 2, 600)}
    columns["y"] = np.clip(0.5 * columns["a"] - 0.2 * columns["b"], -1, 1)
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=200)
    options = {} if backend is None else {"dtype_backend": backend}
    frame = dd.read_parquet(tmp_path / "t.parquet", **options)
    fitted = fit(model(**{**TIGHT, "bounds_X": (-1, 1)}), frame[["a", "b"]], frame["y"])
    features = np.column_stack([columns["a"], columns["b"]])
    assert bits(fitted) == bits(fit(model(**{**TIGHT, "bounds_X": (-1, 1)}), features, columns["y"]))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
