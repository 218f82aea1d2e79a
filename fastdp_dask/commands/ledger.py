"""`fastdp ledger`: start, show and check the budget of a data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fastdp_dask.commands import outcome, tables
from fastdp_dask.ledger import Ledger, composed_epsilon

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger, one for each data set.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def init(
    file: _File,
    epsilon: Annotated[float, typer.Option(help="Budget of the data set, > 0.")],
    delta: Annotated[float, typer.Option(help="0 <= delta < 1, well below 1/n.")],
) -> None:
    """Start the ledger of a data set; an existing file is never replaced."""
    ledger = Ledger.create(file, epsilon=epsilon, delta=delta)
    total, failing = ledger.state().budget.texts()
    print(f"{ledger.path}: epsilon = {total}, delta = {failing} to spend.")


def show(
    file: _File,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show budget, charges and what remains."""
    ledger = Ledger(file)
    state = ledger.state()
    composed = composed_epsilon(state.charges)
    if as_json:
        document = {
            "path": str(ledger.path),
            "ledger_id": state.ledger_id,
            "created_at": state.created_at,
            "budget": state.budget.rounded_down()._asdict(),
            "spent": state.spent.rounded_up()._asdict(),
            "remaining": state.remaining.rounded_down()._asdict(),
            "composed": {"epsilon": composed, "delta": state.spent.rounded_up().delta},
            "charges": [charge.to_dict() for charge in state.charges],
        }
        print(json.dumps(document, indent=1))
        return
    console = tables.console()
    made = tables.table("", ">epsilon", ">delta")
    for name, amount in (("budget", state.budget), ("spent", state.spent), ("remaining", state.remaining)):
        made.add_row(name, *amount.texts())
    note = f"Composed as one Rényi sum the charges so far cost epsilon = {composed:.6g} at the same delta."
    tables.show(console, f"Ledger {escape(str(ledger.path))}", made, note)
    if state.charges:
        made = tables.table(">#", "charged at (UTC)", "mechanism", ">epsilon", ">delta", "run")
        for charge in state.charges:
            moment = charge.charged_at[:19].replace("T", " ")
            run = escape(charge.run_id[:12])
            made.add_row(str(charge.number), moment, escape(charge.mechanism), *charge.amount.texts(), run)
        tables.show(console, "Charges", made)


def verify(file: _File) -> None:
    """Check every entry's hash and recompute what its mechanisms cost."""
    ledger = Ledger(file)
    count = ledger.verify()
    epsilon, delta = ledger.state().remaining.texts()
    print(f"{ledger.path}: {count} charges, all as they were written. Remaining: epsilon = {epsilon}, delta = {delta}.")


for _command in (init, show, verify):
    app.command(_command.__name__)(outcome.reported(_command))
