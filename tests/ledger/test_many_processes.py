"""Many processes, some killed while they hold the lock: the sum is exact, no charge is lost, none is doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastdp_dask.ledger import Ledger

SCRIPT = Path(__file__).parent / "many_writers.py"


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory if there is such a place: a kill shows the same there, and a thousand syncs cost nothing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


def charged_by_many(path: Path, *arguments: object) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), *map(str, arguments)],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
def test_sixteen_processes_a_thousand_charges_and_kills(folder: Path) -> None:
    ledger = Ledger.create(folder / "ledger.db", epsilon=1, delta=0)
    found = charged_by_many(ledger.path, 16, 63, 0.001, 30, "both")
    assert found["codes"] == [0] * 16
    assert found["killed"] == 30
    assert found["holding"] > 0  # some were killed while they held the lock
    assert ledger.verify() == 1000
    assert ledger.state().spent.texts() == ("1", "0")
    runs = {charge.run_id for charge in ledger.charges()}
    assert len(runs) == 1000
    assert runs < {f"{writer} {number}" for writer in range(16) for number in range(63)}  # eight came too late
    assert sum(path.stat().st_size > 0 for path in folder.glob("ledger.db?*")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("locks", ["both", "own"])
def test_eight_eighths_fit_whoever_asks(folder: Path, locks: str) -> None:
    """With "own", SQLite takes no lock: a file system on which fcntl means nothing."""
    ledger = Ledger.create(folder / "ledger.db", epsilon=1, delta=0)
    found = charged_by_many(ledger.path, 8, 4, 0.125, 6, locks)
    assert found["codes"] == [0] * 8
    assert ledger.verify() == 8
    assert ledger.remaining() == (0.0, 0.0)
