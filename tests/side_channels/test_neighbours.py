"""What can be seen of a fit, but for the released numbers, is the same for both members of a neighbouring pair.

Seen are: standard output and error, the exit code, warnings, log records, the names and sizes of files, the number of
tasks and of passes, the plan and what was spent.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from commands.command_cases import ENVIRONMENT, command, without_times
from dask.callbacks import Callback
from side_channels.neighbour_cases import PAIRS, Neighbours

from fastdp_dask import Ledger, LinearRegression
from fastdp_dask.commands.app import main
from fastdp_dask.data import write_store

# Each pair with another way to fit, so that all of them meet hostile records.
OPTIONS: list[dict[str, Any]] = [
    {"solver": "ihm"},
    {"solver": "fastihm"},
    {"solver": "fastihm", "preset": "paper"},
    {"solver": "adassp"},
    {"solver": "linear_mixing"},
    {"solver": "fast_linear_mixing"},
    {"solver": "ihm", "preset": "paper"},
    {"solver": "auto"},
]
CASES = [pytest.param(pair, OPTIONS[i % len(OPTIONS)], id=name) for i, (name, pair) in enumerate(PAIRS.items())]
BUDGET = {"epsilon": 4.0, "delta": 1e-5}


def prepare(folder: Path, pair: Neighbours, member: int) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    X, y = pair.members()[member]
    write_store(folder / "store", [(X, y)], pair.declaration(), len(y), dtype="float64", chunk_rows=16)
    Ledger.create(folder / "budget", epsilon=10.0, delta=1e-3)
    return folder


def arguments(folder: Path, options: dict[str, Any]) -> list[str]:
    given = {**BUDGET, **options, "out": folder / "run", "ledger": folder / "budget"}
    return ["fit", str(folder / "store"), *(f"--{name}={value}" for name, value in given.items())]


def without_numbers(text: str) -> str:
    """Numbers, and the widths of the columns that hold them, made alike."""
    text = re.sub(r"-?\b\d[\d.,]*(e[-+]?\d+)?", "#", without_times(text))
    return re.sub(r"[\s─━┏┳┓┡╇┩└┴┘]+", " ", text)


def form(document: Any) -> Any:
    """A JSON document with the kind of each number in its place."""
    if isinstance(document, dict):
        return {key: form(value) for key, value in document.items()}
    if isinstance(document, list):
        return [form(value) for value in document]
    return type(document) if isinstance(document, float) else document


def files(folder: Path) -> dict[str, Any]:
    """Names and sizes of the files of the run folder and the ledger; text of those that hold numbers as text."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.startswith("store/"):
            continue
        if path.suffix == ".json":
            document = json.loads(path.read_text())
            # What belongs to the run, the store and the ledger alone, drawn anew for each, and a checksum.
            drawn = ("run_id", "public_seed", "source", "ledger", "sha256", "run")
            own = [type(document.pop(key, None)) for key in drawn]
            found[name] = (document if name == "run/plan.json" else form(document)), own
        elif path.suffix == ".html":
            # Pictures are drawn from released numbers; all else is words, and numbers in places of their own.
            words = re.sub(r"<svg.*?</svg>|<code>.*?</code>|data-largest=\S+", "", path.read_text(), flags=re.DOTALL)
            found[name] = re.sub(r"-?\b\d[\d.,]*(e[-+]?\d+)?", "#", words)
        else:
            found[name] = path.stat().st_size
    assert {"budget", "run/model.json", "run/plan.json", "run/releases.jsonl"} <= set(found)
    return found


@pytest.mark.parametrize(("pair", "options"), CASES)
def test_the_command_says_and_writes_the_same(
    pair: Neighbours, options: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for member in (0, 1):
        folder = prepare(tmp_path / "work", pair, member)  # by the same name
        code = main(arguments(folder, options))
        out, err = capfd.readouterr()
        seen.append((code, without_numbers(out), without_times(err), files(folder)))
    assert seen[0] == seen[1]
    assert seen[0][0] == 0
    assert "warning" not in seen[0][2]


@pytest.mark.parametrize("name", ["1e308 everywhere", "the record that makes it full rank"])
def test_the_process_says_the_same(name: str, tmp_path: Path) -> None:
    """A real process, with all that Python, NumPy and Dask print, from the start of the interpreter to its end."""
    folders = [prepare(tmp_path / str(member) / "work", PAIRS[name], member) for member in (0, 1)]
    running = [
        subprocess.Popen(
            command(*arguments(Path("work"), {"solver": "fastihm"})), cwd=folder.parent, env=ENVIRONMENT,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for folder in folders
    ]  # fmt: skip
    seen = []
    for folder, process in zip(folders, running, strict=True):
        out, err = process.communicate(timeout=120)
        seen.append((process.returncode, without_numbers(out), without_times(err), files(folder)))
    assert seen[0] == seen[1]
    assert seen[0][0] == 0


class Tasks(Callback):
    """Counts tasks by the name of what they do."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def _pretask(self, key: Any, dsk: Any, state: Any) -> None:
        with self._lock:
            self.count += 1


@pytest.mark.parametrize(("pair", "options"), CASES)
def test_the_estimator_does_and_warns_the_same(
    pair: Neighbours,
    options: dict[str, Any],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = []
    caplog.set_level(logging.DEBUG)
    for X, y in pair.members():
        caplog.clear()
        with Tasks() as tasks, warnings.catch_warnings(record=True) as warned, dask.config.set(scheduler="threads"):
            warnings.simplefilter("always")
            model = LinearRegression(**BUDGET, **options, bounds_X=(-1, 1), bounds_y=(-1, 1))
            model.fit(da.from_array(X, chunks=(16, X.shape[1])), y)
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.intercept_)
        seen.append(
            (
                tasks.count, model.n_passes_, model.plan_, model.privacy_spent_, sorted(model.release_),
                [str(w.message) for w in warned], [record.getMessage() for record in caplog.records],
                capfd.readouterr(),
            )
        )  # fmt: skip
    assert seen[0] == seen[1]
    assert seen[0][0] > 0
    assert seen[0][5] == []


def test_the_comparison_notices() -> None:
    """Another word or name, or a warning more, is a difference; a released number is none."""
    said = "│ x0 │  0.25 │\n│ x1 │ -1e-05 │\n──────\nfit on 64 rows"
    assert without_numbers(said) == without_numbers(said.replace(" 0.25", "-17.5 ").replace("──────", "────"))
    for other in (said + "\nwarning: overflow", said.replace("x1", "y"), said.replace("rows", "records")):
        assert without_numbers(said) != without_numbers(other)
