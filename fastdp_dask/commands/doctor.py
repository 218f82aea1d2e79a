"""`fastdp doctor`: does this installation, this machine, this folder and this cluster do what a fit needs?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from fastdp_dask.commands import checkup, encryption, outcome
from fastdp_dask.commands.workers import WAIT_SECONDS, connected
from fastdp_dask.errors import FastDPError

_WIDTH = {checkup.OK: "ok  ", checkup.WARN: "warn", checkup.FAIL: "fail"}


def doctor(
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where stores, run folders and ledgers will lie.")
    ] = Path(),
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A running Dask scheduler whose workers are to be compared.")
    ] = None,
    tls_ca_file: encryption.CaFile = None,
    tls_cert: encryption.CertFile = None,
    tls_key: encryption.KeyFile = None,
    insecure: encryption.Insecure = False,
    worker_timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Longest wait.")] = WAIT_SECONDS,
) -> None:
    """Check the installation, one line each: ok, warn or fail, and the next step.

    Exit code 1 if a line says fail, else 0. Nothing of yours is read; a small file is written to --folder and removed.
    """
    checks: list[Callable[[], Iterator[checkup.Finding]]] = [
        checkup.packages, checkup.optional_packages, checkup.processors, checkup.memory, checkup.randomness,
        checkup.kernels, lambda: checkup.disk(folder), lambda: checkup.locks(folder),
    ]  # fmt: skip
    failed = 0
    for check in checks:
        failed += _show(check)
    if scheduler is not None:
        reach = connected(
            scheduler, wait=worker_timeout, ca_file=tls_ca_file, cert=tls_cert, key=tls_key, insecure=insecure
        )
        try:
            with reach:
                failed += _show(checkup.workers)
        except FastDPError as error:
            unreached = checkup.Finding(checkup.FAIL, str(error))
            failed += _show(lambda: iter([unreached]))
    if failed:
        raise typer.Exit(outcome.ERROR)


def _show(check: Callable[[], Iterator[checkup.Finding]]) -> int:
    """Print what a check finds; return how many of its lines say fail."""
    failed = 0
    findings: list[checkup.Finding] = []
    try:
        findings += check()
    except Exception as error:
        findings.append(checkup.Finding(checkup.FAIL, f"unexpected {type(error).__name__} in a check: {error}"))
    for finding in findings:
        failed += finding.state == checkup.FAIL
        print(" ".join(f"{_WIDTH[finding.state]}  {finding.what} {finding.next_step}".split("\n")).rstrip())
    return failed
