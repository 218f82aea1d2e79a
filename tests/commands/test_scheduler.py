"""`fastdp fit --scheduler` and `--workers`: the same model as on threads, over TLS, and bounded waits."""

from __future__ import annotations

import datetime
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from command_cases import PAPER, SEEDS, make_store
from distributed import LocalCluster, default_client
from distributed.security import Security

from fastdp_dask.blocked.waiting import computed
from fastdp_dask.commands import certificates
from fastdp_dask.commands.app import main
from fastdp_dask.commands.workers import connected, local_workers
from fastdp_dask.errors import ArgumentError, ClusterLostError, FastDPError

Files = dict[str, Path]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("scheduler") / "store")


@pytest.fixture(scope="module")
def on_threads(store: Path) -> dict[str, Any]:
    return fitted(store, store.parent / "threads")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return written(tmp_path_factory.mktemp("others"))


def written(folder: Path) -> Files:
    certificates.write(folder, lifetime=datetime.timedelta(hours=1), names=[])
    return {name: folder / file for name, file in zip(("ca_file", "cert", "key"), certificates.FILES, strict=True)}


@pytest.fixture(scope="module")
def over_tls(files: Files) -> Iterator[LocalCluster]:
    """A scheduler and one worker, in threads of this process, that take members of one authority only."""
    ca, cert, key = map(str, files.values())
    security = Security(
        require_encryption=True, tls_ca_file=ca, tls_scheduler_cert=cert, tls_scheduler_key=key, tls_worker_cert=cert,
        tls_worker_key=key, tls_client_cert=cert, tls_client_key=key,
    )  # fmt: skip
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tls://", security=security,
        dashboard_address=":0", silence_logs=60,
    ) as cluster:  # fmt: skip
        yield cluster


def listening() -> set[tuple[int, str, int]]:
    """(process, address, port) of all that this process and its children listen on."""
    return {
        (process.pid, connection.laddr.ip, connection.laddr.port)
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def refuse(address: str, **options: Any) -> None:
    """Fail if there is a connection."""
    with connected(address, **options):
        pytest.fail("connected")


def fitted(store: Path, out: Path, *more: object) -> dict[str, Any]:
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(out), *map(str, more)]) == 0
    document: dict[str, Any] = json.loads((out / "model.json").read_text())
    return document


@pytest.mark.cluster
def test_the_same_model_as_on_threads(
    two_workers: Any, store: Path, on_threads: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fitted(store, tmp_path, "--scheduler", two_workers.scheduler_address, "--insecure") == on_threads
    assert "pass 4 (gradient): done" in capsys.readouterr().err


@pytest.mark.cluster
def test_the_same_model_over_tls_by_the_address_in_a_file(
    over_tls: LocalCluster, files: Files, store: Path, on_threads: dict[str, Any], tmp_path: Path
) -> None:
    place = tmp_path / "scheduler.json"
    place.write_text(json.dumps({"address": over_tls.scheduler_address}))
    options = ["--tls-ca-file", files["ca_file"], "--tls-cert", files["cert"], "--tls-key", files["key"]]
    assert fitted(store, tmp_path / "run", "--scheduler", place, *options) == on_threads
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.cluster
def test_the_same_model_on_workers_of_its_own(store: Path, on_threads: dict[str, Any], tmp_path: Path) -> None:
    assert fitted(store, tmp_path, "--workers", 1) == on_threads


@pytest.mark.cluster
def test_workers_of_its_own_listen_on_loopback_and_to_members_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)  # left by workers before; it would stand
    before = listening()
    with local_workers(1, "8 GiB") as client:
        assert "MALLOC_TRIM_THRESHOLD_" not in os.environ  # smaller workers that this process starts do without
        (kept,) = client.run(os.getenv, "MALLOC_TRIM_THRESHOLD_").values()
        assert kept == str(2**28)  # roomy enough to keep what a pass frees
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert all(worker.startswith("tls://127.0.0.1:") for worker in client.nthreads())
        heard = listening() - before  # the HTTP servers too
        assert len(heard) >= 4
        assert {host for _, host, _ in heard} == {"127.0.0.1"}
        with pytest.raises(FastDPError, match="no answer within 2 s"):
            refuse(address.replace("tls:", "tcp:"), wait=2, insecure=True)


@pytest.mark.cluster
def test_workers_of_its_own_that_die_while_starting(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for lack of memory: said in one line, before anything is begun."""
    (tmp_path / "dies.py").write_text("import os\nos._exit(1)\n")
    with dask.config.set({"distributed.worker.preload": [str(tmp_path / "dies.py")]}):
        assert main(["fit", str(store), *PAPER, "--out", str(tmp_path / "run"), "--workers", "1"]) == 1
    said = capsys.readouterr().err
    assert "fastdp: error: worker processes ended while starting (memory?): expected 1 to stay. Start fewer" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.cluster
@pytest.mark.parametrize("authority", ["another", "none"])
def test_who_is_no_member_is_refused(over_tls: LocalCluster, others: Files, authority: str) -> None:
    address = over_tls.scheduler_address
    began = time.monotonic()
    options = others if authority == "another" else {"insecure": True}
    with pytest.raises(FastDPError, match="no answer within 2 s"):
        refuse(address if authority == "another" else address.replace("tls:", "tcp:"), wait=2, **options)
    assert time.monotonic() - began < 15


def test_a_plain_address_needs_to_be_asked_for() -> None:
    with pytest.raises(ArgumentError, match=r"must be a tls:// address, got tcp://node01:8786.*--insecure"):
        refuse("tcp://node01:8786")


@pytest.mark.parametrize("address", ["nonsense", "tls://a", "tls://:8786", "http://a:8786", "tls://a:99999", ""])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ArgumentError, match=r"--scheduler must be an address such as tls://host:8786"):
        refuse(address)


def test_the_file_of_a_scheduler_that_does_not_come(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"addr')
    for name in ("none.json", "half.json"):
        with pytest.raises(ArgumentError, match=rf"{name}, which has none after 0.2 s"):
            refuse(str(tmp_path / name), wait=0.2)


def test_tls_needs_its_three_files(files: Files, tmp_path: Path) -> None:
    address = "tls://node01:8786"
    for missing, option in (("ca_file", "--tls-ca-file"), ("cert", "--tls-cert"), ("key", "--tls-key")):
        given = {name: path for name, path in files.items() if name != missing}
        with pytest.raises(ArgumentError, match=f"{option} must be given"):
            refuse(address, **given)
        with pytest.raises(ArgumentError, match=f"{option} must be a readable file, got {re.escape(str(tmp_path))}"):
            refuse(address, **given, **{missing: tmp_path})
    key = tmp_path / "key.pem"
    key.write_bytes(files["key"].read_bytes())
    key.chmod(0o644)
    with pytest.raises(ArgumentError, match=r"--tls-key must be readable by its owner alone.*0644.*chmod 600"):
        refuse(address, **{**files, "key": key})


def test_the_files_may_be_those_of_the_configuration(files: Files) -> None:
    configured = {
        "distributed.comm.tls.ca-file": str(files["ca_file"]),
        "distributed.comm.tls.client.cert": str(files["cert"]),
        "distributed.comm.tls.client.key": str(files["key"]),
    }
    with dask.config.set(configured), pytest.raises(FastDPError, match=r"no answer within 0.5 s.*one authority"):
        refuse("tls://127.0.0.1:9", wait=0.5)


@pytest.mark.cluster
def test_a_scheduler_without_workers() -> None:
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        pytest.raises(FastDPError, match="no worker after 1 s"),
        connected(cluster.scheduler_address, wait=1, insecure=True),
    ):
        pytest.fail("went on without workers")


@pytest.mark.cluster
def test_all_workers_gone_in_the_middle_of_a_pass() -> None:
    """A cluster that loses its only worker: given up after the wait, unless another comes in time."""
    slow = da.ones(40, chunks=1).map_blocks(lambda block: time.sleep(0.1) or block, dtype=float)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0") as it,
        connected(it.scheduler_address, wait=2, insecure=True),
    ):
        it.scale(0)
        began = time.monotonic()
        with pytest.raises(ClusterLostError, match=r"no worker for 2 s.*run the same command again"):
            computed(slow)
        assert time.monotonic() - began < 10
        it.scale(1)
        assert np.array_equal(computed(slow[:3]), np.ones(3))


def lose(cluster: LocalCluster) -> None:
    with connected(cluster.scheduler_address, wait=2, insecure=True):
        cluster.close()
        default_client().nthreads()


@pytest.mark.cluster
def test_a_scheduler_gone_between_two_passes() -> None:
    """Nothing waits there, but the first question to the scheduler fails."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0", silence_logs=60
        ) as cluster,
        pytest.raises(ClusterLostError, match=r"connection to the scheduler .* was lost.*run the same command again"),
    ):
        lose(cluster)
