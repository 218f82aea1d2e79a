"""Workers that die or leave in the middle of a pass: the fit finishes, and not a bit differs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers import bits, chunked, fit, model, small_data

pytestmark = pytest.mark.cluster

N, ROWS = 2000, 100
X, Y = small_data(N, 3)
KILLED_IN_CHUNK = N // ROWS // 2  # with chunks done before it and chunks left


def read_chunk(block_id: tuple[int, ...], flag: str, pause: float) -> np.ndarray:
    """A chunk of X; the worker that meets the flag dies by SIGKILL, once."""
    time.sleep(pause)
    if block_id[0] == KILLED_IN_CHUNK:
        try:
            os.unlink(flag)
        except FileNotFoundError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return X[block_id[0] * ROWS : (block_id[0] + 1) * ROWS]


def source(flag: Path, pause: float = 0.0) -> da.Array:
    return da.map_blocks(
        read_chunk, flag=str(flag), pause=pause, chunks=((ROWS,) * (N // ROWS), (3,)), dtype=float, meta=X[:0]
    )


@pytest.fixture(scope="module")
def expected() -> bytes:
    return bits(fit(model(), *chunked(X, Y, N)))


@pytest.mark.parametrize("victim", ["sketch", "deviation", "gradient"])
def test_a_worker_killed_in_the_middle_of_a_pass(
    two_workers: LocalCluster, tmp_path: Path, expected: bytes, victim: str
) -> None:
    flag = tmp_path / "kill"
    planted: list[str] = []

    @contextmanager
    def plant(name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        if name == victim and not planted:
            planted.append(name)
            flag.touch()
        yield

    with Client(two_workers) as client:
        client.wait_for_workers(2, timeout=60)
        before = set(client.run(os.getpid).values())
        found = fit(model(), source(flag), da.from_array(Y, chunks=ROWS), progress=plant)
        assert planted == [victim]
        assert not flag.exists()
        client.wait_for_workers(2, timeout=60)
        assert len(before & set(client.run(os.getpid).values())) == 1  # one of the two did die
    assert bits(found) == expected
    assert found.n_passes_ == 4


def test_a_worker_retired_during_a_fit(two_workers: LocalCluster, tmp_path: Path, expected: bytes) -> None:
    with Client(two_workers) as client:
        client.wait_for_workers(2, timeout=60)
        before = set(client.run(os.getpid).values())
        retirement = threading.Timer(0.3, two_workers.scale, [1])

        @contextmanager
        def start(name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
            if number == 1:
                retirement.start()
            yield

        found = fit(model(), source(tmp_path / "none", pause=0.05), da.from_array(Y, chunks=ROWS), progress=start)
        retirement.join()
        assert len(set(client.run(os.getpid).values()) & before) == 1
        two_workers.scale(2)
        client.wait_for_workers(2, timeout=60)
    assert bits(found) == expected


def test_one_process_that_starts_only_when_there_is_work(expected: bytes) -> None:
    with LocalCluster(n_workers=0, threads_per_worker=2, dashboard_address=":0", memory_limit=0) as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="200ms")
        with Client(cluster):
            found = fit(model(), *chunked(X, Y, ROWS))
    assert bits(found) == expected
