"""Bars and lines of the passes, and the counts behind them."""

from __future__ import annotations

import io
import time
from typing import Any

import dask.array as da
import numpy as np
import pytest
from command_cases import without_times
from distributed import Client

from fastdp_dask.blocked.chunk_count import ChunkCount, count_chunks
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.progress import PassReport
from fastdp_dask.blocked.scheduler_count import counting_on
from fastdp_dask.rows.scaling import declare


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def rows(report: Any = None, chunk: int = 10) -> BlockedRows:
    X = da.from_array(np.random.default_rng(0).uniform(0, 1, (120, 3)), chunks=(chunk, 3))
    scaling = declare(3, bounds_X=(0, 1), bounds_y=(0, 1))
    return BlockedRows(X, X[:, 0], scaling, report or PassReport(io.StringIO()))


def test_lines_at_start_and_end() -> None:
    stream = io.StringIO()
    rows(PassReport(stream)).gram(1.0)
    assert without_times(stream.getvalue()) == (
        "fastdp: pass 1 (gram): 120 rows in 12 chunks\nfastdp: pass 1 (gram): done in # s, # rows/s\n"
    )


def test_lines_in_between_come_from_the_clock() -> None:
    stream = io.StringIO()
    with PassReport(stream, every=0.01)("sketch", 1, 100, 4):
        time.sleep(0.3)
    assert "fastdp: pass 1 (sketch): 0 of 4 chunks in 0 s\n" in stream.getvalue()


def test_a_pass_that_fails_is_not_called_done() -> None:
    stream = io.StringIO()
    with pytest.raises(KeyError), PassReport(stream)("sketch", 1, 100, 4):
        raise KeyError
    assert without_times(stream.getvalue()).endswith("fastdp: pass 1 (sketch): stopped after # s\n")


def test_a_closed_stream_does_not_fail_the_pass() -> None:
    stream = io.StringIO()
    stream.close()
    gram, _ = rows(PassReport(Quiet(stream))).gram(1.0)
    assert gram.shape == (4, 4)


class Quiet:
    """A stream whose writes fail."""

    def __init__(self, stream: io.StringIO) -> None:
        self.write, self.flush = stream.write, stream.flush

    def isatty(self) -> bool:
        return False


def test_bar_on_a_terminal() -> None:
    stream = Terminal()
    rows(PassReport(stream)).gram(1.0)
    text = stream.getvalue()
    assert "pass 1 (gram)" in text
    assert "12/12 chunks" in text
    assert "rows/s" in text


@pytest.mark.parametrize("chunk", [120, 60, 10, 1])
def test_counts_on_threads_reach_the_number_of_chunks(chunk: int) -> None:
    ticks: list[int] = []

    class Counted:
        def __call__(self, name: str, number: int, n_rows: int, n_chunks: int) -> Any:
            self.n_chunks = n_chunks
            return count_chunks(n_chunks, ticks.append)

    counted = Counted()
    rows(counted, chunk).gradient(np.zeros(4), 1.0)
    assert ticks == sorted(ticks)
    assert ticks[-1] == counted.n_chunks


def test_a_chunk_counts_when_it_has_passed_every_layer_and_once() -> None:
    count = ChunkCount(2)
    count.learn([("read", 0), ("read", 1), ("sum", 0), ("sum", 1), ("total", 0)])
    assert count.finish(("read", 0)) == 0
    assert count.finish(("sum", 0)) == 1
    assert count.finish(("sum", 0)) == 1
    assert count.finish(("total", 0)) is None
    count.finish(("sum", 1))
    assert count.finish(("read", 1)) == 2


@pytest.mark.cluster
def test_counts_and_result_on_worker_processes(two_workers: Any) -> None:
    expected = rows().gradient(np.full(4, 0.25), 1.0)
    ticks: list[int] = []
    with Client(two_workers) as client:
        with counting_on(client, 12, ticks.append) as counted:
            assert counted
            got = rows(lambda *facts: count_chunks(0, ticks.append)).gradient(np.full(4, 0.25), 1.0)
            deadline = time.monotonic() + 10
            while 12 not in ticks and time.monotonic() < deadline:
                time.sleep(0.05)
        stream = io.StringIO()
        rows(PassReport(stream)).gram(1.0)
    np.testing.assert_array_equal(got, expected)
    assert ticks[-1] == 12
    assert without_times(stream.getvalue()).endswith("fastdp: pass 1 (gram): done in # s, # rows/s\n")


def test_a_scheduler_that_takes_no_plugin_gives_elapsed_time_only() -> None:
    class Refusing:
        asynchronous = False

        def register_plugin(self, plugin: object, name: str) -> None:
            raise ModuleNotFoundError("fastdp_dask")

    with counting_on(Refusing(), 3, lambda done: None) as counted:
        assert counted is False
