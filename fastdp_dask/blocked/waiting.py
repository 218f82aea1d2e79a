"""Waiting for what a cluster computes, but not for a cluster that is gone."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import Any

import dask
import numpy as np

from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.errors import ClusterLostError

_LOOK_EVERY = 1.0  # seconds


def computed(lazy: Any) -> np.ndarray:
    """The value of a lazy array, on the active client's cluster if there is one.

    With the configuration `fastdp.worker-timeout` (seconds; unset: wait as long as Dask does) a cluster without any
    worker is given up after so long; a worker that comes back in time takes over.

    Raises
    ------
    ClusterLostError
        If there was no worker for so long, or the scheduler is gone.
    """
    client = _active_client()
    patience = dask.config.get("fastdp.worker-timeout", None)
    elsewhere = dask.config.get("scheduler", None) not in (None, "dask.distributed")  # what a client sets
    if client is None or client.asynchronous or patience is None or elsewhere:
        return np.asarray(lazy.compute())
    from distributed import wait  # a client is there, so it is loaded already

    address = client.scheduler.address
    future = client.compute(lazy)
    seen, lost = time.monotonic(), ""
    while not lost:
        try:
            try:
                wait(future, timeout=_LOOK_EVERY)
            except TimeoutError:  # of this wait; a task's own comes out of `result`
                if client.nthreads():
                    seen = time.monotonic()
                elif time.monotonic() - seen > patience and not future.done():
                    lost = f"the scheduler {address} has had no worker for {patience:g} s"
                continue
            return np.asarray(future.result())
        except CancelledError:  # so a client ends all waiting when its scheduler is gone
            lost = f"the connection to the scheduler {address} was lost"
    raise cluster_lost(lost)


def cluster_lost(what: str) -> ClusterLostError:
    """The error that says what was lost, and what to do."""
    return ClusterLostError(
        f"{what}: expected one to the end of the pass. What was released is kept: look in the logs of scheduler and "
        "workers, start them again, then run the same command again."
    )
