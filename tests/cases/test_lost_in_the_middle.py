"""What a fit needs is lost while it runs: its scheduler, or a chunk of its data.  Paid once, drawn once, continued."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands.command_cases import ENVIRONMENT, SEEDS, command, make_store

from fastdp_dask import Ledger, LinearRegression
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.commands.app import main
from fastdp_dask.data import open_store
from fastdp_dask.errors import StoreError

FIT = ["--epsilon=5", "--delta=1e-6", "--solver=ihm", "--n-iter=4", *SEEDS]
# A scheduler with one worker whose every read takes a while, as on a slow disk; it lives until its input ends.
CLUSTER = """
import sys, time
from distributed import LocalCluster
from fastdp_dask.data import store
at_once = store._Rows.__getitem__
def slowly(rows, index):
    time.sleep(0.1)
    return at_once(rows, index)
store._Rows.__getitem__ = slowly
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0") as it:
        print(it.scheduler_address, flush=True)
        sys.stdin.read()
"""


def arguments(folder: Path, out: str, ledger: str = "budget") -> list[str]:
    return ["fit", str(folder / "store"), *FIT, "--out", str(folder / out), "--ledger", str(folder / ledger)]


def prepared(folder: Path) -> dict[str, object]:
    """A store, two ledgers, and what an undisturbed fit finds."""
    make_store(folder / "store", n_rows=1024, chunk_rows=256)
    for name in ("budget", "other"):
        Ledger.create(folder / name, epsilon=20.0, delta=1e-3)
    assert main(arguments(folder, "undisturbed", "other")) == 0
    return model_of(folder / "undisturbed")


def model_of(run: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((run / "model.json").read_text())
    return document


@pytest.mark.cluster
def test_a_scheduler_killed_in_a_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 75 and a line; money and releases stay; the same command elsewhere finishes with the same numbers."""
    expected = prepared(tmp_path)
    (tmp_path / "cluster.py").write_text(CLUSTER)
    run, budget = tmp_path / "run", Ledger(tmp_path / "budget")
    with subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    ) as cluster:  # fmt: skip
        try:
            assert cluster.stdout is not None
            address = cluster.stdout.readline().strip()
            with subprocess.Popen(
                command(*arguments(tmp_path, "run"), "--scheduler", address, "--insecure", "--worker-timeout=20"),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
            ) as fit:  # fmt: skip
                assert fit.stderr is not None
                said = ""
                while "pass 3" not in said:
                    line = fit.stderr.readline()
                    assert line, said
                    said += line
                cluster.kill()
                said += fit.stderr.read()
                assert fit.wait(timeout=120) == 75
        finally:
            cluster.kill()
    assert "scheduler" in said
    assert "run the same command again" in said
    assert "Traceback" not in said
    released = (run / "releases.jsonl").read_text()
    assert '"gradient_1"' in released
    assert not (run / "model.json").exists()
    assert len(budget.charges()) == 1
    assert main(arguments(tmp_path, "run")) == 0
    assert model_of(run) == expected
    assert (run / "releases.jsonl").read_text().startswith(released)
    assert len(budget.charges()) == 1
    assert "pass 1 (gradient)" in capsys.readouterr().err  # only what was missing


@pytest.mark.cluster
def test_a_scheduler_frozen_in_a_pass(tmp_path: Path) -> None:
    """It keeps its connections and says nothing: given up after the wait as if it was gone, with all kept."""
    make_store(tmp_path / "store", n_rows=1024, chunk_rows=256)
    Ledger.create(tmp_path / "budget", epsilon=20.0, delta=1e-3)
    (tmp_path / "cluster.py").write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, tmp_path / "cluster.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    ) as cluster:  # fmt: skip
        try:
            assert cluster.stdout is not None
            address = cluster.stdout.readline().strip()
            with subprocess.Popen(
                command(*arguments(tmp_path, "run"), "--scheduler", address, "--insecure", "--worker-timeout=2"),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
            ) as fit:  # fmt: skip
                assert fit.stderr is not None
                assert any("pass 2" in line for line in fit.stderr)
                cluster.send_signal(signal.SIGSTOP)
                began = time.monotonic()
                said = fit.stderr.read()
                assert fit.wait(timeout=30) == 75, said
                assert time.monotonic() - began < 12  # two seconds of silence, a look each second, and the end
        finally:
            cluster.kill()
    assert f"the connection to the scheduler {address} was lost, as it is gone or frozen" in said
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert len(Ledger(tmp_path / "budget").charges()) == 1
    assert not (tmp_path / "run" / "model.json").exists()


def test_a_missing_chunk_costs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Known without reading: refused before the charge, unless absent chunks are taken as blank records."""
    prepared(tmp_path)
    (tmp_path / "store" / "X" / "c" / "1" / "0").unlink()
    assert main(arguments(tmp_path, "run")) == 1
    assert "3 of 4 chunks" in capsys.readouterr().err
    assert not Ledger(tmp_path / "budget").charges()
    assert not (tmp_path / "run").exists()
    assert main([*arguments(tmp_path, "run"), "--allow-missing-chunks"]) == 0


@pytest.mark.parametrize("run", ["run", None])
def test_a_corrupt_chunk_costs_nothing(run: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Known by its checksum when it is read, in the first pass: nothing has been charged or drawn by then."""
    expected = prepared(tmp_path)
    chunk = tmp_path / "store" / "X" / "c" / "2" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    capsys.readouterr()
    if run is None:
        store = open_store(tmp_path / "store")
        bounds = store.declaration.estimator_arguments()
        model = LinearRegression(epsilon=5.0, delta=1e-6, solver="ihm", ledger=tmp_path / "budget", **bounds)
        with pytest.raises(StoreError, match="chunk"):
            model.fit(store.X, store.y)
        assert not Ledger(tmp_path / "budget").charges()
        return
    assert main(arguments(tmp_path, run)) == 1
    said = capsys.readouterr()
    assert "chunk" in said.err
    assert "Traceback" not in said.err + said.out
    assert not Ledger(tmp_path / "budget").charges()
    assert (tmp_path / run / "releases.jsonl").read_bytes() == b""
    chunk.write_bytes(whole)
    assert main(arguments(tmp_path, run)) == 0
    assert model_of(tmp_path / run) == expected
    assert len(Ledger(tmp_path / "budget").charges()) == 1


@pytest.mark.parametrize("place", ["X/c/1/0", "y/c/3"])
def test_a_chunk_that_breaks_later_is_paid_once(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole in the first pass, damaged before the next: charge and releases stay, and serve when it is restored."""
    expected = prepared(tmp_path)
    chunk = tmp_path / "store" / place
    whole = chunk.read_bytes()
    charge = Ledger.charge

    def then_break(ledger: Ledger, *amount: Any, **what: Any) -> Any:
        chunk.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        return charge(ledger, *amount, **what)

    monkeypatch.setattr(Ledger, "charge", then_break)
    assert main([*arguments(tmp_path, "run"), "--no-persist"]) == 1
    monkeypatch.undo()
    assert "chunk" in capsys.readouterr().err
    released = (tmp_path / "run" / "releases.jsonl").read_text()
    assert released
    assert len(Ledger(tmp_path / "budget").charges()) == 1
    chunk.write_bytes(whole)
    assert main(arguments(tmp_path, "run")) == 0
    assert model_of(tmp_path / "run") == expected
    assert (tmp_path / "run" / "releases.jsonl").read_text().startswith(released)
    assert len(Ledger(tmp_path / "budget").charges()) == 1


def test_a_budget_spent_by_others_during_the_first_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is drawn, with exit code 3, and nothing of the run is left."""
    prepared(tmp_path)
    gram = BlockedRows.gram

    def while_others_spend(rows: BlockedRows, clip: float) -> Any:
        Ledger(tmp_path / "budget").charge(16.0, 1e-9, mechanism="another analyst")
        return gram(rows, clip)

    monkeypatch.setattr(BlockedRows, "gram", while_others_spend)
    assert main(arguments(tmp_path, "run")) == 3
    assert [charge.mechanism for charge in Ledger(tmp_path / "budget").charges()] == ["another analyst"]
    assert not [path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")]
