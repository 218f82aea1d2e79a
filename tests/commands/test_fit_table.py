"""`fastdp fit` on Parquet files, and what it shows when asked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_cases import SEEDS, make_store

from fastdp_dask.commands.app import main

TOML = """
[target]
name = "wage"
lower = 0
upper = 50
[features.age]
lower = 0
upper = 100
missing = 50
[features.kind]
categories = ["a", "b"]
[features.hired]
date = ["days"]
lower = 2000-01-01
upper = 2030-01-01
"""
BUDGET = ["--epsilon", "5", "--delta", "1e-6", "--solver", "ihm", "--n-iter", "2", *SEEDS]


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    n = 3000
    age = generator.uniform(0, 100, n)
    columns = {
        "wage": 5 + 0.3 * age, "age": pa.array(age, mask=generator.random(n) < 0.1),
        "kind": np.array(["a", "b"], dtype=object)[generator.integers(0, 2, n)],
        "hired": np.datetime64("2010-01-01") + generator.integers(0, 3000, n),
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=1000)
    (tmp_path / "bounds.toml").write_text(TOML)
    return tmp_path / "t.parquet"


def coefficients(run: Path) -> list[float]:
    return json.loads((run / "model.json").read_text())["coef"]


def test_the_model_is_that_of_the_ingested_store(parquet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = parquet.parent
    bounds = ["--target", "wage", "--bounds", folder / "bounds.toml"]
    for arguments in (
        ["ingest", parquet, folder / "s", *bounds],
        ["fit", folder / "s", *BUDGET, "--out", folder / "a"],
        ["fit", parquet, *bounds, *BUDGET, "--out", folder / "b"],
        ["fit", folder / "s", *bounds, *BUDGET, "--out", folder / "c"],
    ):
        assert main([*map(str, arguments)]) == 0, capsys.readouterr().err
    assert coefficients(folder / "a") == coefficients(folder / "b") == coefficients(folder / "c")
    other = TOML.replace("missing = 50", "missing = 40")
    (folder / "other.toml").write_text(other)
    arguments = ["fit", folder / "s", "--bounds", folder / "other.toml", *BUDGET, "--out", folder / "d"]
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 1
    assert "bounds must declare the categories, dates and rules" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("lacking", ["--bounds", "--target"])
def test_what_parquet_does_not_declare_is_asked_for(
    parquet: Path, lacking: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--bounds": str(parquet.parent / "bounds.toml"), "--target": "wage"}
    del given[lacking]
    options = [word for pair in given.items() for word in pair]
    assert main(["fit", str(parquet), *BUDGET, "--out", str(parquet.parent / "run"), *options]) == 1
    assert f"{lacking} must be given for Parquet files" in " ".join(capsys.readouterr().err.split())


def test_verbose_shows_the_plan_and_silence_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "s")
    shown = []
    for name, options in (("a", ["--verbose"]), ("b", [])):
        assert main(["fit", str(store), *BUDGET, "--out", str(tmp_path / name), *options]) == 0
        shown.append(capsys.readouterr().err)
    assert "noise on each gradient = " in shown[0]
    assert "noise on each gradient = " not in shown[1]


@pytest.mark.slow
@pytest.mark.cluster
def test_a_performance_report_is_written_for_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("bokeh")
    store, report = make_store(tmp_path / "s"), tmp_path / "report.html"
    arguments = ["fit", str(store), *BUDGET, "--out", str(tmp_path / "run"), "--performance-report", str(report)]
    assert main(arguments) == 1
    assert "must be used with --scheduler or --workers" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
    assert main([*arguments, "--workers", "1"]) == 0, capsys.readouterr().err
    assert "Dask Performance Report" in report.read_text()
