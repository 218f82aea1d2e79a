"""A fit pays before it draws, once for each run, and for every fit of a search."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import sqlite3
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import bits, chunked, fit, model, small_data, untouchable
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from fastdp_dask import run_protocol
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import ArgumentError, BudgetError, LedgerError, StoreError
from fastdp_dask.ledger import Ledger
from fastdp_dask.privacy.exact import certified_epsilon
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseStream
from fastdp_dask.run_protocol import events_of

X, Y = small_data(400, 3)
TIGHT = {"solver": "ihm", "preset": "tight", "n_iter": 2}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger.db", epsilon=3, delta=1e-5)


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("folder", [True, False])
def test_paid_between_the_first_pass_and_the_first_draw(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, preset: str, folder: bool
) -> None:
    """All data could be read by then; later draws find the charge made."""
    seen: list[tuple[str, int]] = []

    def watch(owner: type, name: str, kind: str) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **more: Any) -> Any:
            before = len(ledger.charges())
            result = original(*args, **more)
            seen.append((kind, before))
            return result

        monkeypatch.setattr(owner, name, watched)

    for name in ("gram", "sketch"):
        watch(BlockedRows, name, "first pass")
    watch(BlockedRows, "gradient", "later pass")
    watch(NoiseStream, "__init__", "draw")
    options = TIGHT if preset == "tight" else {}
    with monkeypatch.context() as patch:
        patch.setattr(run_protocol, "_noise_facts", lambda *_: {"noise_mark": 1})  # a draw that is no release
        found = fit(model(ledger=ledger, run_dir=tmp_path / "run" if folder else None, **options), X, Y)
    assert seen[:2] == [("first pass", 0), ("draw", 1)]
    assert all(paid == 1 for _, paid in seen[1:])
    assert ("later pass", 1) in seen
    monkeypatch.undo()
    (charge,) = ledger.charges()
    assert (charge.epsilon, charge.delta) == (1.0, 1e-6)
    assert charge.mechanism == f"{found.plan_.solver}, {preset}"
    assert charge.events == events_of(found.plan_) != ()
    assert certified_epsilon(charge.events, charge.delta) <= 1.0
    assert ledger.verify() == 1
    assert bits(found) == bits(fit(model(**options), X, Y))  # paying changes nothing else


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_the_papers_events_cost_no_more_than_its_thirds(epsilon: float) -> None:
    plan = fit(model(epsilon=epsilon), X, Y).plan_
    assert certified_epsilon(events_of(plan), plan.delta) <= epsilon


def test_a_refusal_comes_before_anything_is_read_or_counted(tmp_path: Path, ledger: Ledger) -> None:
    features, target = untouchable((400, 3)), untouchable((400,))
    uncounted = features[target > 0], target[target > 0]  # their lengths would have to be read
    for data in ((features, target), uncounted):
        for run_dir in (None, tmp_path / "run"):
            with pytest.raises(BudgetError, match=r"expected at most epsilon=3 and delta=0\.00001"):
                fit(model(epsilon=3.5, ledger=ledger, run_dir=run_dir), *data)
    assert ledger.charges() == []
    assert not (tmp_path / "run").exists()


def test_a_ledger_that_is_exchanged_during_the_first_pass_is_not_charged(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = BlockedRows.gram

    def exchanged(rows: BlockedRows, clip: float) -> Any:
        ledger.path.rename(tmp_path / "kept.db")
        Ledger.create(ledger.path, epsilon=3, delta=1e-5)
        return gram(rows, clip)

    with monkeypatch.context() as patch:
        patch.setattr(BlockedRows, "gram", exchanged)
        with pytest.raises(LedgerError, match="another ledger in its place: nothing was charged") as caught:
            fit(model(ledger=ledger, run_dir=tmp_path / "run", **TIGHT), X, Y)
    assert Ledger(ledger.path).charges() == []
    assert (tmp_path / "run" / "releases.jsonl").read_bytes() == b""
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__) if frame.f_code.co_name == "solve"]
    assert frames
    assert all(not frame.f_locals for frame in frames)  # who keeps the error keeps no sums without noise
    ledger.path.unlink()
    (tmp_path / "kept.db").rename(ledger.path)
    fit(model(ledger=ledger, run_dir=tmp_path / "run", **TIGHT), X, Y)
    assert len(ledger.charges()) == 1


def test_a_ledger_that_cannot_be_written_is_found_before_anything_is_read(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def read_only(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(sqlite3, "connect", read_only)
    with pytest.raises(LedgerError):
        fit(model(ledger=ledger, run_dir=tmp_path / "run", **TIGHT), untouchable((400, 3)), untouchable((400,)))
    assert not (tmp_path / "run").exists()


def test_nobody_pays_for_a_folder_that_is_lost(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = BlockedRows.gram

    def lost(rows: BlockedRows, clip: float) -> Any:
        shutil.rmtree(tmp_path / "run")
        return gram(rows, clip)

    monkeypatch.setattr(BlockedRows, "gram", lost)
    with pytest.raises(StoreError, match="taken over"):
        fit(model(ledger=ledger, run_dir=tmp_path / "run", **TIGHT), X, Y)
    assert ledger.charges() == []


def test_a_refused_folder_can_be_used_for_less(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused by the charge itself: another run was faster between the first look and the charge."""
    monkeypatch.setattr(Ledger, "require", lambda *_: None)
    with pytest.raises(BudgetError):
        fit(model(epsilon=3.5, ledger=ledger, run_dir=tmp_path / "run"), X, Y)
    assert list((tmp_path / "run").iterdir()) == []
    fit(model(epsilon=1.0, ledger=ledger, run_dir=tmp_path / "run", **TIGHT), X, Y)
    assert ledger.spent().epsilon == 1.0


@pytest.mark.parametrize(
    "options",
    [{"bounds_X": None}, {"k1": 3}, {"n_iter": 0}, {"public_seed": -1}, {"random_state": "x"}, {"epsilon": 0},
     {"X": untouchable((300, 3))}, {"X": untouchable((400, 3), dtype=complex)}, {"y": untouchable((400, 2))}],
    ids=str,
)  # fmt: skip
def test_what_is_wrong_is_said_before_the_charge(tmp_path: Path, ledger: Ledger, options: dict[str, Any]) -> None:
    options = dict(options)
    features, target = options.pop("X", untouchable((400, 3))), options.pop("y", untouchable((400,)))
    with pytest.raises((ArgumentError, TypeError)):
        fit(model(ledger=ledger, run_dir=tmp_path / "run", **options), features, target)
    assert ledger.charges() == []


def test_no_ledger_no_fit(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        fit(model(ledger=tmp_path / "none.db"), untouchable((400, 3)), untouchable((400,)))
    with pytest.raises(ArgumentError, match="ledger must be a path or a Ledger"):
        fit(model(ledger=3), untouchable((400, 3)), untouchable((400,)))


def test_a_run_folder_pays_once_and_a_fit_without_one_each_time(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = model(ledger=ledger.path, run_dir=tmp_path / "run", **TIGHT)
    first = fit(paid, X, Y)
    with monkeypatch.context() as patch:
        patch.delattr(Ledger, "charge")  # a finished run does not even ask
        again = fit(clone(paid), untouchable((400, 3)), untouchable((400,)))
    assert bits(again) == bits(first)
    assert again.n_passes_ == 0
    (charge,) = ledger.charges()
    assert charge.run_id == json.loads((tmp_path / "run" / "plan.json").read_text())["run_id"]
    for count in (2, 3):
        fit(model(ledger=str(ledger.path), **TIGHT), X, Y)
        assert len(ledger.charges()) == count
    with pytest.raises(BudgetError):
        fit(model(ledger=ledger, **TIGHT), untouchable((400, 3)), untouchable((400,)))
    ledger.path.unlink()  # what is finished needs no ledger but the one that was named
    with pytest.raises(LedgerError):
        fit(clone(paid), untouchable((400, 3)), untouchable((400,)))


def test_an_interrupted_run_continues_when_nothing_is_left_for_another(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"ledger": ledger, "run_dir": tmp_path / "run", "epsilon": 3.0, **TIGHT}
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseLog, "_append", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(model(**options), X, Y)
    assert ledger.remaining().epsilon == 0
    found = fit(model(**options), X, Y)
    assert len(ledger.charges()) == 1
    assert bits(found) == bits(fit(model(epsilon=3.0, **TIGHT), X, Y))


def test_another_ledger_or_none_is_another_run(tmp_path: Path, ledger: Ledger) -> None:
    fit(model(ledger=ledger, run_dir=tmp_path / "run", **TIGHT), X, Y)
    other = Ledger.create(tmp_path / "other.db", epsilon=3, delta=1e-5)
    for changed in (other, None):
        with pytest.raises(ArgumentError, match=r"hold the same plan.*with another ledger"):
            fit(model(ledger=changed, run_dir=tmp_path / "run", **TIGHT), untouchable((400, 3)), untouchable((400,)))
    moved = ledger.path.rename(tmp_path / "moved.db")
    fit(model(ledger=moved, run_dir=tmp_path / "run", **TIGHT), untouchable((400, 3)), untouchable((400,)))
    assert other.charges() == []


def test_copies_of_an_estimator_share_the_ledger(ledger: Ledger) -> None:
    first = model(ledger=ledger, **TIGHT)
    for estimator in (clone(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert estimator.ledger == ledger
        fit(estimator, X, Y)
    assert ledger.spent().epsilon == 3.0


@pytest.mark.filterwarnings("ignore::fastdp_dask.PrivacyLeakWarning")
@pytest.mark.parametrize("handle", ["path", "object"])
def test_a_search_pays_for_every_fit(tmp_path: Path, handle: str) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=7, delta=1e-5)
    search = GridSearchCV(
        model(ledger=ledger if handle == "object" else str(ledger.path), **TIGHT),
        {"n_iter": [1, 2, 3]}, cv=2, error_score="raise",
    )  # fmt: skip
    search.fit(X, Y)
    assert len(ledger.charges()) == 7  # three candidates on two folds, and the refit
    assert ledger.remaining().epsilon == 0
    with pytest.raises(BudgetError):
        search.fit(X, Y)
    assert len(ledger.charges()) == 7


def test_the_data_decides_nothing_about_the_charge(ledger: Ledger) -> None:
    blanked = np.array(X)
    blanked[5] = np.nan
    for features in (X, blanked):
        fit(model(ledger=ledger, **TIGHT), *chunked(features, Y, 100))
    first, second = ledger.charges()
    assert first.content == second.content
