"""Waiting for what a cluster computes, but not for a cluster that is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

import dask
import numpy as np

from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.errors import ClusterLostError

_LOOK_EVERY = 1.0  # seconds


def computed(lazy: Any) -> np.ndarray:
    """The value of a lazy array, on the active client's cluster if there is one.

    With the configuration `fastdp.worker-timeout` (seconds; unset: wait as long as Dask does) a cluster without any
    worker is given up after so long, as is a scheduler that does not answer for so long, whose client is then closed;
    a worker that comes back in time takes over.

    Raises
    ------
    ClusterLostError
        If there was no worker for so long, or the scheduler is gone or silent.
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
                workers = _n_workers(client, patience)
                if workers is None:
                    raise scheduler_lost(address) from None
                if workers:
                    seen = time.monotonic()
                elif time.monotonic() - seen > patience and not future.done():
                    lost = f"the scheduler {address} has had no worker for {patience:g} s"
                continue
            return np.asarray(future.result())
        except CancelledError:  # so a client ends all waiting when its scheduler is gone
            raise scheduler_lost(address) from None
    raise cluster_lost(lost)


@contextmanager
def watched(client: Any, patience: float) -> Iterator[None]:
    """Close `client` when its scheduler has not answered for `patience` seconds, whatever waits for it meanwhile.

    A frozen scheduler keeps its connections open, so that nothing else ends a wait for its answer: with the client
    closed every such wait ends as if the connection was lost.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_EVERY) and _n_workers(client, patience) is not None:
            pass

    thread = threading.Thread(target=watch, name="fastdp-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_LOOK_EVERY)  # an answer that does not come is not waited for: closing the client ends that too


def _n_workers(client: Any, patience: float) -> int | None:
    """How many workers the scheduler knows; None if it does not answer in time, and then the client is closed."""
    try:
        return len(client.sync(client.scheduler.ncores, workers=None, callback_timeout=patience))
    except Exception:  # no answer in time, or a client that was closed meanwhile
        with suppress(Exception):
            client.close(timeout=_LOOK_EVERY)
        return None


def scheduler_lost(address: str) -> ClusterLostError:
    """The error for a scheduler that is gone or frozen."""
    return cluster_lost(f"the connection to the scheduler {address} was lost, as it is gone or frozen")


def cluster_lost(what: str) -> ClusterLostError:
    """The error that says what was lost, and what to do."""
    return ClusterLostError(
        f"{what}: expected one to the end of the pass. What was released is kept: look in the logs of scheduler and "
        "workers, start them again, then run the same command again."
    )
