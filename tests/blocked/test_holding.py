"""Data that fit are read once, give the same bits, and are let go of at the end, whatever the end is."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from helpers import ReadCounter, bits, fit, model, small_data

from fastdp_dask import SRHT
from fastdp_dask.blocked import holding, memory
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import ArgumentError
from fastdp_dask.rows.scaling import declare

SCALING = declare(4, bounds_X=(-1, 1), bounds_y=(-1, 1))
MIB = 2**20


def passes(rows: BlockedRows) -> list[bytes]:
    sketch = SRHT(rows.n_rows, 64, seed=1)
    sums, first = rows.sketch([sketch], 1.0)
    found = [*sums, first, np.array(rows.deviation([sketch], sums)), rows.gradient(np.ones(5), 1.0), *rows.gram(1.0)]
    return [part.tobytes() for part in found]


def test_held_data_are_read_once_and_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = small_data()
    target = da.from_array(y, chunks=(700,))
    found = []
    monkeypatch.setattr(holding, "free_bytes", lambda: 10**12)
    with dask.config.set(scheduler="threads", num_workers=2):
        for persist, passes_expected, reads in ((False, 4, 4), (True, 4, 1), ("auto", 4, 1), ("auto", 1, 4)):
            counter = ReadCounter(X, 700)
            rows = BlockedRows(counter.array, target, SCALING, persist=persist, expected_passes=passes_expected)
            with rows:
                found.append(passes(rows))
            assert set(counter.reads.values()) == {reads}
            assert rows.n_passes == 4
            rows.gradient(np.ones(5), 1.0)
            assert set(counter.reads.values()) == {reads + 1}  # nothing is held any more
    assert found[1:] == found[:-1]


def test_auto_holds_nothing_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = small_data()
    counter = ReadCounter(X, 700)
    monkeypatch.setattr(holding, "free_bytes", lambda: X.nbytes + y.nbytes)
    with dask.config.set(scheduler="threads"), BlockedRows(
        counter.array, da.from_array(y, chunks=(700,)), SCALING, persist="auto"
    ) as rows:  # fmt: skip
        passes(rows)
    assert set(counter.reads.values()) == {4}
    with pytest.raises(ArgumentError, match="persist must be"):
        fit(model(persist="disk"), X, y)


def test_what_fits_follows_from_limits_and_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = memory.PassMemory(chunk=10 * MIB, work=5 * MIB, partial=MIB, total=2 * MIB)
    monkeypatch.setattr(holding, "free_bytes", lambda: 1000 * MIB)
    for scheduler, fitting in (("threads", True), ("synchronous", True), ("processes", False)):
        with dask.config.set(scheduler=scheduler, num_workers=2):
            assert holding.fits(400 * MIB, needed) is fitting
            assert not holding.fits(500 * MIB, needed)

    class Cluster:
        asynchronous = False

    workers = [{"memory_limit": 1000 * MIB, "nthreads": 1}, {"memory_limit": 3000 * MIB, "nthreads": 2}]
    monkeypatch.setattr(holding, "_active_client", Cluster)
    monkeypatch.setattr(holding, "_workers", lambda client: workers)
    room = 0.6 * 1000 * MIB - needed.worker(1)  # the first worker is the tighter one: a third of the data
    assert holding.fits(int(room * 3 / 1.25), needed)
    assert not holding.fits(int(room * 3 / 1.25) + 10, needed)
    workers[1]["memory_limit"] = 0  # no limit: nobody knows
    assert not holding.fits(1, needed)
    workers.clear()
    assert not holding.fits(1, needed)


def test_free_memory_is_a_number_of_this_machine() -> None:
    assert 16 * MIB < holding.free_bytes() < 2**50


@pytest.mark.cluster
@pytest.mark.parametrize("failing", [False, True])
def test_workers_let_go_at_the_end(two_workers: Any, failing: bool) -> None:
    X, y = small_data()

    class Stopped(Exception):
        """Raised in the second pass."""

    told = []

    @contextmanager
    def progress(name: str, number: int, n_rows: int, n_chunks: int) -> Any:
        if number == 2:
            told.append(len(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))))
            if failing:
                raise Stopped
        yield

    expected = bits(fit(model(), X, y))
    with Client(two_workers) as client:
        caught: Any = None
        try:
            found = fit(model(persist=True), da.from_array(X, chunks=(700, 4)), y, progress=progress)
        except Stopped as error:
            caught = error  # its traceback names the arrays
        assert told[0] >= 5  # held: the chunks of X at least
        assert (caught is not None) is failing
        if not failing:
            assert bits(found) == expected
        deadline = time.monotonic() + 30
        while held := client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks)):
            assert time.monotonic() < deadline, held
            time.sleep(0.05)
