"""`fastdp jobs`: where a job stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fastdp_dask.commands import tables


def jobs(
    run_dir: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run folder of the job.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show where a job stands: queued, running, checkpointed, done or failed; its releases, pass and charge.

    Taken from the run folder and, where it can be asked, from the queue. Changes nothing.
    """
    from fastdp_dask.jobs.status import status

    found = status(run_dir)
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
        return
    made = tables.table("", "")
    rows = {
        "state": f"{found.state} ({found.because})",
        "releases made": str(found.releases),
        "rounds planned": "" if found.rounds is None else str(found.rounds),
        "last pass begun": found.last_pass or "",
        "charged": "" if found.charge is None else f"epsilon = {found.charge[0]:g}, delta = {found.charge[1]:.3g}",
        "driver started": f"{found.runs} time{'s' * (found.runs != 1)}",
        "submitted to": "" if found.queue is None else f"{found.queue} as {found.identifier}",
        "logs": found.log or "",
    }
    for name, text in rows.items():
        if text:
            made.add_row(name, escape(text))
    tables.show(tables.console(), f"Job of {escape(str(run_dir))}", made)
