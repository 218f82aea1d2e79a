"""What the commands print on standard output."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fastdp_dask.data import Declaration
from fastdp_dask.solvers.base import Forecast, Plan

_PLAIN_WIDTH = 100
_MOST_ROWS = 60


def console() -> Console:
    """Standard output: as wide as the terminal, or 100 columns where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=_PLAIN_WIDTH)


def table(*columns: str) -> Table:
    """An empty table; a column whose name starts with `>` is one of numbers."""
    made = Table(highlight=False)
    for name in columns:
        number = name.startswith(">")
        made.add_column(name.removeprefix(">"), justify="right" if number else "left", no_wrap=number)
    return made


def show(console: Console, title: str, made: Table, *notes: str) -> None:
    """Print a table under its title, notes below."""
    console.print(f"\n[bold]{title}[/bold]", soft_wrap=True, highlight=False)
    console.print(made)
    for note in notes:
        console.print(note, soft_wrap=True, highlight=False)


def show_coefficients(console: Console, model: Any, target: str) -> None:
    """Coefficients, in units of the target per unit of the feature: the first 60; all are in model.json."""
    made = table("feature", ">coefficient")
    names = list(getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)]))
    made.add_row("(intercept)", f"{model.intercept_:.6g}")
    for name, value in list(zip(names, model.coef_, strict=True))[:_MOST_ROWS]:
        made.add_row(escape(name), f"{value:.6g}")
    notes = [f"… {len(names) - _MOST_ROWS:,} more in model.json"] if len(names) > _MOST_ROWS else []
    if model.groups and model.fit_intercept:
        notes.append("Of a category only the differences between its rows mean something: see README.")
    show(console, f"Private coefficients: {escape(target)} per unit of each feature", made, *notes)


def show_budget(console: Console, plans: Sequence[tuple[str, Plan]]) -> None:
    """Where the budget of each named plan went."""
    made = table("method", "purpose", ">epsilon", ">delta")
    for name, plan in plans:
        for number, line in enumerate(plan.budget):
            made.add_row(
                "" if number else name, line.purpose, f"{line.epsilon:.3f}", f"{line.delta:.2e}",
                end_section=number == len(plan.budget) - 1,
            )  # fmt: skip
    note = "Neighbours: two data sets of n rows, of which one has one record blanked (replaced by zeros)."
    show(console, "Where the budget went", made, note)


def show_forecasts(console: Console, forecasts: Sequence[Forecast], half: float, target: str) -> None:
    """What each solver is predicted to cost and to achieve, the chosen one first; errors in units of the target."""
    sizes = (">read, MiB", ">moved, MiB", ">worker, MiB")
    made = table("solver", ">passes", ">seconds", *sizes, ">noise", ">error", ">from", ">to")
    for number, forecast in enumerate(forecasts):
        errors = [f"{half * math.sqrt(risk):.2g}" for risk in (forecast.risk, min(forecast.risks), max(forecast.risks))]
        sketch = f", k2 = {forecast.k2:,}" if forecast.k2 else ""
        made.add_row(
            forecast.solver + sketch + ("" if forecast.fits else " (too large)"), str(forecast.n_passes),
            f"{forecast.seconds:.2g}", f"{forecast.bytes_read / 2**20:,.0f}", f"{forecast.bytes_moved / 2**20:,.0f}",
            f"{forecast.worker_bytes / 2**20:,.0f}", f"{forecast.noise:.3g}", *errors, end_section=number == 0,
        )  # fmt: skip
    show(
        console, "Predicted for each solver", made,
        "worker: peak of one process, itself with it; noise: standard deviation on X'y or on each gradient;",
        f"error: root mean square beyond least squares in {escape(target)}, over three guessed spectra of X'X.",
    )  # fmt: skip


def show_bounds(console: Console, declaration: Declaration) -> None:
    """The declared public bounds: one row for each number, one for each category."""
    made = table("column", ">lower", ">upper")
    low, high = declaration.bounds_y
    made.add_row(f"{escape(declaration.target)} (target)", f"{low:g}", f"{high:g}")
    grouped = {j for group in declaration.groups for j in group}
    for j, (name, (lower, upper)) in enumerate(zip(declaration.feature_names, declaration.bounds_X, strict=True)):
        if j not in grouped:
            made.add_row(escape(name), f"{lower:g}", f"{upper:g}")
    for source, labels in declaration.categories:
        made.add_row(escape(source), "", f"one of {len(labels)}")
    show(console, "Declared public bounds (from public knowledge, never from the data)", made)
