"""The ledger's promise: what is charged is on disk, adds up exactly, and ends at the budget."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp_dask import privacy
from fastdp_dask.errors import ArgumentError, BudgetError, LedgerError
from fastdp_dask.ledger import Charge, Ledger, composed_epsilon
from fastdp_dask.ledger import store as ledger_store
from fastdp_dask.ledger.amounts import exact


def new(folder: Path, epsilon: Any = 1.0, delta: Any = 1e-6) -> Ledger:
    return Ledger.create(folder / "ledger.db", epsilon=epsilon, delta=delta)


def pay(ledger: Ledger, epsilon: Any = 0.1, delta: Any = 0.0, **options: Any) -> Charge:
    return ledger.charge(epsilon, delta, **{"mechanism": "test", **options})


def test_ten_tenths_fit_and_an_eleventh_does_not(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    assert (ledger.spent(), ledger.remaining(), ledger.budget()) == ((0, 0), (1.0, 1e-6), (1.0, 1e-6))
    for number in range(1, 11):
        assert pay(ledger).number == number
    assert ledger.spent() == (1.0, 0.0)
    assert ledger.remaining() == (0.0, 1e-6)
    for more in (0.1, 1e-12):
        with pytest.raises(BudgetError):
            pay(ledger, more)
    with pytest.raises(ArgumentError, match="at least 1e-12"):
        pay(ledger, 1e-17)
    assert len(ledger.charges()) == ledger.verify() == 10


def test_a_tenth_and_nine_tenths(tmp_path: Path) -> None:
    ledger = new(tmp_path, delta=3e-7)
    pay(ledger, 0.1, 1e-7)
    pay(ledger, 0.9, 2e-7)  # as floats 1e-7 + 2e-7 > 3e-7
    assert ledger.remaining() == (0.0, 0.0)


def test_a_refusal_names_what_remains_and_what_was_asked(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    pay(ledger, 0.7, 4e-7)
    for epsilon, delta in ((0.5, 0.0), (0.1, 7e-7)):
        left = r"at most epsilon=0.3 and delta=6e-7, which remain.*Do not retry"
        with pytest.raises(BudgetError, match=left) as caught:
            pay(ledger, epsilon, delta)
        assert f"got epsilon={epsilon} and delta={'0' if not delta else '7e-7'}" in str(caught.value)
        with pytest.raises(BudgetError):
            ledger.require(epsilon, delta)
    ledger.require(0.3, 6e-7)
    assert len(ledger.charges()) == 1


@settings(max_examples=15)
@given(st.lists(st.tuples(st.floats(1e-3, 0.7), st.floats(0, 1e-6)), max_size=6))
def test_what_remains_can_be_spent_to_the_last_digit(tmp_path_factory: Any, asked: list[tuple[float, float]]) -> None:
    ledger = new(tmp_path_factory.mktemp("ledger"), 1.0, 1e-6)
    for epsilon, delta in asked:
        before = ledger.state()
        try:
            pay(ledger, epsilon, abs(delta))
        except BudgetError:
            assert not before.remaining.covers(exact(epsilon, abs(delta)))
            assert ledger.state() == before
    left = ledger.state().remaining
    if left.epsilon >= Decimal("1e-12"):
        pay(ledger, *left)
        assert ledger.remaining() == (0.0, 0.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0, 0.0, -0.0, -1, None, "1", True])
def test_bad_amounts_charge_nothing(tmp_path: Path, bad: Any) -> None:
    ledger = new(tmp_path)
    with pytest.raises(ArgumentError, match="epsilon must"):
        pay(ledger, bad)
    with pytest.raises(ArgumentError, match="epsilon must"):
        Ledger.create(tmp_path / "other.db", epsilon=bad, delta=1e-6)
    if bad not in (0, None) or str(bad) == "-0.0":
        with pytest.raises(ArgumentError, match="delta must"):
            pay(ledger, 0.1, bad)
    assert ledger.charges() == []
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


# -- who pays ------------------------------------------------------------------------------------------------


def test_a_run_pays_once_for_the_same_and_never_for_another_thing(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    event = privacy.GaussianEvent(noise_multiplier=30.0)
    first = pay(ledger, 0.5, 1e-7, run_id="run 1", events=[event])
    assert pay(ledger, 0.5, 1e-7, run_id="run 1", events=(event,)) == first
    assert pay(ledger, Decimal("0.50"), 1e-7, run_id="run 1", events=[event]) == first
    for other in (
        {"epsilon": 0.4}, {"delta": 2e-7}, {"mechanism": "else"}, {"events": []},
        {"events": [privacy.GaussianEvent(noise_multiplier=31.0)]},
    ):  # fmt: skip
        with pytest.raises(BudgetError, match="run_id must belong to one charge, got 'run 1'"):
            pay(ledger, **{"epsilon": 0.5, "delta": 1e-7, "run_id": "run 1", "events": [event], **other})
    assert ledger.charges() == [first]
    assert ledger.has_paid("run 1")
    assert not ledger.has_paid("run 2")
    pay(ledger, 0.5, 1e-7)
    assert pay(ledger, 0.5, 1e-7, run_id="run 1", events=[event]) == first  # even when nothing is left


def test_without_a_run_id_each_charge_is_new(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    assert pay(ledger).run_id != pay(ledger).run_id
    assert len(ledger.charges()) == 2


@pytest.mark.parametrize("bad", ["", " ", "x" * 201, 3, "a\nb"])
@pytest.mark.parametrize("name", ["mechanism", "run_id"])
def test_names_are_short_and_printable(tmp_path: Path, name: str, bad: Any) -> None:
    with pytest.raises(ArgumentError, match=rf"^{name} must be a printable text"):
        pay(new(tmp_path), **{name: bad})


def test_events_come_back_and_must_be_covered(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    events = (privacy.MixingEvent(rows=64, gamma=400.0), privacy.FailureEvent(delta=1e-8))
    cost = privacy.certified_epsilon(events, 1e-7)
    with pytest.raises(ArgumentError, match="epsilon must cover the events, which cost"):
        pay(ledger, cost * (1 - 1e-8), 1e-7, events=events)
    assert pay(ledger, cost, 1e-7, events=events).events == events
    (stored,) = ledger.charges()
    assert stored.events == events
    assert privacy.certified_epsilon(stored.events, stored.delta) == stored.epsilon == cost
    assert ledger.verify() == 1


def test_a_charge_is_on_disk_before_charge_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    connect = sqlite3.connect

    def watched(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    ledger = new(tmp_path)
    monkeypatch.setattr(ledger_store.sqlite3, "connect", watched)
    charge = pay(ledger)
    assert statements[-1] == "COMMIT"
    assert "PRAGMA synchronous=EXTRA" in statements
    with sqlite3.connect(ledger.path) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert other.execute("SELECT hash FROM charges").fetchone() == (charge.hash,)
    other.close()


def test_a_lock_lost_before_the_commit_charges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = new(tmp_path)
    append = ledger_store.append

    def overtaken(*args: Any) -> Charge:
        charge = append(*args)
        (tmp_path / "ledger.db.lock").unlink()  # as another does that took this process for dead
        return charge

    monkeypatch.setattr(ledger_store, "append", overtaken)
    with pytest.raises(LedgerError, match="was taken over by another process"):
        pay(ledger)
    assert ledger.charges() == []


# -- the handle ----------------------------------------------------------------------------------------------


def test_copies_share_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create("ledger.db", epsilon=1, delta=0)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "link.db").symlink_to(tmp_path / "ledger.db")
    handles = [copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger)),
               Ledger.at(ledger), Ledger.at(tmp_path / "ledger.db"), Ledger(str(tmp_path / "link.db"))]  # fmt: skip
    for handle in handles:
        assert handle == ledger
        assert hash(handle) == hash(ledger)
        assert handle.ledger_id == ledger.ledger_id
        pay(handle)
    assert ledger.spent().epsilon == 0.6
    assert repr(ledger) == f"Ledger('{tmp_path / 'ledger.db'}')"
    assert ledger != Ledger.create(tmp_path / "b.db", epsilon=1, delta=0)


@pytest.mark.parametrize("bad", [3, 1.5, object(), b"ledger.db", ["a"]])
def test_what_is_no_ledger(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="ledger must be a path or a Ledger, got"):
        Ledger.at(bad)
    with pytest.raises(ArgumentError, match="path must be the path of a ledger, got"):
        Ledger(bad)


def test_a_ledger_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        ledger = new(tmp_path)
        pay(ledger)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerError, match=r"must be a new file.*which exists.*never replaced"):
        new(tmp_path, epsilon=100)
    assert ledger.path.read_bytes() == before
    with pytest.raises(LedgerError, match=r"cannot be used \(No such file"):
        Ledger.create(tmp_path / "no" / "ledger.db", epsilon=1, delta=0)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


# -- the sum of Rényi curves ---------------------------------------------------------------------------------


def test_composed_total(tmp_path: Path) -> None:
    ledger = new(tmp_path, epsilon=100, delta=1e-3)
    assert composed_epsilon(ledger.charges()) == 0
    event = privacy.GaussianEvent(noise_multiplier=20.0)
    cost = privacy.epsilon_of([event], 1e-6)
    for _ in range(16):
        pay(ledger, cost, 1e-6, events=[event])
    composed = composed_epsilon(ledger.charges())
    assert composed == privacy.epsilon_of([event] * 16, 1.6e-5)
    assert composed < 0.3 * ledger.spent().epsilon  # sixteen alike: about a quarter of the plain sum
    pay(ledger, 2.0, 1e-6)  # a mechanism that is not described counts in full, and its delta is its own
    assert composed_epsilon(ledger.charges()) == pytest.approx(composed + 2.0, rel=1e-12)


def test_composed_total_never_exceeds_the_plain_one(tmp_path: Path) -> None:
    ledger = new(tmp_path)
    laplace = [privacy.LaplaceEvent(scale_over_sensitivity=10.0)]
    pay(ledger, 0.1, 1e-300, events=laplace)
    assert composed_epsilon(ledger.charges()) == 0.1
