"""Fits in a run folder that are cut, starved of space, edited, or run twice at once."""

from __future__ import annotations

import json
import os
import resource
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from helpers import bits, fit, model, small_data, untouchable

from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.run_folder import RunFolder

X, Y = small_data(400, 3)


class Crash(Exception):
    """Stands for a killed driver."""


def tight(folder: Path | None, X: Any = X, Y: Any = Y, **options: Any) -> Any:
    return fit(model(run_dir=folder, **{"n_iter": 2, "solver": "ihm", "preset": "tight", **options}), X, Y)


def test_releases_cut_at_every_byte_continue_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every length that a crash can leave: the log drops the torn line only, and draws again what it held."""
    tight(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # thousands of them; what is read back is the same without
    path = tmp_path / "releases.jsonl"
    whole, folder = path.read_bytes(), RunFolder(tmp_path)
    lines = whole.splitlines(keepends=True)
    groups = [[release["name"] for release in json.loads(line)["releases"]] for line in lines]
    values = {name: folder.releases().stored(name) for group in groups for name in group}
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        log = folder.releases()
        complete = whole[:end].count(b"\n")
        assert log.names == [name for group in groups[:complete] for name in group]
        for group in groups[complete:]:
            with log.together():
                for name in group:
                    log.once(name, lambda _, name=name: values[name], NoiseSource())
        assert path.read_bytes() == whole


def test_a_fit_continues_from_releases_cut_anywhere(tmp_path: Path) -> None:
    undisturbed = tight(None)
    tight(tmp_path)
    path, model_path = tmp_path / "releases.jsonl", tmp_path / "model.json"
    whole, finished = path.read_bytes(), model_path.read_bytes()
    starts = [0, *(at + 1 for at in range(len(whole)) if whole[at : at + 1] == b"\n")]
    ends = sorted({*starts, *(start - 1 for start in starts if start), *(start + 40 for start in starts)})
    for end in ends:
        path.write_bytes(whole[:end])
        model_path.unlink()
        assert bits(tight(tmp_path)) == bits(undisturbed)
        assert (path.read_bytes(), model_path.read_bytes()) == (whole, finished)


def test_lines_taken_out_swapped_repeated_or_borrowed_are_refused(tmp_path: Path) -> None:
    tight(tmp_path / "a")
    tight(tmp_path / "b", random_state=12)
    path = tmp_path / "a" / "releases.jsonl"
    whole = path.read_bytes()
    first, second, third, *rest = whole.splitlines(keepends=True)
    borrowed = (tmp_path / "b" / "releases.jsonl").read_bytes()
    for content, line in (
        (b"".join([second, third, *rest]), 1), (b"".join([first, third, *rest]), 2),
        (b"".join([first, third, second, *rest]), 2), (b"".join([first, first, *rest]), 2), (borrowed, 1),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(StoreError, match=rf"line {line} does not follow the line before it, or belongs to another"):
            RunFolder(tmp_path / "a").releases()
        assert path.read_bytes() == content


def test_a_plan_edited_under_its_releases_is_refused(tmp_path: Path) -> None:
    tight(tmp_path, public_seed=None, random_state=None)
    plan = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "public_seed": 5}))
    (tmp_path / "model.json").unlink()
    with pytest.raises(StoreError, match="belongs to another plan"):
        tight(tmp_path, untouchable((400, 3)), untouchable((400,)), public_seed=None, random_state=None)


@pytest.mark.parametrize("name", ["releases.jsonl", "model.json"])
def test_a_folder_that_lost_its_plan_is_not_begun_again(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(StoreError, match=r"run_dir must hold a plan.json beside its releases"):
        tight(tmp_path, untouchable((400, 3)), untouchable((400,)))


def test_a_paid_plan_without_its_releases_is_not_drawn_again(tmp_path: Path) -> None:
    tight(tmp_path)
    for name in ("releases.jsonl", "model.json"):
        (tmp_path / name).unlink()
    with pytest.raises(StoreError, match=r"run_dir must hold releases.jsonl beside its plan.json.*Restore it"):
        tight(tmp_path, untouchable((400, 3)), untouchable((400,)))


def test_a_finished_model_is_handed_out_even_when_its_releases_are_gone(tmp_path: Path) -> None:
    first = tight(tmp_path)
    (tmp_path / "releases.jsonl").unlink()
    again = tight(tmp_path, untouchable((400, 3)), untouchable((400,)))
    assert bits(again) == bits(first)
    assert (again.n_passes_, again.privacy_spent_, again.n_iter_) == (0, first.privacy_spent_, first.n_iter_)
    assert again.release_ == first.release_
    assert not (tmp_path / "releases.jsonl").exists()


def test_a_model_that_was_edited_is_refused(tmp_path: Path) -> None:
    found = tight(tmp_path)
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "model.json").write_text(text.replace(repr(found.intercept_), "0.5"))
    with pytest.raises(StoreError, match=r"model.json must be a JSON object as it was written"):
        tight(tmp_path, untouchable((400, 3)), untouchable((400,)))


@pytest.mark.parametrize(
    ("options", "named"),
    [({"random_state": 12}, "noise_mark"), ({"source": "elsewhere"}, "source")],
)
def test_another_seed_or_other_data_is_refused(tmp_path: Path, options: dict[str, Any], named: str) -> None:
    tight(tmp_path)
    source = options.pop("source", None)
    estimator = model(run_dir=tmp_path, **{"n_iter": 2, "solver": "ihm", "preset": "tight", **options})
    with pytest.raises(ArgumentError, match=f"hold the same plan.*with another {named}"):
        fit(estimator, untouchable((400, 3)), untouchable((400,)), source=source)


def test_other_chunks_are_the_same_data(tmp_path: Path) -> None:
    first = tight(tmp_path)
    assert bits(tight(tmp_path, untouchable((400, 3), chunks=7), untouchable((400,), chunks=9))) == bits(first)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.6, 0.99])
@pytest.mark.parametrize("name", ["plan.json", "releases.jsonl", "model.json"])
def test_a_full_disk_stops_a_fit_that_then_continues(tmp_path: Path, name: str, part: float) -> None:
    """No file may grow beyond a part of the one that is to be written, with those before it in place."""
    undisturbed = tight(tmp_path)
    order = ["plan.json", "releases.jsonl", "model.json"]
    whole = {name: (tmp_path / name).read_bytes() for name in order}
    for later in order[order.index(name) :]:
        (tmp_path / later).unlink()
    if name == "releases.jsonl":
        (tmp_path / name).touch()  # as a run begins; without it a paid plan is refused
    room = int(part * len(whole[name]))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(StoreError, match=r"(cannot be|must be a folder that can be) written"):
            tight(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    left = (tmp_path / "releases.jsonl").read_bytes() if (tmp_path / "releases.jsonl").exists() else b""
    assert left == b"" or left.endswith(b"\n")  # a write that failed is taken back
    assert not (tmp_path / "model.json").exists()
    assert bits(tight(tmp_path)) == bits(undisturbed)
    if name != "plan.json":  # else another run, with its own run id
        assert {name: (tmp_path / name).read_bytes() for name in order} == whole


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = os.geteuid() == 0
        run_dir = Path(name) / "run"
        run_dir.mkdir(mode=0o555)
        if root:
            os.seteuid(65534)  # root may write everywhere
        try:
            with pytest.raises(StoreError, match="run_dir must be a folder that can be written"):
                tight(run_dir, untouchable((400, 3)), untouchable((400,)))
        finally:
            if root:
                os.seteuid(0)
        assert list(run_dir.iterdir()) == []


def test_of_two_runs_at_once_in_one_folder_one_proceeds(tmp_path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(block: np.ndarray) -> np.ndarray:
        started.set()
        assert go_on.wait(60)
        return block

    found: list[Any] = []
    features = da.from_array(X, chunks=400).map_blocks(slow, dtype=float, meta=X[:0])
    first = threading.Thread(target=lambda: found.append(tight(tmp_path, features, da.from_array(Y, chunks=400))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first.start()
        assert started.wait(60)
        with pytest.raises(StoreError, match=rf"run_dir must be used by one run at a time.*process {os.getpid()} on"):
            tight(tmp_path, untouchable((400, 3)), untouchable((400,)))
        go_on.set()
        first.join()
    assert bits(found[0]) == bits(tight(None))
    assert bits(tight(tmp_path, untouchable((400, 3)), untouchable((400,)))) == bits(found[0])


def test_a_run_that_was_taken_for_dead_releases_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ReleaseLog.once

    def overtaken(log: ReleaseLog, name: str, *rest: Any) -> np.ndarray:
        if name == "gradient_1":
            (tmp_path / ".lock").unlink()
        return once(log, name, *rest)

    monkeypatch.setattr(ReleaseLog, "once", overtaken)
    with pytest.raises(StoreError, match=r"taken over by another run.*release 'gradient_1' was not used"):
        tight(tmp_path)
    assert "gradient_1" not in (tmp_path / "releases.jsonl").read_text()


def test_other_data_of_another_length_is_refused(tmp_path: Path) -> None:
    tight(tmp_path)
    with pytest.raises(ArgumentError, match="n_samples"):
        tight(tmp_path, untouchable((401, 3)), untouchable((401,)))


def test_a_folder_that_cannot_be_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="run_dir must be a folder"):
        tight(tmp_path / "file", untouchable((400, 3)), untouchable((400,)))


@pytest.mark.parametrize("content", ["{", "[]", "", "\x00"])
def test_a_damaged_plan_is_refused(tmp_path: Path, content: str) -> None:
    tight(tmp_path)
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(StoreError, match="must be a JSON object"):
        tight(tmp_path, untouchable((400, 3)), untouchable((400,)))


def test_a_crash_while_a_file_is_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    tight(tmp_path)
    whole = folder.model()
    assert whole is not None
    folder.finish({**whole, "coef": [1.0, 1.0, 1.0]})

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(Crash):
            folder.finish({**whole, "coef": [2.0, 2.0, 2.0]})
    assert folder.model() == {**whole, "coef": [1.0, 1.0, 1.0]}
    folder.finish({**whole, "coef": [2.0, 2.0, 2.0]})
    assert folder.model() == {**whole, "coef": [2.0, 2.0, 2.0]}
