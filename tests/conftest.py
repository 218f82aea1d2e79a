"""Hypothesis profiles, and a cluster of worker processes shared by the tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dask
import pytest
from distributed import LocalCluster
from hypothesis import settings

# No deadline: the first call of a kernel compiles it.
settings.register_profile("dev", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, database=None, print_blob=True)
# Constants measured on this machine would change what solver="auto" picks.
os.environ["FASTDP_CACHE_DIR"] = os.devnull
# What idle schedulers and workers spend their time with: looking at their own stacks, and at the clock.
dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"})
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Any]:
    """Two worker processes under nannies.  No client is active: tests open one with `Client(two_workers)`."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
    ) as cluster:
        yield cluster
