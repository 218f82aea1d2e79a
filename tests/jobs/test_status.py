"""Where a job stands, from what lies in its run folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fastdp_dask.errors import StoreError
from fastdp_dask.jobs import status as status_module
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.jobs.status import status
from fastdp_dask.ledger import Ledger


class Answering:
    """A queue that says one thing."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    def submit(self, job: Any, path: str) -> str:
        raise AssertionError

    def check(self, path: str) -> None:
        raise AssertionError

    def state(self, identifier: str) -> str | None:
        assert identifier == "7"
        return self.answer


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """A run folder from which a job was submitted, with a queue that cannot be asked."""
    monkeypatch.setitem(status_module.QUEUES, "slurm", Answering(None))
    folder = JobFolder(tmp_path / "run").make()
    folder.note("submit", queue="slurm", identifier="7")
    return folder


def planned(run: JobFolder) -> None:
    (run.path.parent / "plan.json").write_text(json.dumps({"n_iter": 3, "run_id": "r"}))


def test_from_submission_to_the_end(run: JobFolder) -> None:
    states = []

    def look() -> None:
        states.append(status(run.path.parent).state)

    look()
    run.note("begin", queue="slurm", identifier="7", restarts="0")
    planned(run)
    lock = run.path / ".driver.lock"
    lock.write_text("{}")
    look()
    os.utime(lock, (0, 0))  # its heartbeat stopped long ago
    look()
    run.note("end", code=75)
    look()
    run.note("begin")
    run.note("end", code=3)
    look()
    (run.path.parent / "model.json").write_text("{}")
    look()
    assert states == ["queued", "running", "checkpointed", "checkpointed", "failed", "done"]


@pytest.mark.parametrize(("answer", "state"), [("queued", "queued"), ("running", "running"), ("ended", "failed")])
def test_the_queue_has_a_word(run: JobFolder, monkeypatch: pytest.MonkeyPatch, answer: str, state: str) -> None:
    monkeypatch.setitem(status_module.QUEUES, "slurm", Answering(answer))
    assert status(run.path.parent).state == state


def test_what_is_told(run: JobFolder) -> None:
    ledger = Ledger.create(run.path.parent.parent / "budget.db", epsilon=2, delta=1e-6)
    Path(run.files.job).write_text(json.dumps({"ledger": str(ledger.path)}))
    planned(run)
    assert status(run.path.parent).charge is None
    ledger.charge(1.0, 1e-7, mechanism="x", run_id="other")
    ledger.charge(0.5, 1e-7, mechanism="x", run_id="r")
    run.note("begin")
    with run.told("sketch", 1, 10, 2), run.told("gradient", 2, 10, 2):
        pass
    log = run.path.parent / "releases.jsonl"
    whole = json.dumps({"releases": [{"name": "a"}, {"name": "b"}]}) + "\n"
    log.write_text(whole + whole[:9])  # a line that is being written
    found = status(run.path.parent)
    assert (found.releases, found.rounds, found.last_pass, found.runs) == (2, 3, "2 (gradient)", 1)
    assert (found.charge, found.queue, found.identifier) == ((0.5, 1e-7), "slurm", "7")
    assert log.read_text() == whole + whole[:9]  # looking repairs nothing


def test_a_fit_without_a_queue(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    assert status(tmp_path).state == "checkpointed"
    (tmp_path / "model.json").write_text("{}")
    found = status(tmp_path)
    assert (found.state, found.queue, found.log, found.charge) == ("done", None, None, None)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"RUN_DIR must be a run folder, got .* without a plan.json or a job"):
        status(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_with_a_torn_line(run: JobFolder) -> None:
    with (run.path / "journal.jsonl").open("a") as stream:
        stream.write('{"event": "beg')
    assert [entry["event"] for entry in run.journal()] == ["submit"]
    run.note("begin")
    assert [entry["event"] for entry in run.journal()] == ["submit", "begin"]


def test_folders_and_files_are_private(run: JobFolder) -> None:
    run.write(run.files.job, "{}")
    run.write(run.files.script, "", mode=0o700)
    modes = {path: path.stat().st_mode & 0o077 for path in run.path.parent.rglob("*")}
    assert set(modes.values()) == {0}
