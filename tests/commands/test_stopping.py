"""SIGTERM and SIGUSR1 end a fit with 75 at any time, and the same command continues it to the same model."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_cases import ENVIRONMENT, PAPER, SEEDS, command, make_store
from distributed import LocalCluster
from threadpoolctl import threadpool_limits

from fastdp_dask.blocked.progress import silent
from fastdp_dask.commands import predict
from fastdp_dask.commands.app import main
from fastdp_dask.commands.stopping import Stoppable, Stopped
from fastdp_dask.ledger import Ledger


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 chunks, so that a pass takes long beside the delivery of a signal."""
    return make_store(tmp_path_factory.mktemp("many") / "store", n_rows=16384, chunk_rows=64)


class Fit:
    """`fastdp fit` as a process, which pays from a ledger."""

    def __init__(self, store: Path, folder: Path, ledger: Ledger, *more: object) -> None:
        self.folder, self.ledger = folder, ledger
        self.process = subprocess.Popen(
            command("fit", store, *PAPER, *SEEDS, "--out", folder, "--ledger", ledger.path, *more),
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip

    def wait_for_handler(self) -> None:
        """Until the process catches SIGTERM, which is long before it has loaded NumPy."""
        while True:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            caught = int(status.partition("SigCgt:")[2].split()[0], 16)
            if caught >> (signal.SIGTERM - 1) & 1:
                return
            time.sleep(0.001)

    def wait_for_line(self, words: str) -> None:
        assert self.process.stderr is not None
        assert any(words in line for line in self.process.stderr), f"no line with {words!r}"

    def wait_for_releases(self, count: int) -> None:
        path = self.folder / "releases.jsonl"
        while not (path.exists() and path.read_bytes().count(b"\n") >= count):
            assert self.process.poll() is None
            time.sleep(0.001)

    def stop(self, number: int, *, paid: int) -> None:
        """Send the signal; the process must say so in its last line, end with 75 and have paid so many times."""
        began = time.monotonic()
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        assert time.monotonic() - began < 10  # a batch system kills after 30 s
        assert self.process.returncode == 75, err
        assert out == ""
        last = err.splitlines()[-1]
        assert last.startswith("fastdp: stopped on request")
        assert last.endswith("Run the same command again.")
        assert "Traceback" not in err
        assert not (self.folder / "model.json").exists()
        assert len(self.ledger.charges()) == paid


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc whether the handler stands")
@pytest.mark.cluster
def test_a_fit_stopped_again_and_again_comes_to_the_same_model(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = ["fit", str(store), *PAPER, *SEEDS, "--out"]
    with threadpool_limits(1):  # as in `ENVIRONMENT`
        assert main([*fitted, str(tmp_path / "undisturbed")]) == 0
    folder, releases = tmp_path / "run", tmp_path / "run" / "releases.jsonl"
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=6, delta=1e-5)

    fit = Fit(store, folder, ledger)
    fit.wait_for_handler()
    fit.stop(signal.SIGTERM, paid=0)
    assert not folder.exists()

    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        fit = Fit(store, folder, ledger, "--scheduler", cluster.scheduler_address, "--insecure")
        fit.wait_for_line("waiting for workers")
        fit.stop(signal.SIGUSR1, paid=0)
    assert not folder.exists()

    fit = Fit(store, folder, ledger)
    fit.wait_for_line("pass 1 (sketch)")
    fit.stop(signal.SIGUSR1, paid=0)
    assert releases.read_bytes() == b""

    fit = Fit(store, folder, ledger)
    fit.wait_for_releases(2)
    fit.stop(signal.SIGTERM, paid=1)
    kept = releases.read_bytes()
    assert kept.count(b"\n") in (2, 3)  # a signal between two passes waits for the next one

    capsys.readouterr()
    with threadpool_limits(1):
        assert main([*fitted, str(folder), "--ledger", str(ledger.path)]) == 0
    assert "(sketch)" not in capsys.readouterr().err  # what was released is not computed again
    assert releases.read_bytes().startswith(kept)
    assert len(ledger.charges()) == 1
    models = [json.loads((path / "model.json").read_text()) for path in (folder, tmp_path / "undisturbed")]
    assert models[0] == models[1]


def ended(*signals: str, thread: str = "None") -> tuple[int, str]:
    """Exit code and standard error of a process of `fastdp` that gets these signals in a pass, a second apart."""
    script = (
        "import os, signal, threading, time\n"
        "from fastdp_dask.commands import stopping\n"
        "from fastdp_dask.blocked.progress import silent\n"
        "stopping.from_the_start()\n"
        "stopping.CLEARING_SECONDS = 0.3\n"
        f"threading.Thread(target={thread}).start()\n"
        "with stopping.Stoppable(silent, 'stopped on request. Run the same command again.') as progress:\n"
        "    with progress('sketch', 1, 10, 1):\n"
        "        try:\n"
        f"            signal.raise_signal(signal.{signals[0]})\n"
        "        finally:\n"
        + "".join(f"            signal.raise_signal(signal.{number})\n" for number in signals[1:])
        + "            pass\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    return process.returncode, process.stderr


def test_a_process_that_cannot_clear_up_is_ended() -> None:
    """A thread that never ends keeps a Python process alive after its last line."""
    code, err = ended("SIGTERM", thread="threading.Event().wait")
    assert code == 75
    assert err.endswith("fastdp: stopped on request. Run the same command again.\n")


def between_passes(*then: str) -> tuple[int, str]:
    """Exit code and standard error of a process of `fastdp` that gets SIGTERM between two passes and does this then."""
    script = (
        "import signal, threading, time\n"
        "from fastdp_dask.commands import stopping\n"
        "from fastdp_dask.blocked.progress import silent\n"
        "stopping.from_the_start()\n"
        "stopping.CLEARING_SECONDS = 0.3\n"
        "with stopping.Stoppable(silent, 'stopped on request. Run the same command again.') as progress:\n"
        "    with progress('sketch', 1, 10, 1):\n"
        "        pass\n"
        "    signal.raise_signal(signal.SIGTERM)\n" + "\n".join(then)
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False)
    return process.returncode, process.stderr


def test_a_process_that_waits_for_ever_between_two_passes_is_ended() -> None:
    code, err = between_passes("    threading.Event().wait()")
    assert (code, err) == (75, "fastdp: stopped on request. Run the same command again.\n")


def test_a_process_that_comes_to_its_end_after_a_request_is_not_ended_by_force() -> None:
    assert between_passes("    pass", "time.sleep(0.6)") == (0, "")  # twice the time after which it would be


def test_ctrl_c_twice_ends_at_once() -> None:
    code, err = ended("SIGINT", "SIGINT")
    assert code == 130
    assert err.splitlines()[-1] == "fastdp: interrupted twice: ended at once, as by a crash."


def test_a_second_request_disturbs_no_clearing_up() -> None:
    code, err = ended("SIGUSR1", "SIGTERM")
    assert code == 1  # that script catches nothing; the commands turn it into 75
    assert "stopping.Stopped" in err


def test_ctrl_c_abandons_a_pass() -> None:
    def one_pass(progress: Stoppable) -> None:
        with progress("sketch", 1, 10, 1):
            signal.raise_signal(signal.SIGINT)

    with Stoppable(silent, "stopped") as progress, pytest.raises(KeyboardInterrupt):
        one_pass(progress)


def test_before_the_first_pass_a_signal_stops_at_once() -> None:
    with Stoppable(silent, "stopped"), pytest.raises(Stopped):
        signal.raise_signal(signal.SIGUSR1)


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


def test_a_stopped_prediction_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, fitted, out = make_store(tmp_path / "store"), tmp_path / "run", tmp_path / "to" / "out.npy"
    out.parent.mkdir()
    assert main(["fit", str(store), "--epsilon", "5", "--delta", "1e-6", "--out", str(fitted)]) == 0
    blocks = predict._blocks

    def stopped(predicted: Any) -> Iterator[Any]:
        for number, block in enumerate(blocks(predicted)):
            if number == 2:
                signal.raise_signal(signal.SIGTERM)
            yield block

    monkeypatch.setattr(predict, "_blocks", stopped)
    assert main(["predict", str(fitted), str(store), "--out", str(out)]) == 75
    assert f"nothing of {out} is left. Run the same command again." in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []
