"""Where a job stands, from its run folder and, if it can be asked, the queue.  Reads only."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastdp_dask.errors import FastDPError, StoreError
from fastdp_dask.jobs.queues import QUEUES
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.ledger import Ledger

_FRESH_SECONDS = 40.0  # after eight missed heartbeats a lock's owner counts as dead


@dataclass(frozen=True)
class Status:
    """Where a job stands.  Public facts only.

    Attributes
    ----------
    state : str
        "queued", "running", "checkpointed" (stopped or killed with everything kept), "done" or "failed".
    because : str
        What that was concluded from.
    releases : int
        Values drawn and written down so far.
    rounds : int or None
        Rounds of the plan.
    last_pass : str or None
        The pass that was begun last.
    charge : (epsilon, delta) or None
        What the run has paid, from its ledger.
    runs : int
        How often the driver was started.
    queue, identifier : str or None
        Where it was submitted to, and as what.
    log : str or None
    """

    run_dir: str
    state: str
    because: str
    releases: int
    rounds: int | None
    last_pass: str | None
    charge: tuple[float, float] | None
    runs: int
    queue: str | None
    identifier: str | None
    log: str | None

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        return asdict(self)


def status(run_dir: str | os.PathLike[str]) -> Status:
    """Where the job of a run folder stands.

    Raises
    ------
    StoreError
        If the path is no run folder.
    """
    path = Path(run_dir)
    folder = JobFolder(path)
    if not (path / "plan.json").exists() and not folder.path.is_dir():
        raise StoreError(
            f"RUN_DIR must be a run folder, got {path} without a plan.json or a job. Name the run_dir of the job file."
        )
    journal = folder.journal()
    plan = _json(path / "plan.json")
    queue, identifier = _submitted(journal)
    state, because = _stands(path, journal, queue, identifier)
    passes = [entry for entry in journal if entry["event"] == "pass"]
    return Status(
        str(path), state, because, _releases(path), plan.get("n_iter"),
        f"{passes[-1]['number']} ({passes[-1]['name']})" if passes else None,
        _charge(folder, plan), sum(entry["event"] == "begin" for entry in journal), queue, identifier,
        folder.files.logs if folder.path.is_dir() else None,
    )  # fmt: skip


def _submitted(journal: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    named = [entry for entry in journal if entry.get("identifier")]
    return (named[-1]["queue"], named[-1]["identifier"]) if named else (None, None)


def _stands(path: Path, journal: list[dict[str, Any]], queue: str | None, identifier: str | None) -> tuple[str, str]:
    if (path / "model.json").exists():
        return "done", "model.json is there"
    asked = QUEUES[queue].state(identifier) if queue in QUEUES and identifier is not None else None
    if asked in ("queued", "running"):
        return asked, f"{queue} says so"
    runs = [entry for entry in journal if entry["event"] in ("begin", "end")]
    ended = runs[-1] if runs and runs[-1]["event"] == "end" else None
    if ended is None and _beats(path):
        return "running", "its lock has a heartbeat"
    unknown = "" if asked == "ended" else "; the queue cannot be asked from here"
    if ended is not None:
        code = ended["code"]
        return ("checkpointed" if code in (75, 130) else "failed"), f"the driver ended with {code}{unknown}"
    if runs or (path / "plan.json").exists():
        return "checkpointed", f"the driver was killed: submit again to continue{unknown}"
    if asked == "ended":
        return "failed", f"{queue} ended it before the driver began: see the log"
    return "queued", f"submitted, not begun{unknown}"


def _beats(path: Path) -> bool:
    for lock in (path / ".lock", path / "job" / ".driver.lock"):
        try:
            if time.time() - lock.stat().st_mtime < _FRESH_SECONDS:
                return True
        except OSError:
            continue
    return False


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _releases(path: Path) -> int:
    """Names in releases.jsonl; opening it as a `ReleaseLog` would repair a line that a running fit is writing."""
    try:
        raw = (path / "releases.jsonl").read_bytes()
    except OSError:
        return 0
    count = 0
    for line in raw[: raw.rfind(b"\n") + 1].splitlines():
        try:
            count += len(json.loads(line)["releases"])
        except (ValueError, KeyError, TypeError):
            continue
    return count


def _charge(folder: JobFolder, plan: dict[str, Any]) -> tuple[float, float] | None:
    ledger = _json(Path(folder.files.job)).get("ledger")
    if ledger is None or "run_id" not in plan:
        return None
    try:
        paid = [charge for charge in Ledger(ledger).charges() if charge.run_id == plan["run_id"]]
    except FastDPError:
        return None
    return (float(paid[0].amount.epsilon), float(paid[0].amount.delta)) if paid else None
