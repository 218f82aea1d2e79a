"""Every private draw happens once: replay, crashes between any two steps, damaged files, changed plans."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import bits, fit, model, small_data, untouchable
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource

X, Y = small_data(400, 3)
ITERATIONS = 2
NAMES = [
    "m_tilde_0", "lambda_tilde_0", "m_tilde_1", "lambda_tilde_1", "added_variance", "hessian_0", "hessian_1",
    "gradient_0", "gradient_1",
]  # fmt: skip


def names_in(lines: list[Any]) -> list[str]:
    """Names of the releases that lines of `releases.jsonl` hold."""
    return [release["name"] for line in lines for release in json.loads(line)["releases"]]


class Crash(Exception):
    """Stands for a killed driver."""


def run(folder: Path | None, X: Any = X, Y: Any = Y, **options: Any) -> Any:
    return fit(model(run_dir=folder, n_iter=ITERATIONS, **options), X, Y)


# -- the log by itself ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=6))
def test_values_come_back_bit_for_bit(tmp_path_factory: Any, values: list[float]) -> None:
    path = tmp_path_factory.mktemp("log") / "releases.jsonl"
    noise = NoiseSource()
    log = ReleaseLog(path)
    first = log.once("vector", lambda _: np.array(values), noise)
    log.once("scalar", lambda _: 1.5, noise)
    log.once("matrix", lambda _: np.arange(6.0).reshape(2, 3), noise)
    replayed = ReleaseLog(path)
    assert replayed.names == log.names == ["vector", "scalar", "matrix"]
    assert replayed.stored("vector").tobytes() == first.tobytes()
    assert replayed.stored("scalar").shape == ()
    assert np.array_equal(replayed.stored("matrix"), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_release_is_drawn_once_and_handed_out_as_a_copy(tmp_path: Path, where: str) -> None:
    log = ReleaseLog(None if where == "memory" else tmp_path / "releases.jsonl")
    draws: list[int] = []

    def draw(stream: np.random.Generator) -> np.ndarray:
        draws.append(1)
        return stream.standard_normal(3)

    first = log.once("a", draw, NoiseSource())
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(log.once("a", draw, NoiseSource()), kept)
    assert len(draws) == 1
    assert "a" in log
    assert "b" not in log


def test_a_value_is_on_disk_before_it_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    log = ReleaseLog(tmp_path / "releases.jsonl")
    log.once("a", lambda _: 1.0, NoiseSource())
    assert synced == ["file", "folder"]  # the name of the new file too
    log.once("b", lambda _: 1.0, NoiseSource())
    assert synced == ["file", "folder", "file"]


def test_a_full_disk_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ReleaseLog(tmp_path / "releases.jsonl")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            log.once("a", lambda _: 1.0, NoiseSource())
    assert "a" not in log


# -- damaged files -------------------------------------------------------------------------------------------


def written(tmp_path: Path) -> tuple[Path, bytes]:
    path = tmp_path / "releases.jsonl"
    log = ReleaseLog(path)
    for name in ("first", "second"):
        log.once(name, lambda _: np.array([1.0, 2.0]), NoiseSource())
    return path, path.read_bytes()


def test_a_last_line_cut_short_anywhere_is_dropped(tmp_path: Path) -> None:
    path, whole = written(tmp_path)
    start = whole.index(b"\n") + 1
    for end in (start, start + 1, start + 30, len(whole) - 1):
        path.write_bytes(whole[:end])
        log = ReleaseLog(path)
        assert log.names == ["first"]
        assert path.read_bytes() == whole[:start]
        log.once("second", lambda _: np.array([1.0, 2.0]), NoiseSource())
        assert path.read_bytes() == whole


def test_a_damaged_line_is_refused(tmp_path: Path) -> None:
    path, whole = written(tmp_path)
    hexadecimal = whole.index(b'"hex"') + 8
    damages = [
        whole[:hexadecimal]
        + (b"1" if whole[hexadecimal : hexadecimal + 1] != b"1" else b"2")
        + whole[hexadecimal + 1 :],
        whole.replace(b"first", b"third"),
        whole.replace(b"[2]", b"[1]", 1),
        b"\n" + whole,
        b"[]\n" + whole,
        b"not json\n" + whole,
        b"\xff\xfe\n" + whole,
        whole[20:],
    ]
    for damaged in damages:
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=r"line 1 fails its checksum.*start a new run folder"):
            ReleaseLog(path)
        assert path.read_bytes() == damaged  # evidence stays


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    log = ReleaseLog(path)
    log._values.clear()
    log.once("first", lambda _: 3.0, NoiseSource())
    with pytest.raises(StoreError, match="line 3 repeats a release"):
        ReleaseLog(path)


def test_a_line_that_was_written_but_perhaps_not_synced_is_synced_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written(tmp_path)
    synced: list[str] = []
    kind = {True: "folder", False: "file"}
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(kind[stat.S_ISDIR(os.fstat(descriptor).st_mode)]))
    ReleaseLog(path)
    assert synced == ["file", "folder"]


def test_after_a_failed_write_nothing_more_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second draw of the same release must not come to stand beside a first that may be on disk."""
    log = ReleaseLog(tmp_path / "releases.jsonl")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"written \(No space left on device\): release 'a' was not used"):
            log.once("a", lambda _: 1.0, NoiseSource())
    with pytest.raises(StoreError, match=r"could not be written before\. Run again"):
        log.once("a", lambda _: 2.0, NoiseSource())
    assert ReleaseLog(tmp_path / "releases.jsonl").stored("a") == 1.0


# -- whole fits ----------------------------------------------------------------------------------------------


def test_a_finished_run_is_replayed_without_reading_the_data(tmp_path: Path) -> None:
    first = run(tmp_path / "run")
    assert first.n_passes_ == ITERATIONS + 1
    assert bits(first) == bits(run(None))  # the folder changes nothing
    lines = (tmp_path / "run" / "releases.jsonl").read_text().splitlines()
    assert names_in(lines) == NAMES
    again = run(tmp_path / "run", untouchable((400, 3)), untouchable((400,)))
    assert again.n_passes_ == 0
    assert bits(again) == bits(first)


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("crash_at", NAMES)
def test_a_crash_between_any_two_releases_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: str, before: bool
) -> None:
    undisturbed = run(None)
    once = ReleaseLog.once

    def crashing(log: ReleaseLog, name: str, *rest: Any) -> np.ndarray:
        if before and name == crash_at:
            raise Crash
        value = once(log, name, *rest)
        if name == crash_at:
            raise Crash
        return value

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseLog, "once", crashing)
        with pytest.raises(Crash):
            run(tmp_path)
    on_file = (tmp_path / "releases.jsonl").read_bytes() if (tmp_path / "releases.jsonl").exists() else b""
    continued = run(tmp_path)
    assert bits(continued) == bits(undisturbed)
    final = (tmp_path / "releases.jsonl").read_bytes()
    assert final.startswith(on_file)  # nothing was drawn twice
    assert names_in(final.splitlines()) == NAMES
    done = len(names_in(on_file.splitlines()))
    assert done in (0, *range(NAMES.index("gradient_0"), len(NAMES) + 1))  # what is sound only together: all or none
    gradients_left = min(ITERATIONS, len(NAMES) - done)
    assert continued.n_passes_ == (ITERATIONS + 1 if done < 8 else gradients_left)


def test_secret_draws_survive_a_crash_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ReleaseLog.once

    def crashing(log: ReleaseLog, name: str, *rest: Any) -> np.ndarray:
        if name == "gradient_0":
            raise Crash
        return once(log, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseLog, "once", crashing)
        with pytest.raises(Crash):
            model(run_dir=tmp_path, n_iter=2, public_seed=None, random_state=None).fit(X, Y)
    plan, drawn = (tmp_path / "plan.json").read_bytes(), (tmp_path / "releases.jsonl").read_bytes()
    found = model(run_dir=tmp_path, n_iter=2, public_seed=None, random_state=None).fit(X, Y)
    assert (tmp_path / "plan.json").read_bytes() == plan  # the sketch's seed of the first attempt
    assert (tmp_path / "releases.jsonl").read_bytes().startswith(drawn)
    saved = json.loads((tmp_path / "model.json").read_text())
    assert saved["coef"] == found.coef_.tolist()
    assert saved["private_against_seed_holders"] is True


def test_a_seeded_run_says_so_in_its_model(tmp_path: Path) -> None:
    run(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["private_against_seed_holders"] is False


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"epsilon": 2.0}, "epsilon"),
        ({"delta": 1e-7}, "delta"),
        ({"bounds_X": (-2, 2)}, "scaling"),
        ({"bounds_y": (-2, 2)}, "scaling"),
        ({"fit_intercept": False}, "scaling"),
        ({"k1": 200}, "k1"),
        ({"public_seed": 8}, "public_seed"),
        ({"public_seed": None, "random_state": None}, "reproducible"),
    ],
)
def test_another_plan_is_refused(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    message = f"run_dir must be empty or hold the same plan.*{named}.*Choose a new folder"
    with pytest.raises(ArgumentError, match=message):
        run(tmp_path, untouchable((400, 3)), untouchable((400,)), **changed)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("exists", [False, True])
def test_modes_keep_others_out(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "a" / "run"
    if exists:
        folder.mkdir(parents=True, mode=0o755)
    mask = os.umask(0)
    try:
        run(folder)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert files == {"plan.json": 0o600, "releases.jsonl": 0o600, "model.json": 0o600}
