"""Run a fit in a child that dies at its k-th step, run it again, and compare, for every k.

A process of its own: it forks, which only a process with a single thread may.  Prints one JSON document.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
from helpers import bits, model, small_data

from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.ledger import Ledger
from fastdp_dask.ledger import store as ledger_store
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource

DEAD = 9
# A killed process leaves the page cache as it is, so a file system in memory shows the same and syncs at once.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
X, Y = small_data(300, 3)
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"n_iter": 2},
    "tight": {"n_iter": 2, "solver": "ihm", "preset": "tight"},
}


class Steps:
    """Counts steps under `folder` and dies at the step `die_at`, leaving no time to clean up."""

    def __init__(self, folder: Path, die_at: int) -> None:
        self.folder, self.die_at = str(folder), die_at
        self.labels: list[str] = []

    def reach(self, label: str) -> None:
        self.labels.append(re.sub(r"[0-9a-f]{32}", "*", label))
        if len(self.labels) == self.die_at:
            os._exit(DEAD)

    def around(self, owner: Any, name: str, label: Callable[..., str]) -> None:
        """Make `owner.name` a step before and a step after."""
        original = getattr(owner, name)

        def stepped(*args: Any, **kwargs: Any) -> Any:
            what = label(*args)
            if what:
                self.reach(f"before {what}")
            result = original(*args, **kwargs)
            if what:
                self.reach(f"after {what}")
            return result

        setattr(owner, name, stepped)

    def file_of(self, place: Any) -> str:
        """Name of a path or descriptor inside the folder, else nothing."""
        if isinstance(place, int):
            place = os.readlink(f"/proc/self/fd/{place}")
        path = str(place)
        return path[len(self.folder) + 1 :] if path.startswith(self.folder + "/") else ""

    def install(self) -> None:
        for name in ("open", "fsync", "replace", "rename", "link", "unlink", "mkdir", "ftruncate"):
            self.around(os, name, lambda place, *_, name=name: self.file_of(place) and f"{name} {self.file_of(place)}")
        write = os.write

        def torn(descriptor: int, data: Any) -> int:
            name = self.file_of(descriptor)
            half = write(descriptor, data[: len(data) // 2])
            self.reach(f"half of write {name}")
            written = half + write(descriptor, data[half:])
            self.reach(f"after write {name}")
            return written

        os.write = torn  # type: ignore[assignment]
        for name in ("sketch", "deviation", "gram", "gradient"):
            self.around(BlockedRows, name, lambda *_, name=name: f"pass: {name}")
        self.around(NoiseSource, "stream", lambda _, name: f"stream of noise for {name}")
        self.around(ReleaseLog, "once", lambda _, name, *rest: f"release {name}")
        steps = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> Any:
                changes = sql.split()[0] in ("BEGIN", "INSERT", "UPDATE", "COMMIT")
                if changes:
                    steps.reach(f"before ledger {sql.split()[0]}")
                result = super().execute(sql, *args)
                if changes:
                    steps.reach(f"after ledger {sql.split()[0]}")
                return result

        connect = sqlite3.connect
        ledger_store.sqlite3.connect = lambda *args, **options: connect(*args, factory=Connection, **options)


def in_child(preset: str, folder: Path, die_at: int | None) -> dict[str, Any] | None:
    """Fit in a forked child; None if it died."""
    answer = folder.parent / "answer.json"
    answer.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            steps = Steps(folder, die_at or 0)
            if die_at is not None:
                steps.install()
            fitted = model(**PRESETS[preset], run_dir=folder / "run", ledger=folder / "ledger.db").fit(X, Y)
            answer.write_text(json.dumps({"bits": bits(fitted).hex(), "labels": steps.labels}))
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == DEAD:
        return None
    if code != 0:
        raise SystemExit(f"the fit failed: {preset}, death at step {die_at}")
    result: dict[str, Any] = json.loads(answer.read_text())
    return result


def whole_lines(folder: Path) -> list[bytes]:
    """Releases that stand in the file."""
    path = folder / "run" / "releases.jsonl"
    raw = path.read_bytes() if path.exists() else b""
    return raw[: raw.rfind(b"\n") + 1].splitlines()


def examine(preset: str, expected: str, deaths: list[int], names: list[str]) -> dict[str, Any]:
    """Die at each of `deaths` in turn, then finish; what came of it."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        folder = Path(scratch) / "case"
        folder.mkdir()
        Ledger.create(folder / "ledger.db", epsilon=5, delta=1e-5)
        seen: list[bytes] = []
        kept = True
        for die_at in deaths:
            in_child(preset, folder, die_at)
            found = whole_lines(folder)
            kept = kept and found[: len(seen)] == seen
            seen = found
        finished = in_child(preset, folder, None)
        assert finished is not None
        final = whole_lines(folder)
        once = [r["name"] for line in final for r in json.loads(line)["releases"]] == names
        # A name reserved by a process that died before it wrote itself into it is left empty for a day.
        rest = [path.name for path in [*folder.iterdir(), *(folder / "run").iterdir()] if path.stat().st_size]
        return {
            "equal": finished["bits"] == expected,
            "charges": Ledger(folder / "ledger.db").verify(),
            "draws_once": once and kept and final[: len(seen)] == seen,
            "left": [name for name in rest if "lock" in name or "journal" in name],
        }


def main(preset: str, stride: int) -> None:
    warnings.simplefilter("ignore")
    with dask.config.set(scheduler="synchronous"):
        undisturbed = bits(model(**PRESETS[preset]).fit(X, Y)).hex()
        with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
            folder = Path(scratch) / "case"
            folder.mkdir()
            Ledger.create(folder / "ledger.db", epsilon=5, delta=1e-5)
            watched = in_child(preset, folder, 0)
            assert watched is not None
            names = [r["name"] for line in whole_lines(folder) for r in json.loads(line)["releases"]]
        labels = watched["labels"]
        rows = [
            {"step": k, "label": label, **examine(preset, undisturbed, [k], names)}
            for k, label in enumerate(labels, start=1)
            if k % stride == 0
        ]
        # Dying again in the run that was to repair it: steps far apart, and each run's own count.
        twice = [
            {"step": [k, j], **examine(preset, undisturbed, [k, j], names)}
            for k in range(5, len(labels), len(labels) // 5)
            for j in (17, len(labels) // 3)
        ]
    print(json.dumps({"equal_without_folder": watched["bits"] == undisturbed, "rows": rows, "twice": twice}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
