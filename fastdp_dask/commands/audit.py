"""`fastdp audit`: does the code, as it runs here, keep the privacy it claims?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import dask
import typer

from fastdp_dask.audit import MECHANISMS, AuditResult, audit
from fastdp_dask.commands import outcome, tables

_NAMES = ", ".join(MECHANISMS)


def run_audit(
    mechanism: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"What to audit, may be repeated: {_NAMES}. Default: all.")
    ] = None,
    runs: Annotated[
        int, typer.Option(help="Runs on each data set; fastmix makes a tenth, a fit a twentieth of them.")
    ] = 100_000,
    epsilon: Annotated[float, typer.Option(help="Claim to calibrate to, > 0.")] = 2.0,
    delta: Annotated[float, typer.Option(help="0 < delta < 1.")] = 1e-5,
    seed: Annotated[int | None, typer.Option(help="Makes the noise of the audit reproducible.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results there too.")
    ] = None,
) -> None:
    """Attack this installation: run it on worst-case neighbours and bound its epsilon from below.

    No data is needed. A bound above the claim means that the code or its numbers are wrong: the exit code is
    then 1. A bound below the claim is no proof of privacy.
    """
    results = []
    made = tables.table("mechanism", ">claim", ">lower bound", ">tail alone", ">runs", "verdict")
    with dask.config.set(scheduler="synchronous"):
        for result in audit(mechanism, runs=runs, epsilon=epsilon, delta=delta, seed=seed):
            results.append(result)
            made.add_row(
                result.mechanism, f"{result.claim:.3f}", f"{result.lower_bound:.3f}", f"{result.direct:.3f}",
                f"{result.runs:,}", _verdict(result),
            )  # fmt: skip
            outcome.say(f"{result.mechanism}: lower bound {result.lower_bound:.3f}, claim {result.claim:.3f}")
    failing = 1.0 - results[0].confidence
    tables.show(
        tables.console(), f"Empirical lower bounds on epsilon at delta = {delta:g}", made,
        f"Confidence 1 - {failing:.0e} for each mechanism. Neighbours have one record blanked, in both orders.",
        "Lower bound: the least epsilon that the same accountant could claim, or the tail alone: log((p - delta)/q).",
    )  # fmt: skip
    if json_file is not None:
        json_file.write_text(json.dumps([result.to_dict() for result in results], indent=2) + "\n")
    if not all(result.holds for result in results):
        raise typer.Exit(outcome.ERROR)


def _verdict(result: AuditResult) -> str:
    if not result.holds:
        return "EXCEEDS ITS CLAIM"
    return "within its claim" if result.lower_bound > 0 else "nothing found: more runs would tell more"
