"""`fastdp report`: a finished run folder becomes a page for people and a file for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fastdp_dask.report.write import write


def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Run folder of a finished fit.")],
    figures: Annotated[
        bool, typer.Option("--figures", help="Also coefficients, budget and noise as .png and .svg (matplotlib).")
    ] = False,
) -> None:
    """Write report.html and report.json into the run folder, from what is in it.

    Both hold nothing but what is public or was released, so they may be published; the folder may not.
    """
    written = [*write(run)]
    if figures:
        from fastdp_dask.report.figures import write_figures  # matplotlib, only for whoever asks for it

        written += write_figures(run)
    for path in written:
        print(path)
