"""The file of constants: honoured where it is whole, as if absent otherwise, never an error."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fastdp_dask.costs import cache
from fastdp_dask.costs.machine import DEFAULT, Machine, believed

OTHER = replace(DEFAULT, read=DEFAULT.read * 2, measured=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FASTDP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_there_and_back(place: Path) -> None:
    assert cache.load() == DEFAULT
    assert not place.exists()  # to load writes nothing
    assert cache.keep(OTHER) == place / "machine.json"
    assert cache.load() == OTHER
    assert os.listdir(place) == ["machine.json"]


def test_where_caches_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDP_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "fastdp-dask"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the XDG specification
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == tmp_path / "home" / ".cache" / "fastdp-dask"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00", b"[1, 2]", b"null", b"{", b"[" * 100_000, b'{"x": 1e999}'], ids=range(7)
)
def test_damaged_files_are_as_if_absent_and_are_replaced(place: Path, content: bytes) -> None:
    place.mkdir()
    (place / "machine.json").write_bytes(content)
    assert cache.load() == DEFAULT
    assert cache.keep(OTHER) is not None
    assert cache.load() == OTHER


@pytest.mark.parametrize("value", [None, "1e-9", True, -1e-9, 0.0, float("nan"), float("inf"), 1.0, [1e-9]])
def test_one_constant_that_cannot_be_true_discards_all(place: Path, value: object) -> None:
    cache.keep(OTHER)
    entries = json.loads((place / "machine.json").read_text())
    entries[cache.key()]["read"] = value
    (place / "machine.json").write_text(json.dumps(entries))
    assert cache.load() == DEFAULT


def test_other_machines_and_versions_have_constants_of_their_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(OTHER)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("platform.node", lambda: "elsewhere")
        assert cache.load() == DEFAULT
        cache.keep(replace(OTHER, task=2 * OTHER.task))
    with monkeypatch.context() as newer:
        newer.setattr(cache, "version", lambda package: "999")
        assert cache.load() == DEFAULT
    assert cache.load() == OTHER  # the other machine's are beside, not instead


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FASTDP_CACHE_DIR", str(tmp_path / "file" / "cache"))  # below a file: not even for root
    assert cache.keep(OTHER) is None
    assert cache.load() == DEFAULT


def test_believed_needs_every_constant() -> None:
    values = OTHER.to_dict()
    assert believed(values) == OTHER
    del values["gram"]
    assert believed(values) is None
    assert isinstance(believed({**OTHER.to_dict(), "unknown": 3}), Machine)
