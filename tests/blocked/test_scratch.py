"""Work arrays that threads keep: their own, large enough, and given back."""

from __future__ import annotations

import os
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import dask
import dask.array as da
import numpy as np
import pytest

from fastdp_dask.blocked import scratch
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.rows.scaling import declare
from fastdp_dask.sketch.srht import SRHT


def test_a_thread_gets_its_own_array_again_until_a_larger_one_is_asked_for() -> None:
    scratch.forget()
    first = scratch.borrow("block", (4, 3), np.int32)
    assert np.shares_memory(first, scratch.borrow("block", (2, 2), np.float64))
    assert not np.shares_memory(first, scratch.borrow("rows", (4, 3), np.int32))
    assert not np.shares_memory(first, scratch.borrow("block", (100, 3), np.int64))
    assert first.flags.c_contiguous
    together = Barrier(2)

    def borrowed(_: int) -> np.ndarray:
        together.wait(timeout=60)  # so that each of the two threads does one
        return scratch.borrow("block", (4, 3), np.int32)

    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(borrowed, range(2))
    assert not np.shares_memory(a, b)
    scratch.forget()
    assert scratch._kept == {}


def test_what_nobody_borrows_is_given_back_soon() -> None:
    scratch.forget()
    scratch.borrow("block", (4, 3), np.int32)
    deadline = time.monotonic() + 60
    while scratch._kept:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    scratch.borrow("block", (4, 3), np.int32)  # the watch starts again
    while scratch._kept:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_fit_gives_its_work_arrays_back() -> None:
    X, y = da.ones((100, 2), chunks=(30, 2)), da.ones(100, chunks=(30,))
    with (
        dask.config.set(scheduler="threads"),
        BlockedRows(X, y, declare(2, bounds_X=(-1, 1), bounds_y=(-1, 1))) as rows,
    ):
        rows.sketch([SRHT(100, 8, seed=0)], 1.0)
    assert scratch._kept == {}


def test_the_memory_of_a_dropped_result_is_used_again_for_one_of_its_size() -> None:
    scratch.forget()
    shape = (512, 1024)  # 2 MiB
    first = scratch.result(shape, np.int32)
    assert first.shape == shape
    assert first.flags.c_contiguous
    assert first.flags.writeable
    second = scratch.result(shape, np.int32)
    assert not np.shares_memory(first, second)  # both are alive
    view = first[3:]
    del first
    third = scratch.result(shape, np.int32)
    assert not np.shares_memory(third, view)  # a view keeps it alive
    places = {view.ctypes.data - 3 * view.strides[0], third.ctypes.data}
    del view, third
    other = scratch.result((256, 1024), np.int32)
    assert other.ctypes.data not in places
    again = [scratch.result((256, 1024), np.int64) for _ in range(2)]  # as many bytes as those that went
    assert {array.ctypes.data for array in again} == places
    scratch.forget()


def test_dropped_results_are_given_back_soon() -> None:
    scratch.forget()
    kept = scratch.result((512, 1024), np.int32)
    del kept
    assert len(scratch._dropped) == 1
    deadline = time.monotonic() + 60
    while scratch._dropped:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with scratch._lock:
        pass  # the watch has ended
    late = scratch.result((512, 1024), np.int32)
    scratch.forget()
    del late
    assert len(scratch._dropped) <= 1


def test_small_results_are_plain_arrays() -> None:
    small = scratch.result((4, 3), np.int64)
    assert small.base is None
    assert small.shape == (4, 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child that shares this memory is made by fork")
def test_a_forked_child_starts_anew() -> None:
    """It has no watch, and the lock may have been held."""
    scratch.forget()
    scratch.borrow("block", (4, 3), np.int32)
    with scratch._lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, which is the point
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            scratch.borrow("block", (4, 3), np.int32)
            os._exit(0 if scratch._watch is not None and scratch._watch.is_alive() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
