"""Scheduler, driver and workers on hosts of their own, over TLS; cables are pulled in the middle of a pass."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from hosts import SCHEDULER, Hosts, hosts

from fastdp_dask.commands import certificates
from fastdp_dask.data import Declaration, write_store
from fastdp_dask.ledger import Ledger

pytestmark = pytest.mark.site

ADDRESS = f"tls://{SCHEDULER}:8786"
N, CHUNK = 24576, 64  # 384 chunks: a pass lasts about a second, most of it spent on scheduling
FIT = ["--epsilon", "5", "--delta", "1e-6", "--solver", "fastihm", "--preset", "paper"]
FIT += ["--public-seed", "11", "--random-state", "12"]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",  # last bits on the driver
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "8s",  # a silent host is given up after that, not after 5 minutes
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
}  # fmt: skip


def write_small_chunks(path: Path) -> Path:
    """A store of many chunks, written at once rather than chunk by chunk."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(N, 3)).astype(np.float32)
    y = (X.sum(axis=1) + random.normal(0, 0.1, N)).astype(np.float32)
    declaration = Declaration(["a", "b", "c"], [(0, 1)] * 3, [], "y", (0, 4))
    write_store(path, [(X[:CHUNK], y[:CHUNK])], declaration, chunk_rows=CHUNK)
    group = zarr.open_group(str(path), mode="r+")
    for name, rows in (("X", X), ("y", y)):
        array = group[name]
        assert isinstance(array, zarr.Array)
        array.resize(rows.shape)
        array[:] = rows
    group.attrs["n_rows"] = N
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_chunks(tmp_path_factory.mktemp("data") / "store")


@pytest.fixture(scope="module")
def expected(store: Path) -> object:
    """The model of the same command on threads of this process's host."""
    out = store.parent / "threads"
    command = [sys.executable, "-m", "fastdp_dask.commands", "fit", str(store), *FIT, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **ENVIRONMENT}, timeout=250)
    return json.loads((out / "model.json").read_text())


class Cluster:
    """A scheduler on sched and workers on w1 and w2, which take holders of our certificate only."""

    def __init__(self, at: Hosts, folder: Path, store: Path) -> None:
        self.at, self.store, self.folder = at, store, folder
        self.ledger = Ledger.create(folder / "budget.db", epsilon=6, delta=1e-5)
        self.tls = self.certificate("ours")
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", SCHEDULER, "--port", "8786"]
        at.serve("sched", [*scheduler, *self.tls, "--no-dashboard"], ENVIRONMENT)
        for number in (1, 2):
            self.start_worker(number)

    def certificate(self, name: str) -> list[str]:
        certificates.write(self.folder / name, lifetime=datetime.timedelta(hours=1), names=[SCHEDULER])
        options = zip(("--tls-ca-file", "--tls-cert", "--tls-key"), certificates.FILES, strict=True)
        return [word for option, file in options for word in (option, str(self.folder / name / file))]

    def start_worker(self, number: int) -> None:
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", ADDRESS, "--host", f"10.77.0.1{number}"]
        worker += ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60", "--name", f"w{number}"]
        self.at.serve(f"w{number}", [*worker, *self.tls, "--local-directory", str(self.folder)], ENVIRONMENT)

    def fit(self, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fastdp_dask.commands", "fit", str(self.store), *FIT]
        command += ["--out", str(self.folder / "run"), "--ledger", str(self.ledger.path), *more]
        return self.at.run("client", command, ENVIRONMENT)

    def wait_for_workers(self, count: int) -> None:
        give_up = time.monotonic() + 120
        while sum("Registered to" in self.at.log(f"w{number}") for number in (1, 2)) < count:
            assert time.monotonic() < give_up, "workers did not come"
            time.sleep(0.1)

    def model(self) -> object:
        return json.loads((self.folder / "run" / "model.json").read_text())


@pytest.fixture
def cluster(tmp_path: Path, store: Path) -> Iterator[Cluster]:
    with hosts(tmp_path) as at:
        yield Cluster(at, tmp_path, store)


def wait_for_line(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"no line with {words!r}"


def test_only_members_get_in_and_a_cable_pulled_in_a_pass_changes_no_bit(cluster: Cluster, expected: object) -> None:
    cluster.wait_for_workers(2)
    plain = cluster.fit("--scheduler", ADDRESS.replace("tls:", "tcp:"), "--insecure", "--worker-timeout", "3")
    foreign = cluster.fit("--scheduler", ADDRESS, *cluster.certificate("others"), "--worker-timeout", "3")
    for refused in (plain, foreign):
        _, err = refused.communicate(timeout=150)
        assert refused.returncode == 1, err
        assert "no answer within 3 s" in err
    assert cluster.ledger.charges() == []

    fit = cluster.fit("--scheduler", ADDRESS, *cluster.tls, "--worker-timeout", "30")
    wait_for_line(fit, "pass 2 (deviation)")
    time.sleep(0.1)
    cluster.at.cut("w1")
    cut = time.monotonic()
    wait_for_line(fit, "pass 2 (deviation): done")
    assert time.monotonic() - cut > 2  # it stood still until the scheduler gave the silent host up
    _, err = fit.communicate(timeout=150)
    assert fit.returncode == 0, err
    assert any("Remove worker" in line and "10.77.0.11" in line for line in cluster.at.log("sched").splitlines())
    assert cluster.model() == expected
    assert len(cluster.ledger.charges()) == 1


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        (["w1", "w2"], f"the scheduler {ADDRESS} has had no worker for 15 s"),
        (["sched"], f"the connection to the scheduler {ADDRESS} was lost"),
    ],
    ids=["workers", "scheduler"],
)
def test_a_lost_cluster_ends_with_75_and_the_fit_goes_on_elsewhere(
    cluster: Cluster, expected: object, cut: list[str], said: str
) -> None:
    cluster.wait_for_workers(2)
    fit = cluster.fit("--scheduler", ADDRESS, *cluster.tls, "--worker-timeout", "15")
    wait_for_line(fit, "pass 3 (gradient)")
    for host in cut:
        cluster.at.cut(host)
    _, err = fit.communicate(timeout=150)
    assert fit.returncode == 75, err
    assert said in err
    assert not (cluster.folder / "run" / "model.json").exists()
    assert len(cluster.ledger.charges()) == 1

    again = cluster.fit()  # on the threads of the driver's own host
    _, err = again.communicate(timeout=150)
    assert again.returncode == 0, err
    assert "(sketch)" not in err
    assert cluster.model() == expected
    assert len(cluster.ledger.charges()) == 1
