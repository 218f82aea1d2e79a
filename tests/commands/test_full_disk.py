"""A disk that takes no more: the message names the file, and nothing half written is left."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_cases import make_store, records

from fastdp_dask.commands.app import main

BOUNDS = """
[target]
name = "wage"
lower = 0
upper = 50
[features.age]
lower = 0
upper = 100
"""


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes: an error of the kind that a full disk gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", ["out.npy", "out.csv", "out.zarr"])
def test_predict_names_its_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, run = make_store(tmp_path / "store"), tmp_path / "run"
    assert main(["fit", str(store), "--epsilon", "5", "--delta", "1e-6", "--out", str(run)]) == 0
    (tmp_path / "to").mkdir()
    out = tmp_path / "to" / name
    with no_file_beyond(4096):
        assert main(["predict", str(run), str(store), "--out", str(out)]) == 1
    assert f"--out {out} cannot be written (File too large)" in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []
    assert main(["predict", str(run), str(store), "--out", str(out)]) == 0


@pytest.mark.parametrize("name", ["out.npy", "out.csv", "out.zarr"])
def test_predict_names_its_file_on_a_mount_without_writing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There even the removal of a file that is not there fails, so it must not hide what is said of the file."""
    store, run = make_store(tmp_path / "store"), tmp_path / "run"
    assert main(["fit", str(store), "--epsilon", "5", "--delta", "1e-6", "--out", str(run)]) == 0
    place = tmp_path / "to"
    place.mkdir()

    def refused(call: Any) -> Any:
        def checked(path: Any, *rest: Any, **more: Any) -> Any:
            if isinstance(path, str | os.PathLike) and Path(path).is_relative_to(place):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), os.fspath(path))
            return call(path, *rest, **more)

        return checked

    for call in ("open", "unlink", "mkdir"):
        monkeypatch.setattr(os, call, refused(getattr(os, call)))
    assert main(["predict", str(run), str(store), "--out", str(place / name)]) == 1
    assert f"--out {place / name} cannot be written (Read-only file system)" in capsys.readouterr().err


def test_ingest_names_its_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = records(20_000)
    pd.DataFrame({"age": X[:, 0], "wage": y}).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    dest = tmp_path / "store"
    command = ["ingest", str(tmp_path / "table.csv"), str(dest), "--target", "wage"]
    command += ["--bounds", str(tmp_path / "bounds.toml")]
    with no_file_beyond(16384):
        assert main(command) == 1
    assert f"dest {dest} cannot be written (File too large)" in capsys.readouterr().err
    assert not dest.exists()
    assert main(command) == 0
