"""Arguments of another type and files of another kind: each is refused by its name, before anything is spent."""

from __future__ import annotations

import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers import model, small_data

from fastdp_dask import Ledger, LinearRegression, fastmix, file_lock
from fastdp_dask.errors import ArgumentError, BoundsError, DataShapeError, LargeDeltaWarning, StoreError
from fastdp_dask.file_lock import FileLock

X, Y = small_data(200, 2)
ARGUMENTS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "bounds_X": (-1, 1), "bounds_y": (-1, 1)}


def fit(**more: Any) -> LinearRegression:
    return LinearRegression(**{**ARGUMENTS, **more}).fit(X, Y, source="small")


@pytest.mark.parametrize("name", ["bounds_X", "bounds_y"])
@pytest.mark.parametrize("bounds", [("0", "1"), (b"0", 1), (np.array(["0"]), [1]), (0, ["1"])], ids=str)
def test_bounds_given_as_text(name: str, bounds: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}: (lower|upper) must be a number.*got text") as caught:
        fit(**{name: bounds})
    assert isinstance(caught.value, BoundsError)


@pytest.mark.parametrize("run_dir", [5, b"run", ["run"], object()], ids=["int", "bytes", "list", "object"])
@pytest.mark.parametrize("paid", [False, True])
def test_a_run_dir_that_is_no_path(run_dir: Any, paid: bool, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=2, delta=1e-3)
    with pytest.raises(ArgumentError, match="run_dir must be a path, got"):
        fit(run_dir=run_dir, ledger=ledger if paid else None)
    assert ledger.charges() == []


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", ["run_dir", "ledger"])
def test_what_is_locked_stays_on_a_file_system(name: str, kind: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a path on a mounted file system, got a URL"):
        fit(**{name: kind("s3://bucket/here")})


def test_names_that_stand_twice() -> None:
    with pytest.raises(DataShapeError, match="feature_names must differ from each other, got 'a' twice"):
        LinearRegression(**ARGUMENTS).fit(X, Y, feature_names=["a", "a"])
    with pytest.raises(DataShapeError, match="columns of X must differ from each other, got 'a' twice"):
        LinearRegression(**ARGUMENTS).fit(pd.DataFrame(X, columns=["a", "a"]), Y)


@pytest.mark.parametrize("name", ["plan.json", "model.json", "releases.jsonl"])
def test_a_folder_in_the_place_of_a_file(name: str, tmp_path: Path) -> None:
    fit(run_dir=tmp_path)
    (tmp_path / name).rename(tmp_path / "aside")
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match=f"{name} (must be a JSON object|cannot be read).*Restore it from a copy"):
        fit(run_dir=tmp_path)
    (tmp_path / name).rmdir()
    (tmp_path / "aside").rename(tmp_path / name)
    fit(run_dir=tmp_path)


def test_junk_in_a_lock_is_waited_for_aloud_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows whose it is: it counts as dead once nothing has moved for long enough."""
    monkeypatch.setattr(file_lock, "_TELL_AFTER_SECONDS", 0.2)
    monkeypatch.setattr(file_lock, "STALE_SECONDS", 0.8)
    lock = tmp_path / ".lock"
    lock.write_text("junk")
    began = time.monotonic()
    with caplog.at_level(logging.WARNING), FileLock(lock, wait=0) as held:
        assert held.held
    assert 0.8 <= time.monotonic() - began < 10
    assert [f"waiting for the lock {lock}, held by an unnamed process" in line for line in caplog.messages] == [True]


def test_a_delta_that_would_allow_a_record_to_be_published_warns() -> None:
    """At 1/n and above, by the estimator and by fastmix; and it is told by public numbers alone."""
    X, y = small_data(50, 2)
    for delta, expected in ((0.02, True), (0.9, True), (0.0199, False)):
        for run in (
            lambda d=delta: model(delta=d).fit(X, y),
            lambda d=delta: fastmix(X / 2, epsilon=1.0, delta=d, k1=10, k2=16),
        ):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                run()
            told = [str(each.message) for each in seen if each.category is LargeDeltaWarning]
            assert bool(told) == expected
            assert all("n_samples=50" in message for message in told)


@pytest.mark.parametrize("name", ["uncertainty", "fit_intercept"])
def test_a_text_is_no_truth_value(name: str) -> None:
    """ "no" would count as True, and a release would be paid for."""
    with pytest.raises(ArgumentError, match=rf"^{name} must be True or False, got str"):
        fit(**{name: "no"})


def test_bounds_given_as_a_pair_for_each_column_are_told_apart() -> None:
    with pytest.raises(BoundsError, match=r"got lower=80\.0 and upper=60\.0 for column 1\. Give \(all lowers, all"):
        fit(bounds_X=[(18, 80), (20, 60)])


@pytest.mark.parametrize("shape", [(1, 3), (5, 20)])
def test_the_solver_that_is_picked_can_tell_its_error(shape: tuple[int, int]) -> None:
    """Where linear mixing would be picked, uncertainty=True takes another."""
    found = LinearRegression(**ARGUMENTS, uncertainty=True).fit(np.zeros(shape), np.zeros(shape[0]))
    assert found.plan_.solver in ("ihm", "adassp", "fastihm")
