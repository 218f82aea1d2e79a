"""Tables and stores behind an S3 server on this machine: the same bits as from a disk, and no secret in sight."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fsspec.core import url_to_fs

from fastdp_dask.commands.app import main
from fastdp_dask.data import Declaration, location, open_store, write_store
from fastdp_dask.errors import ArgumentError, StoreError

SECRET = "n0t-t0-be-sh0wn"
DECLARATION = Declaration(["a", "b"], [(0, 1), (0, 1)], [], "y", (0, 2))
BOUNDS = """
[target]
name = "y"
lower = 0
upper = 2
[features]
a = {lower = 0, upper = 1}
b = {lower = 0, upper = 1}
"""


@dataclass(frozen=True)
class Server:
    endpoint: str

    @property
    def options(self) -> dict[str, Any]:
        return {"key": "me", "secret": SECRET, "endpoint_url": self.endpoint}

    @property
    def arguments(self) -> list[str]:
        return [word for key, value in self.options.items() for word in ("--storage-option", f"{key}={value}")]

    @property
    def files(self) -> Any:
        return url_to_fs("s3://bucket", **self.options)[0]


def answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Nothing of this machine's own account is looked for.
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true"}
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    try:
        give_up = time.monotonic() + 60
        while not answers(port):
            assert time.monotonic() < give_up, "the server does not answer"
            time.sleep(0.05)
        started = Server(f"http://127.0.0.1:{port}")
        started.files.mkdir("bucket")
        yield started
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def tables(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables of 40 rows in three formats, on disk and, under the same names, in the bucket."""
    folder = tmp_path_factory.mktemp("tables")
    for k in range(2):
        rng = np.random.default_rng(k)
        frame = pd.DataFrame({"a": rng.uniform(size=40), "b": rng.uniform(size=40), "y": rng.uniform(0, 2, 40)})
        (folder / "parts").mkdir(exist_ok=True)
        frame.to_csv(folder / f"part{k}.csv", index=False)
        frame.to_csv(folder / f"part{k}.csv.gz", index=False)
        frame.to_parquet(folder / "parts" / f"{k}.parquet")
        frame.to_feather(folder / f"part{k}.feather")
    (folder / "bounds.toml").write_text(BOUNDS)
    server.files.put(f"{folder}/", "bucket/tables/", recursive=True)
    return folder


def run(*arguments: object) -> int:
    return main([str(word) for word in arguments])


def rows(place: Any, **options: Any) -> bytes:
    store = open_store(place, **options)
    return bytes(store.X.compute().tobytes() + store.y.compute().tobytes())


@pytest.mark.parametrize("source", ["part*.csv", "part0.csv.gz", "parts", "part*.feather"])
def test_a_table_by_url_becomes_a_store_by_url(
    server: Server, tables: Path, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--target", "y", "--bounds", tables / "bounds.toml", "--chunk-rows", 16]
    dest = f"s3://bucket/stores/{source.replace('*', '')}"
    assert run("ingest", tables / source, tmp_path / "store", *more) == 0
    assert run("ingest", f"s3://bucket/tables/{source}", dest, *more, *server.arguments) == 0
    assert rows(dest, storage_options=server.options) == rows(tmp_path / "store")
    shown = capsys.readouterr()
    assert dest in shown.out
    assert SECRET not in shown.out + shown.err


def test_the_same_model_and_predictions(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    data = [(rng.uniform(size=(300, 2)), rng.uniform(0, 2, 300))]
    here, there = tmp_path / "store", "s3://bucket/fit/store"
    write_store(here, data, DECLARATION, chunk_rows=64)
    assert write_store(there, data, DECLARATION, chunk_rows=64, storage_options=server.options) == there
    assert str(open_store(there, storage_options=server.options).path) == there
    seeds = ["--epsilon", 1, "--delta", 1e-6, "--public-seed", 1, "--random-state", 2]
    for name, place, more in (("here", here, []), ("there", there, server.arguments)):
        assert run("plan", place, *seeds[:4], *more) == 0
        assert run("fit", place, *seeds, "--out", tmp_path / name, *more) == 0
        assert run("predict", tmp_path / name, place, "--out", tmp_path / f"{name}.npy", *more) == 0
    assert np.array_equal(np.load(tmp_path / "here.npy"), np.load(tmp_path / "there.npy"))
    assert (tmp_path / "here" / "model.json").read_text() == (tmp_path / "there" / "model.json").read_text()
    shown = capsys.readouterr()
    kept = "".join(path.read_text() for path in (tmp_path / "there").iterdir())
    assert there in kept
    assert SECRET not in kept + shown.out + shown.err
    assert SECRET not in repr(open_store(there, storage_options=server.options).X.dask.layers)


def test_a_key_that_is_gone_is_noticed(server: Server) -> None:
    place = "s3://bucket/gone"
    data = [(np.ones((40, 2)), np.ones(40))]
    write_store(place, data, DECLARATION, chunk_rows=16, storage_options=server.options)
    server.files.rm_file("bucket/gone/X/c/1/0")
    with pytest.raises(StoreError, match=f"array X of store {place} has 2 of 3 chunks"):
        open_store(place, storage_options=server.options)
    blank = open_store(place, storage_options=server.options, allow_missing_chunks=True).X.compute()
    assert np.isnan(blank[16:32]).all()
    assert not np.isnan(blank[32:]).any()


def test_what_is_there_is_not_overwritten_unasked(server: Server) -> None:
    data = [(np.ones((8, 2)), np.ones(8))]
    options: dict[str, Any] = {"storage_options": server.options}
    write_store("s3://bucket/twice", data, DECLARATION, **options)
    with pytest.raises(StoreError, match="dest s3://bucket/twice exists already"):
        write_store("s3://bucket/twice", data, DECLARATION, **options)
    write_store("s3://bucket/twice", [(np.zeros((8, 2)), np.zeros(8))], DECLARATION, overwrite=True, **options)
    assert not open_store("s3://bucket/twice", **options).X.compute().any()
    server.files.pipe("bucket/other/file", b"not a store")
    with pytest.raises(StoreError, match="dest s3://bucket/other is not a Zarr group"):
        write_store("s3://bucket/other", data, DECLARATION, overwrite=True, **options)
    assert server.files.exists("bucket/other/file")


def test_a_failed_write_leaves_nothing(server: Server) -> None:
    def blocks() -> Iterator[Any]:
        yield np.ones((64, 2)), np.ones(64)
        raise StoreError("the source ends here")

    with pytest.raises(StoreError, match="the source ends here"):
        write_store("s3://bucket/half", blocks(), DECLARATION, chunk_rows=16, storage_options=server.options)
    assert not server.files.exists("bucket/half")


def test_places_that_cannot_be_reached(server: Server) -> None:
    data = [(np.ones((8, 2)), np.ones(8))]
    with pytest.raises(StoreError, match="store s3://bucket/none does not exist"):
        open_store("s3://bucket/none", storage_options=server.options)
    with pytest.raises(StoreError, match=r"s3://nobody/store cannot be (reached|written) \(.*Error\)") as caught:
        write_store("s3://nobody/store", data, DECLARATION, storage_options=server.options)
    assert SECRET not in str(caught.value)
    with pytest.raises(ArgumentError, match="s3://bucket/nothing, which matches no file"):
        run_ingest("s3://bucket/nothing", server)


def run_ingest(source: str, server: Server) -> None:
    from fastdp_dask.data import ingest

    ingest(source, "s3://bucket/new", target="y", bounds=DECLARATION, storage_options=server.options)


@pytest.mark.parametrize(
    "place", ["s3://me:pw@bucket/x", "s3://me@bucket/x", "s3://bucket/x?token=pw", "s3://bucket/x#pw", "s3://"]
)
def test_a_url_holds_no_secret(place: str) -> None:
    with pytest.raises(ArgumentError, match="data must be a s3://bucket/key URL without user") as caught:
        open_store(place)
    assert "pw" not in str(caught.value)


def test_other_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"data must be a path or an s3://.*got one of ftp://"):
        open_store("ftp://host/x")
    with pytest.raises(ArgumentError, match=r"storage_options .* must be left out for a path, got anon with data"):
        open_store(tmp_path, storage_options={"anon": True})
    with pytest.raises(ArgumentError, match="data must be a path or a URL, got int"):
        open_store(5)  # type: ignore[arg-type]
    monkeypatch.setattr(location, "find_spec", lambda name: None)
    with pytest.raises(StoreError, match=r"adlfs is needed for az://.*pip install 'fastdp-dask\[az\]'"):
        open_store("az://container/x")
    write_store(tmp_path / "store", [(np.ones((8, 2)), np.ones(8))], DECLARATION)
    assert open_store(f"file://{tmp_path}/store").path == tmp_path / "store"


@pytest.mark.parametrize(
    ("pair", "said"), [("secret", "KEY=VALUE"), ("a-b=pw", "KEY=VALUE"), ("config={pw", "config must be JSON")]
)
def test_options_on_the_command_line(pair: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "s3://bucket/x", "--epsilon", 1, "--delta", 1e-6, "--storage-option", pair) == 1
    shown = capsys.readouterr().err
    assert said in shown
    assert "pw" not in shown
