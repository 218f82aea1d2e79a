"""`Ledger`: the privacy budget of one data set, shared by everyone who releases something about it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fastdp_dask.durable import local_path
from fastdp_dask.errors import ArgumentError, BudgetError, LedgerError
from fastdp_dask.ledger.amounts import NOTHING, Amount, ExactAmount, exact, text
from fastdp_dask.ledger.layout import State
from fastdp_dask.ledger.records import Charge, check_name
from fastdp_dask.ledger.store import LedgerStore
from fastdp_dask.privacy import Event, certified_epsilon

_ROUNDED_UP = 1 + 2.0**-30  # the accounting errs upwards, by less than this


class Ledger:
    r"""The (epsilon, delta) budget of one data set, in a file that only grows.

    Σ_j ε_j ≤ ε  and  Σ_j δ_j ≤ δ  over all charges j, in exact decimal arithmetic.  Then everything that was paid
    from the ledger is (ε, δ)-differentially private together, even if each release was chosen after looking at the
    earlier ones.

    A charge is on disk before `charge` returns, so a release can only follow its payment.  A run is known by its
    `run_id` and pays once however often it is restarted.

    Parameters
    ----------
    path : path-like
        An existing ledger (`Ledger.create` makes one).  The object holds nothing but this path: copies, pickles and
        other processes share the same budget.

    Raises
    ------
    LedgerError
        If there is no ledger, or it is damaged: entries are chained by sha256 from the budget to a head record, so
        that a truncated, edited or empty file is never taken for an unspent budget.

    Notes
    -----
    Everything in a ledger is public.  Mode 0600.  Safe for many processes on network file systems, where a lock file
    does what fcntl cannot; not safe if a copy of the file is charged in its place: keep one ledger for one data set.
    The hashes detect accidents, not somebody who rewrites them.

    Source: basic composition with adaptively chosen budgets, Rogers, Roth, Ullman & Vadhan (2016), Theorem 3.6 there
    and the filter of plain sums; for the Rényi total see `fastdp_dask.ledger.composition`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = LedgerStore(_resolved(path))
        self._ledger_id = self._store.read().ledger_id

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, epsilon: float, delta: float) -> Ledger:
        """Start the ledger of a data set.

        Parameters
        ----------
        path : path-like
            A file that does not exist, in a folder that does.
        epsilon, delta : float
            The budget: epsilon > 0 and finite, 0 <= delta < 1.  Floats stand for their shortest decimals.

        Raises
        ------
        ArgumentError
            If a number is out of its range.
        LedgerError
            If the file exists or cannot be written.
        """
        LedgerStore(_resolved(path)).create(exact(epsilon, delta))
        return cls(path)

    @classmethod
    def at(cls, ledger: Any) -> Ledger:
        """The ledger itself, or the one at a path.

        Raises
        ------
        ArgumentError
            For anything else.
        LedgerError
            As in `Ledger`.
        """
        if isinstance(ledger, Ledger):
            return ledger
        if not isinstance(ledger, str | os.PathLike):
            raise ArgumentError(
                f"ledger must be a path or a Ledger, got {type(ledger).__name__}. Create one with Ledger.create."
            )
        return cls(ledger)

    @property
    def path(self) -> Path:
        """Where the ledger is, absolute."""
        return self._store.path

    @property
    def ledger_id(self) -> str:
        """Drawn when the ledger was created; stays when the file is moved."""
        return self._ledger_id

    def state(self) -> State:
        """Everything in the file, with exact amounts, checked now."""
        return self._store.read()

    def budget(self) -> Amount:
        """(epsilon, delta) of the data set."""
        return self.state().budget.rounded_down()

    def spent(self) -> Amount:
        """(epsilon, delta) of all charges: plain sums, rounded up to floats if they are none."""
        return self.state().spent.rounded_up()

    def remaining(self) -> Amount:
        """(epsilon, delta) that can still be charged, rounded down to floats if they are none."""
        return self.state().remaining.rounded_down()

    def charges(self) -> list[Charge]:
        """All charges in the order of payment."""
        return list(self.state().charges)

    def has_paid(self, run_id: str) -> bool:
        """Whether this run has been charged."""
        return self.state().of_run(run_id) is not None

    def verify(self) -> int:
        """Check every entry against its hash and every charge against the cost of its mechanisms.

        Returns
        -------
        int
            The number of charges.

        Raises
        ------
        LedgerError
            If the file is damaged, or mechanisms cost more than was charged for them.
        """
        state = self.state()
        for charge in state.charges:
            if charge.events and certified_epsilon(charge.events, charge.delta) > charge.epsilon * _ROUNDED_UP:
                raise LedgerError(
                    f"ledger {self.path}: charge {charge.number} must cover its mechanisms, got less than they cost. "
                    "It was accounted by another version; treat the budget as overspent until it is explained."
                )
        if not state.budget.covers(state.spent):
            raise LedgerError(
                f"ledger {self.path} must hold charges within its budget, got more. Stop releasing and find out why."
            )
        return len(state.charges)

    def require(self, epsilon: float, delta: float) -> None:
        """Charge nothing, but raise BudgetError if (epsilon, delta) would not fit now, LedgerError if nothing would."""
        with self._store.transaction() as transaction:  # a ledger that cannot be written is found out as well
            self._own(transaction.state)
            self._refuse_beyond(transaction.state, exact(epsilon, delta))

    def charge(
        self,
        epsilon: float,
        delta: float,
        *,
        mechanism: str,
        events: Iterable[Event] = (),
        run_id: str | None = None,
    ) -> Charge:
        """Pay (epsilon, delta); on return the payment is on disk and the release may be made.

        Parameters
        ----------
        epsilon, delta : float or Decimal
            epsilon >= 1e-12 and finite, 0 <= delta < 1.
        mechanism : str
            What is paid for, in words.
        events : iterable of Event, optional
            The same as data, so that epsilon can be recomputed and composed more tightly.
        run_id : str, optional
            The run that pays.  The same run with the same content pays once and gets its first charge back.
            None: a new run.

        Raises
        ------
        BudgetError
            If the budget does not cover it, or the run has paid for something else.  Nothing is charged.
        ArgumentError
            If an argument is out of its range, or the events cost more than (epsilon, delta).
        LedgerError
            If the ledger is missing, damaged, locked or cannot be written.
        """
        amount = exact(epsilon, delta)
        listed = _checked_events(events, amount)
        run_id = uuid.uuid4().hex if run_id is None else check_name("run_id", run_id)
        wanted = Charge(0, amount, check_name("mechanism", mechanism), listed, run_id, "")
        with self._store.transaction() as transaction:
            self._own(transaction.state)
            earlier = transaction.state.of_run(run_id)
            if earlier is None:
                self._refuse_beyond(transaction.state, amount)
                return transaction.append(wanted)
        if earlier.content != wanted.content:
            raise BudgetError(
                f"ledger {self.path} refuses the charge: run_id must belong to one charge, got {run_id!r}, which has "
                f"paid for another (number {earlier.number}). Use a new run_id for a new release."
            )
        return earlier

    def _own(self, state: State) -> None:
        """Refuse a file that is no longer the ledger that was opened: a fit opens it long before it pays."""
        if state.ledger_id != self._ledger_id:
            raise LedgerError(
                f"ledger {self.path} must stay the same file, got another ledger in its place: nothing was charged. "
                "Put the former one back and run again."
            )

    def _refuse_beyond(self, state: State, amount: ExactAmount) -> None:
        if state.remaining.covers(amount):
            return
        (epsilon, delta), left = amount.texts(), state.remaining
        left = ExactAmount(max(left.epsilon, NOTHING.epsilon), max(left.delta, NOTHING.delta))
        raise BudgetError(
            f"ledger {self.path} refuses the charge: expected at most epsilon={text(left.epsilon)} and "
            f"delta={text(left.delta)}, which remain, got epsilon={epsilon} and delta={delta}. "
            "Do not retry: ask for less, or stop releasing results from this data."
        )

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return self._store == other._store if isinstance(other, Ledger) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._store)


def _resolved(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ArgumentError(f"path must be the path of a ledger, got {type(path).__name__}. Name a file.")
    # The lock lies beside the real file, and a copy may live in another folder.
    return local_path("ledger", path).resolve()


def _checked_events(events: Iterable[Event], amount: ExactAmount) -> tuple[Event, ...]:
    listed: Sequence[Event] = tuple(events)
    if listed:
        cost = certified_epsilon(listed, float(amount.delta))
        if cost > float(amount.epsilon) * _ROUNDED_UP:
            raise ArgumentError(
                f"epsilon must cover the events, which cost {cost!r} at this delta, got "
                f"epsilon={text(amount.epsilon)}. Charge what they cost."
            )
    return tuple(listed)
