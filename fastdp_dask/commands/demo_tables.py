"""The demo's two tables of its own: how good each fit is, and its coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.markup import escape

from fastdp_dask.commands import tables
from fastdp_dask.commands.comparison import Held, Result
from fastdp_dask.data import Declaration

UNITS = {"dep_delay": "minute", "distance": "mile", "hour": "hour"}


def show_results(console: Console, results: Sequence[Result], held: Held) -> None:
    """The table of the demo: one row for each fit."""
    made = tables.table("method", ">ε", ">δ", ">RMSE", ">R²", ">passes", ">s", ">MiB")
    for result in results:
        plan = result.plan
        budget = ("none", "none") if plan is None else (f"{plan.epsilon:g}", f"{plan.delta:.1e}")
        made.add_row(
            result.label, *budget, f"{result.rmse:.2f}", f"{result.r2:.3f}", str(result.passes),
            f"{result.seconds:.1f}", f"{result.peak / 2**20:.0f}",
        )  # fmt: skip
    tables.show(
        console,
        "Delay on arrival, predicted for held-out flights",
        made,
        f"Predicting the mean delay for all of them: RMSE {held.rmse(held.y.mean()):.2f} min, R² 0.",
        "RMSE in minutes; s: seconds of the fit; MiB: peak memory of the larger worker process.",
        "FastIHM works on a Hadamard sketch of the rows, IHM by Gram on XᵀX.",
        "RMSE and R² look at held-out records exactly and are not private; the models are.",
    )


def show_coefficients(console: Console, results: Sequence[Result], declaration: Declaration) -> None:
    """Coefficients of numbers in full; of a category the distance between its largest and its smallest."""
    made = tables.table("coefficient", *(f">{result.short}" for result in results))
    for name, j in numeric_columns(declaration):
        unit = f" (per {UNITS[name]})" if name in UNITS else ""
        made.add_row(escape(name) + unit, *(f"{result.coef[j]:.5f}" for result in results))
    for (source, labels), group in zip(declaration.categories, declaration.groups, strict=True):
        spreads = (float(np.ptp(result.coef[list(group)])) for result in results)
        made.add_row(escape(f"{source} (spread of {len(labels)})"), *(f"{spread:.3f}" for spread in spreads))
    tables.show(console, "Coefficients, in minutes of arrival delay per unit", made)


def numeric_columns(declaration: Declaration) -> list[tuple[str, int]]:
    """Name and index of each feature that is in no group."""
    grouped = {j for group in declaration.groups for j in group}
    return [(name, j) for j, name in enumerate(declaration.feature_names) if j not in grouped]
