"""`fastdp doctor`: a healthy machine is told so, and each ailment is named with a next step."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from fastdp_dask.commands import checkup
from fastdp_dask.commands.app import main
from fastdp_dask.errors import FastDPError


def test_a_healthy_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("Python", "packages:", "memory:", "randomness:", "kernels:", "disk:", "locks:"):
        (line,) = [line for line in lines if f"  {name}" in line]
        # How much memory is free and how fast the disk is depend on what else runs here.
        assert line.startswith("ok" if name not in ("memory:", "disk:") else ("ok", "warn")), line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--folder", str(tmp_path / "absent")]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail")]
    assert [line.split()[1] for line in failed] == ["disk:", "locks:"]
    assert all(line.endswith(".") for line in failed)


def one(check: Callable[[], Any]) -> checkup.Finding:
    (finding,) = check()
    return finding


def test_old_and_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.metadata.version

    def version(name: str) -> str:
        if name == "dask":
            return "2019.1"
        if name == "zarr":
            raise importlib.metadata.PackageNotFoundError(name)
        return whole(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    *_, finding = checkup.packages()
    assert finding.state == checkup.FAIL
    (wanted,) = (each for each in importlib.metadata.requires("fastdp-dask") or () if each.startswith("dask[array]"))
    assert f"dask 2019.1 is not {wanted.removeprefix('dask[array]')}" in finding.what
    assert "zarr is missing" in finding.what
    assert "numpy" not in finding.what
    assert finding.next_step.startswith("Run: pip install")


def test_a_package_of_an_extra_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "find_spec", lambda name: None if name in ("h5py", "matplotlib") else True)
    finding = one(checkup.optional_packages)
    assert finding.state == checkup.WARN
    assert "h5py (HDF5 files), matplotlib (the demo's picture)" in finding.what
    assert finding.next_step == "Run: pip install 'fastdp-dask[demo,ingest]'"


def test_a_slow_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_SLOW_DISK", 1e9)
    assert one(lambda: checkup.disk(tmp_path)).state == checkup.WARN


def test_locks_that_do_not_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Open:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *_: Any) -> None: ...

    monkeypatch.setattr(checkup, "FileLock", Open)
    assert one(lambda: checkup.locks(tmp_path)).state == checkup.FAIL


def test_noise_that_repeats_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "fresh_seed", lambda: 7)
    assert one(checkup.randomness).state == checkup.OK

    class Stuck:
        def integers(self, _: int) -> int:
            return 4

        def discrete_gaussian(self, *_: int) -> None: ...

    monkeypatch.setattr(checkup.NoiseSource, "stream", lambda *_: Stuck())
    assert one(checkup.randomness).state == checkup.FAIL


def test_a_machine_without_entropy_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ready(*_: Any) -> bytes:
        raise BlockingIOError

    monkeypatch.setattr(os, "getrandom", not_ready, raising=False)
    monkeypatch.setattr(os, "GRND_NONBLOCK", 1, raising=False)
    finding = one(checkup.randomness)
    assert (finding.state, finding.next_step[:4]) == (checkup.FAIL, "Wait")


def test_a_check_that_breaks_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Any:
        raise FastDPError("of two\nlines")

    for name in ("packages", "optional_packages", "processors", "memory", "kernels"):
        monkeypatch.setattr(checkup, name, broken)
    assert main(["doctor", "--folder", str(tmp_path)]) == 1
    assert "fail  unexpected FastDPError in a check: of two lines" in capsys.readouterr().out


def test_no_scheduler_there_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["doctor", "--folder", str(tmp_path), "--scheduler", "tcp://127.0.0.1:1", "--insecure"]
    assert main([*arguments, "--worker-timeout", "1"]) == 1
    assert "no answer within 1 s" in capsys.readouterr().out


@pytest.mark.cluster
def test_workers_of_other_versions_are_named(two_workers: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(two_workers):
        healthy = one(checkup.workers)
        assert healthy.state == checkup.OK
        assert "workers: 2 with 2 threads" in healthy.what
        there = checkup.versions()
        for name, state in (("numba", checkup.FAIL), ("zarr", checkup.WARN)):
            monkeypatch.setattr(checkup, "versions", _Versions({**there, name: "0.1"}))
            finding = one(checkup.workers)
            assert finding.state == state
            assert f"{name} {there[name]} (here 0.1)" in finding.what


class _Versions:
    """Answers with made-up versions in this process; pickles as the real function."""

    def __init__(self, here: dict[str, str]) -> None:
        self._here = here

    def __call__(self) -> dict[str, str]:
        return self._here

    def __reduce__(self) -> Any:
        return _real, ()


def _real() -> Any:
    from fastdp_dask.commands import checkup

    return checkup.versions
