"""One charge, as it is handed out and as it is chained: each entry's hash covers the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fastdp_dask.errors import ArgumentError
from fastdp_dask.ledger.amounts import ExactAmount
from fastdp_dask.privacy import Event, event_from_dict

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Charge:
    """One entry of a ledger; every field is public.

    Attributes
    ----------
    number : int
        1, 2, 3, … in the order of payment.
    amount : ExactAmount
        (epsilon, delta) as exact decimals.
    mechanism : str
        What was paid for, in words.
    events : tuple of Event
        The mechanisms with their parameters: epsilon can be recomputed from them.  May be empty.
    run_id : str
        Who paid; one run pays once.
    charged_at : str
        UTC, ISO 8601.
    hash : str
        sha256 over the previous entry's hash and all fields.
    """

    number: int
    amount: ExactAmount
    mechanism: str
    events: tuple[Event, ...]
    run_id: str
    charged_at: str
    hash: str = ""

    @property
    def epsilon(self) -> float:
        """The nearest float."""
        return float(self.amount.epsilon)

    @property
    def delta(self) -> float:
        """The nearest float."""
        return float(self.amount.delta)

    @property
    def content(self) -> tuple[str, str, str, str]:
        """What must be equal for two charges of one run to be the same charge."""
        return (*self.amount.texts(), self.mechanism, events_text(self.events))

    def hash_after(self, previous: str) -> str:
        """sha256 that chains this entry to the one before it."""
        return digest(previous, self.number, *self.content, self.run_id, self.charged_at)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        epsilon, delta = self.amount.rounded_up()
        return {
            "number": self.number,
            "epsilon": epsilon,
            "delta": delta,
            "mechanism": self.mechanism,
            "events": [event.to_dict() for event in self.events],
            "run_id": self.run_id,
            "charged_at": self.charged_at,
        }


def digest(*parts: object) -> str:
    """sha256 of an unambiguous encoding of the parts."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()


def events_text(events: Iterable[Event]) -> str:
    """Canonical JSON of a list of events."""
    return "[" + ",".join(event.to_json() for event in events) + "]"


@lru_cache(maxsize=1024)  # as for amounts; events cannot be changed, so that they may be shared
def parse_events(text: str) -> tuple[Event, ...]:
    """The events that `events_text` wrote; ValueError for anything else."""
    records = json.loads(text)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ValueError
    return tuple(event_from_dict(record) for record in records)


def check_name(name: str, value: Any) -> str:
    """Return a short non-empty text."""
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME or not value.isprintable():
        got = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise ArgumentError(
            f"{name} must be a printable text of 1 to {_LONGEST_NAME} characters, got {got}. Shorten or spell it out."
        )
    return value
