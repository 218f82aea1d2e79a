"""Which folders a run takes for its own, what readers leave alone, and damage that no checksum covers."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import bits, fit, model, small_data, untouchable

from fastdp_dask import LinearRegression
from fastdp_dask.commands.app import main
from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.ledger import Ledger
from fastdp_dask.report.write import write
from fastdp_dask.run_folder import RunFolder, refuse_foreign

X, Y = small_data(400, 3)


def run(folder: Any, X: Any = X, Y: Any = Y, **options: Any) -> Any:
    return fit(model(run_dir=folder, **{"n_iter": 2, "solver": "ihm", "preset": "tight", **options}), X, Y)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere: be somebody else for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder that others read, with a file in it."""
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    (folder / "notes.txt").write_text("not a run's")
    return folder


# -- whose folder it is --------------------------------------------------------------------------------------


def test_a_folder_with_other_files_is_left_as_it_is_and_nothing_is_spent(foreign: Path, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.jsonl", epsilon=10, delta=1e-3)
    with pytest.raises(ArgumentError, match=r"run_dir must be new, empty or a run folder, got .*shared, which"):
        run(foreign, untouchable((400, 3)), untouchable((400,)), ledger=ledger)
    assert ledger.charges() == []
    assert mode(foreign) == 0o755
    assert [path.name for path in foreign.iterdir()] == ["notes.txt"]


def test_a_run_looks_again_when_it_takes_the_folder(foreign: Path) -> None:
    with pytest.raises(ArgumentError, match="new, empty or a run folder"), RunFolder(foreign).locked():
        pass
    assert mode(foreign) == 0o755


def test_a_job_makes_no_folder_in_one_with_other_files(foreign: Path) -> None:
    with pytest.raises(ArgumentError, match="new, empty or a run folder"):
        JobFolder(foreign).make()
    assert (mode(foreign), len(list(foreign.iterdir()))) == (0o755, 1)


def test_an_empty_path_is_not_the_current_folder(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(foreign)
    with pytest.raises(ArgumentError, match="run_dir must be a path, got an empty one"):
        run("", untouchable((400, 3)), untouchable((400,)))
    assert mode(foreign) == 0o755


@pytest.mark.parametrize("left", [[], ["job"]])
def test_a_folder_that_is_a_runs_is_closed_to_others(tmp_path: Path, left: list[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    for name in left:
        (folder / name).mkdir()
    run(folder)
    assert mode(folder) == 0o700


def test_a_run_killed_before_its_plan_was_written_may_be_started_again(tmp_path: Path) -> None:
    for name in (".lock", ".lock.0a1b"):
        (tmp_path / name).touch()
    refuse_foreign(tmp_path)
    (tmp_path / "x.lock").touch()
    with pytest.raises(ArgumentError, match="new, empty or a run folder"):
        refuse_foreign(tmp_path)


# -- readers -------------------------------------------------------------------------------------------------


def test_readers_change_no_folder(foreign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["predict", str(foreign), str(foreign), "--out", "p.csv"], ["report", str(foreign)]):
        assert main(command) == 1
        assert "run_dir must be the run folder of a finished fit" in capsys.readouterr().err
    assert main(["jobs", str(foreign)]) == 1
    assert mode(foreign) == 0o755
    RunFolder(foreign / "absent")
    assert not (foreign / "absent").exists()


def test_a_finished_run_is_read_without_the_right_to_write() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        folder = Path(name) / "run"
        fitted = run(folder)
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        with without_rights():
            read = LinearRegression.from_run(folder)
            releases = RunFolder(folder).released()
        assert bits(read) == bits(fitted)
        assert np.array_equal(read.predict(X), fitted.predict(X))
        assert "gradient_1" in releases
        assert mode(folder) == 0o555
        folder.chmod(0o700)


def test_a_model_that_may_not_be_read_says_so() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "model.json").write_text("{}")
        (Path(name) / "model.json").chmod(0)
        with without_rights(), pytest.raises(StoreError, match=r"model\.json cannot be read \(Permission denied\)"):
            LinearRegression.from_run(name)


# -- damage --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.json", "plan.json"])
def test_brackets_without_end_are_damage(tmp_path: Path, name: str) -> None:
    run(tmp_path)
    for content in ("[" * 200_000, '{"a":' * 200_000, '{"a":' + "[" * 5000 + "]" * 5000 + "}"):
        (tmp_path / name).write_text(content)
        with pytest.raises(StoreError, match=rf"{name} must be a JSON object as it was written, got a damaged"):
            run(tmp_path, untouchable((400, 3)), untouchable((400,)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("coef", ...), ("coef", None), ("coef", "abc"), ("coef", []), ("coef", 1.0), ("coef", [1.0, None, 2.0]),
        ("coef", [True, 1.0, 2.0]), ("coef", [[1.0, 2.0], [1.0]]), ("coef", [10**400, 1.0, 1.0]), ("coef", [1.0, 2.0]),
        ("intercept", ...), ("intercept", [0.5]), ("feature_names", ["a"]), ("feature_names", 3),
        ("privacy_spent", ...), ("privacy_spent", {"epsilon": 1.0}), ("released", [1.0]), ("solver", 5),
        ("n_iter", "2"),
    ],
)  # fmt: skip
def test_a_model_of_another_form_is_damaged_whatever_its_checksum(tmp_path: Path, field: str, value: Any) -> None:
    run(tmp_path, X)
    folder = RunFolder(tmp_path)
    whole = {**(folder.model() or {}), "feature_names": ["a", "b", "c"]}
    folder.finish(whole)
    assert LinearRegression.from_run(tmp_path).coef_.shape == (3,)
    folder.finish({key: entry for key, entry in {**whole, field: value}.items() if entry is not ...})
    with pytest.raises(StoreError, match=r"model\.json must be a JSON object as it was written, got a damaged file"):
        LinearRegression.from_run(tmp_path)


def test_a_report_needs_every_line_that_was_released(tmp_path: Path) -> None:
    run(tmp_path)
    path = tmp_path / "releases.jsonl"
    whole = path.read_bytes()
    write(tmp_path)
    page = (tmp_path / "report.json").read_bytes()
    lines = whole.count(b"\n")
    for content, said in (
        (None, "releases.jsonl cannot be read"), (b"", "line 1 is missing or cut short"),
        (whole[:-40], f"line {lines} is missing or cut short"), (b"[" * 200_000 + b"\n", "line 1 fails its checksum"),
    ):  # fmt: skip
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(StoreError, match=said):
            write(tmp_path)
        assert (path.read_bytes() if path.exists() else None) == content  # not repaired under a run that may write it
        assert (tmp_path / "report.json").read_bytes() == page
    assert np.isfinite(LinearRegression.from_run(tmp_path).coef_).all()  # the model is there, and it is enough
