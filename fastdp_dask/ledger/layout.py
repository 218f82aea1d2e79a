"""What stands in a ledger file, and the check of all of it.

A damaged file is never read as "nothing spent": entries are chained by sha256 down to the budget itself, and a head
record states how many there are and how the last one ends.
"""

from __future__ import annotations

import sqlite3
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fastdp_dask.errors import ArgumentError, LedgerError
from fastdp_dask.ledger.amounts import ExactAmount, parse, total
from fastdp_dask.ledger.records import Charge, digest, events_text, parse_events

APPLICATION_ID = 0x66647031  # "fdp1"
LAYOUT = 1
_SCHEMA = """
CREATE TABLE budget (
    ledger_id TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, mechanism TEXT NOT NULL,
    events TEXT NOT NULL, run_id TEXT NOT NULL UNIQUE, charged_at TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE head (count INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER charges_stand BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER budget_stays BEFORE DELETE ON budget BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER budget_stands BEFORE UPDATE ON budget BEGIN SELECT RAISE(ABORT, 'append-only'); END;
"""


@dataclass(frozen=True)
class State:
    """A ledger whose every entry has been checked."""

    ledger_id: str
    budget: ExactAmount
    created_at: str
    charges: tuple[Charge, ...]
    last_hash: str

    @property
    def spent(self) -> ExactAmount:
        """Sum of all charges."""
        return total(charge.amount for charge in self.charges)

    @property
    def remaining(self) -> ExactAmount:
        """Budget less the sum of all charges."""
        return self.budget.minus(self.spent)

    def of_run(self, run_id: str) -> Charge | None:
        """The charge of a run."""
        return next((charge for charge in self.charges if charge.run_id == run_id), None)



def write_new(connection: sqlite3.Connection, budget: ExactAmount) -> None:
    """Lay out an empty ledger with this budget."""
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={LAYOUT}")
    identity = (uuid.uuid4().hex, *budget.texts(), _now())
    connection.execute("BEGIN")
    for statement in _SCHEMA.strip().split(";\n"):
        connection.execute(statement if statement.endswith("END") else statement.rstrip(";"))
    connection.execute("INSERT INTO budget VALUES (?, ?, ?, ?)", identity)
    connection.execute("INSERT INTO head VALUES (0, ?)", (digest(*identity),))
    connection.execute("COMMIT")


def read_state(connection: sqlite3.Connection, path: Path) -> State:
    """Everything in the file, with each hash recomputed.

    Raises
    ------
    LedgerError
        If anything is not as it was written.
    """
    budgets = connection.execute("SELECT ledger_id, epsilon, delta, created_at FROM budget").fetchall()
    heads = connection.execute("SELECT count, hash FROM head").fetchall()
    if len(budgets) != 1 or len(heads) != 1:
        raise damaged(path, f"it must have one budget and one head, got {len(budgets)} and {len(heads)}")
    previous = digest(*budgets[0])
    charges: list[Charge] = []
    rows = connection.execute(
        "SELECT number, epsilon, delta, mechanism, events, run_id, charged_at, hash FROM charges ORDER BY number"
    )
    try:
        budget = parse(*budgets[0][1:3])
        for expected, (number, epsilon, delta, mechanism, events, run_id, charged_at, stored) in enumerate(rows, 1):
            if stored != digest(previous, number, epsilon, delta, mechanism, events, run_id, charged_at):
                raise damaged(path, f"entry {expected} is missing or was changed")
            previous = stored
            charges.append(
                Charge(number, parse(epsilon, delta), mechanism, parse_events(events), run_id, charged_at, stored)
            )
    except ArgumentError:  # its hash fits, so it is what somebody wrote: an event that this version does not know
        raise LedgerError(
            f"ledger {path}: entry {len(charges) + 1} names a mechanism that this version does not know. "
            "Use the version that charged it, or a newer one."
        ) from None
    except (ValueError, TypeError):
        raise damaged(path, f"entry {len(charges) + 1} cannot be read") from None
    if heads[0] != (len(charges), previous):
        raise damaged(path, f"its head states other entries than the {len(charges)} that it holds")
    return State(budgets[0][0], budget, budgets[0][3], tuple(charges), previous)


def append(connection: sqlite3.Connection, state: State, charge: Charge) -> Charge:
    """Chain a charge to the last entry; the caller commits."""
    entry = replace(charge, number=len(state.charges) + 1, charged_at=_now())
    entry = replace(entry, hash=entry.hash_after(state.last_hash))
    epsilon, delta = entry.amount.texts()
    connection.execute(
        "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.number, epsilon, delta, entry.mechanism, events_text(entry.events), entry.run_id,
            entry.charged_at, entry.hash,
        ),
    )  # fmt: skip
    connection.execute("UPDATE head SET count = ?, hash = ?", (entry.number, entry.hash))
    return entry


def damaged(path: Path, reason: str) -> LedgerError:
    """The error for a file that cannot be trusted."""
    return LedgerError(
        f"ledger {path} is damaged: {reason}. Its charges cannot be counted, so nothing may be released. Restore it "
        "from a copy that holds every charge; do not start a new one over the same data."
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
