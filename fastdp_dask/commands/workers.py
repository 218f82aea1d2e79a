"""Connecting to workers: a running scheduler, or processes on this machine."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastdp_dask.blocked.memory import allocator
from fastdp_dask.blocked.waiting import scheduler_lost, watched
from fastdp_dask.commands import encryption, outcome
from fastdp_dask.errors import ArgumentError, FastDPError

WAIT_SECONDS = 60.0


@contextmanager
def connected(
    scheduler: str | None,
    *,
    wait: float = WAIT_SECONDS,
    ca_file: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    insecure: bool = False,
) -> Iterator[None]:
    """Make the scheduler at an address, or the one that a scheduler file names, the one that computes.

    Parameters
    ----------
    scheduler : str, optional
        None: this process's threads.
    wait : float
        Seconds, for each of: the file to appear, the scheduler to answer, the first worker to join, and in a pass for
        workers to come back after the last one is gone; and at any time for an answer of the scheduler.
    ca_file, cert, key, insecure
        As in `encryption.security`.

    Raises
    ------
    ArgumentError
        If the address is none, or no secure connection to it is described.
    FastDPError
        If one of those waits is over.
    """
    if scheduler is None:
        yield
        return
    address = encryption.checked_address(_of_file(Path(scheduler), wait) if scheduler.endswith(".json") else scheduler)
    security = encryption.security(address, ca_file=ca_file, cert=cert, key=key, insecure=insecure)
    # Imported here: a fit on threads does without, and starts a second sooner.
    import dask
    from distributed import Client

    with _quiet():
        try:
            client = Client(address, timeout=wait, security=security)
        except (OSError, ValueError):
            client = None
    if client is None:
        fits = "" if security is None else ", and check that both certificates are of one authority and not expired"
        raise FastDPError(
            f"--scheduler must be the address of a running Dask scheduler, got {address}: no answer within "
            f"{wait:g} s. Start it, or correct the address{fits}."
        )
    with _quiet(), client, dask.config.set({"fastdp.worker-timeout": wait}):
        if not client.nthreads():
            outcome.say(f"waiting for workers of {address}, at most {wait:g} s")
        try:
            client.wait_for_workers(1, timeout=wait)
            workers = True
        except TimeoutError:
            workers = False
        if not workers:
            raise FastDPError(
                f"--scheduler {address} has no worker after {wait:g} s: expected at least one. Start workers (dask "
                "worker ADDRESS), look in the queue's logs for why they do not start, or raise --worker-timeout."
            )
        with _scheduler_kept(client, address), watched(client, wait):
            yield


@contextmanager
def _scheduler_kept(client: Any, address: str) -> Iterator[None]:
    """Whatever a lost scheduler breaks, between two passes too, is one error: the fit can go on from there."""
    try:
        yield
        return
    except Exception as error:  # a closed client fails in many ways
        if isinstance(error, FastDPError) or client.status == "running":
            raise
    raise scheduler_lost(address)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the tracebacks of a lost connection: what a person must know is said by the errors here."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _of_file(path: Path, wait: float) -> str:
    """The address in a scheduler file, which may have to be written yet."""
    give_up = time.monotonic() + wait
    while True:
        try:
            address = json.loads(path.read_text())["address"]
        except (OSError, ValueError, KeyError, TypeError):  # not there, half written, or something else
            address = None
        if isinstance(address, str):
            return address
        if time.monotonic() >= give_up:
            raise ArgumentError(
                f"--scheduler must be a file with the address of a scheduler, got {path}, which has none after "
                f"{wait:g} s. Look in the scheduler's log for why it does not start."
            )
        time.sleep(0.1)


@contextmanager
def local_workers(n_workers: int, memory_limit: str = "auto", *, wait: float = WAIT_SECONDS) -> Iterator[Any]:
    """A client of `n_workers` worker processes on this machine, one thread each, over TLS and on loopback alone.

    Raises
    ------
    FastDPError
        If worker processes end while they start.
    """
    security = encryption.temporary()
    import dask
    from distributed import Client, LocalCluster
    from distributed.system import MEMORY_LIMIT

    limit = MEMORY_LIMIT / n_workers if memory_limit == "auto" else dask.utils.parse_bytes(memory_limit)
    kept = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in allocator(limit).items()}
    try:
        with dask.config.set(kept), _environment_kept():
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=memory_limit,
                host="127.0.0.1",
                protocol="tls://",
                security=security,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # its HTTP server, on a free port
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError:  # Dask has closed what did start
        cluster = None
    if cluster is None:
        raise FastDPError(
            f"worker processes ended while starting (memory?): expected {n_workers} to stay. Start fewer with "
            "--workers, free memory or raise its limit (ulimit -v, a container's), or leave --workers out to compute "
            "on threads; nothing was spent."
        )
    with cluster, Client(cluster) as client, dask.config.set({"fastdp.worker-timeout": wait}):
        yield client


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Dask leaves what it sets for workers in this process too, where it would reach workers of another size."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            if name.startswith("MALLOC_"):
                del os.environ[name]


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
