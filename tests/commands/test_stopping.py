"""SIGTERM and SIGUSR1 end a fit with 75, and the same command continues it to the same model."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from command_cases import ENVIRONMENT, PAPER, SEEDS, command, make_store, run

from fastdp_dask.blocked.progress import silent
from fastdp_dask.commands.outcome import Stopped
from fastdp_dask.commands.stopping import Stoppable


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 chunks, so that a pass takes long beside the delivery of a signal."""
    return make_store(tmp_path_factory.mktemp("many") / "store", n_rows=16384, chunk_rows=64)


@pytest.fixture(scope="module")
def undisturbed(store: Path) -> dict[str, object]:
    run_folder = store.parent / "undisturbed"
    assert run("fit", store, *PAPER, *SEEDS, "--out", run_folder).returncode == 0
    document: dict[str, object] = json.loads((run_folder / "model.json").read_text())
    return document


@pytest.mark.parametrize(
    ("at", "number", "redone"),
    [("pass 1 (sketch)", signal.SIGUSR1, True), ("pass 3 (gradient)", signal.SIGTERM, False)],
)
def test_stopped_fit_continues_to_the_same_model(
    store: Path, undisturbed: dict[str, object], at: str, number: int, redone: bool, tmp_path: Path
) -> None:
    arguments = ["fit", store, *PAPER, *SEEDS, "--out", tmp_path]
    process = subprocess.Popen(
        command(*arguments), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    assert process.stderr is not None
    for line in process.stderr:
        if at in line:
            process.send_signal(number)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("fastdp: stopped on request")
    assert "Run the same command again" in last
    assert "Traceback" not in err
    assert not (tmp_path / "model.json").exists()

    again = run(*arguments)
    assert again.returncode == 0, again.stderr
    assert ("(sketch)" in again.stderr) == redone
    assert json.loads((tmp_path / "model.json").read_text()) == undisturbed


def test_between_passes_a_signal_waits_for_the_next_pass() -> None:
    before = signal.getsignal(signal.SIGTERM)
    reached = []
    with Stoppable(silent, "stopped") as progress:
        with progress("sketch", 1, 10, 1):
            reached.append("pass")
        signal.raise_signal(signal.SIGTERM)
        reached.append("release")  # not torn
        with pytest.raises(Stopped, match="stopped"), progress("gradient", 2, 10, 1):
            reached.append("never")
        signal.raise_signal(signal.SIGTERM)  # a second one disturbs nothing
    assert reached == ["pass", "release"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_during_a_pass_a_signal_abandons_it() -> None:
    reached = []

    def one_pass(progress: Stoppable) -> None:
        with progress("sketch", 1, 10, 1):
            signal.raise_signal(signal.SIGUSR1)
            reached.append("never")

    with Stoppable(silent, "stopped") as progress, pytest.raises(Stopped):
        one_pass(progress)
    assert reached == []
