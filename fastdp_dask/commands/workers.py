"""Connecting to workers: a running scheduler, or two processes on this machine for the demo."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastdp_dask.commands import outcome
from fastdp_dask.errors import FastDPError


@contextmanager
def connected(address: str | None, timeout: float = 60.0) -> Iterator[None]:
    """Make the scheduler at `address` the one that computes; None: this process's threads.

    Raises
    ------
    FastDPError
        If no scheduler answers, or no worker has joined it, within `timeout` seconds each.
    """
    if address is None:
        yield
        return
    # Imported here: a fit on threads does without, and starts a second sooner.
    from distributed import Client

    try:
        client = Client(address, timeout=timeout)
    except (OSError, ValueError):
        client = None
    if client is None:
        raise FastDPError(
            f"--scheduler must be the address of a running Dask scheduler, got {address}: no answer within "
            f"{timeout:g} s. Start it, or correct the address."
        )
    with client:
        if not client.nthreads():
            outcome.say(f"waiting for workers of {address}, at most {timeout:g} s")
        try:
            client.wait_for_workers(1, timeout=timeout)
            workers = True
        except TimeoutError:
            workers = False
        if not workers:
            raise FastDPError(
                f"--scheduler {address} has no worker after {timeout:g} s: expected at least one. Start "
                "workers (dask worker ADDRESS), or look in the queue's logs for why they do not start."
            )
        yield


@contextmanager
def local_workers(n_workers: int, memory_limit: str) -> Iterator[Any]:
    """A client of `n_workers` worker processes on this machine, one thread each, without a dashboard."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=memory_limit,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": ":0"},  # its HTTP server: any free port instead of 8787
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def reset_peak_memory() -> None:
    """Let the peak of this process begin anew (Linux; elsewhere it keeps counting from its start)."""
    try:
        with open("/proc/self/clear_refs", "w") as switch:
            switch.write("5")
    except OSError:
        pass


def peak_memory() -> int:
    """Largest resident size of this process in bytes so far.

    Linux's VmHWM rather than `ru_maxrss`, which a process inherits from the one that started it.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource  # absent on Windows

    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # bytes on macOS
