"""What a person may watch of a fit: its plan, and Dask's own report of tasks and transfers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fastdp_dask.errors import ArgumentError, StoreError

Verbose = Annotated[bool, typer.Option("--verbose", help="Show the plan, and what is decided on the way.")]
PerformanceReport = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write Dask's report of tasks and transfers, an HTML page; needs workers."),
]


@contextmanager
def told(verbose: bool) -> Iterator[None]:
    """With `verbose`, send the package's log (public facts: the plan, counted rows) to standard error."""
    logger = logging.getLogger("fastdp_dask")
    if not verbose:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("fastdp: %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def check_report(file: Path | None, workers: bool) -> None:
    """Refuse a report that could not be made, before anything is read.

    Raises
    ------
    ArgumentError
        Without workers, or if the file cannot be written there.
    StoreError
        If the package that draws it is missing.
    """
    if file is None:
        return
    if not workers:
        raise ArgumentError(
            f"--performance-report must be used with --scheduler or --workers, got {file} alone. Add --workers 2 for "
            "processes on this machine."
        )
    if not file.resolve().parent.is_dir():
        raise ArgumentError(f"--performance-report must lie in a folder that is there, got {file}. Make the folder.")
    if find_spec("bokeh") is None:
        raise StoreError("bokeh is needed for --performance-report, got none installed. Run: pip install bokeh")


@contextmanager
def reported(file: Path | None) -> Iterator[None]:
    """Write Dask's performance report of what runs meanwhile on the active client.

    It holds names, sizes and times of tasks, and the lines of code that started them.
    """
    if file is None:
        yield
        return
    from distributed import performance_report

    with performance_report(filename=str(file)):
        yield
