"""Who computes: threads here, or the workers of the active client; and what that does to costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dask
import pytest
from distributed import Client

from fastdp_dask.blocked import capacity
from fastdp_dask.costs import layout
from fastdp_dask.costs.machine import DEFAULT
from fastdp_dask.costs.passes import Outline, cost
from fastdp_dask.errors import ArgumentError


def test_threads_of_this_process() -> None:
    with dask.config.set(num_workers=3):
        assert capacity.found() == capacity.Capacity(1, 3, None, moved=False)
    assert capacity.found().threads == capacity.cores()


@pytest.mark.cluster
def test_workers_of_the_active_client(two_workers: Any) -> None:
    with Client(two_workers):
        assert capacity.found() == capacity.Capacity(2, 2, None, moved=True)
        lies = layout.layout(1000, 4)
        assert (lies.workers, lies.threads, lies.moved) == (2, 2, True)
    assert capacity.found().workers == 1


def test_chunks_cover_the_rows() -> None:
    assert layout.layout(10, 2, chunks=4).chunks == (4, 4, 2)
    assert layout.layout(10, 2, chunks=100).chunks == (10,)
    assert layout.layout(10, 2, chunks=(7, 3)).chunks == (7, 3)
    assert layout.layout(1 << 18, 2).n_samples == 1 << 18


def test_a_given_number_of_workers_stands_for_itself() -> None:
    lies = layout.layout(100, 2, workers=4)
    assert (lies.workers, lies.threads, lies.moved) == (4, 4, True)
    assert layout.layout(100, 2, workers=4, threads=16).threads == 16


def test_what_moves_between_processes_costs_time() -> None:
    here = layout.layout(1 << 18, 32, chunks=1 << 14, workers=1, threads=4)
    there = replace(here, workers=4, moved=True)
    outline = Outline(32, 1, 1 << 12, 0)
    machine = replace(DEFAULT, schedule=0.0)
    moving = cost(outline, there, machine).seconds - cost(outline, here, machine).seconds
    # Sixteen partials of (2^12 + 2) x 32 numbers of 4 bytes, four at a time.
    assert moving == pytest.approx(16 / 4 * ((1 << 12) + 2) * 32 * 4 * DEFAULT.move, rel=1e-9)


def test_many_small_chunks_wait_for_the_scheduler() -> None:
    lies = layout.layout(1 << 16, 2, chunks=16, workers=64, threads=512)
    assert cost(Outline(2, 1, 0, 0), lies, DEFAULT).seconds > 4096 * DEFAULT.schedule


def test_more_chunks_than_can_be_scheduled_are_refused_at_once() -> None:
    with pytest.raises(ArgumentError, match=r"1,000,000,000,000,000 rows in chunks of 65,536\. Give longer chunks"):
        layout.layout(10**15, 8)
    assert layout.layout(10**15, 8, chunks=10**12).n_samples == 10**15
