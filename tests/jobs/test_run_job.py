"""What a job runs, without a batch system: on threads, and with a queue played by two scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastdp_dask.commands.app import main
from fastdp_dask.commands.run_job import _only_copy
from fastdp_dask.commands.stopping import Stopped
from fastdp_dask.data import Declaration, write_store
from fastdp_dask.file_lock import FileLock
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.ledger import Ledger

SBATCH = """#!/bin/bash
# Starts a copy of the script at once, and knows it by its process group.
[ "$1" != --test-only ] || exit 0
copy=$(mktemp -p "$(dirname "$0")") && cp "$1" "$copy"
setsid bash "$copy" < /dev/null > /dev/null 2>&1 &
echo "Submitted batch job $!"
echo $! >> "$(dirname "$0")/started"
"""
SCANCEL = """#!/bin/bash
# Ends what sbatch above has started, and nothing else whatever the number.
grep -qx "$1" "$(dirname "$0")/started" 2> /dev/null || exit 0
kill -TERM -- "-$1" 2> /dev/null
exit 0
"""


class Case:
    """A store, a ledger for two fits and a job file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run_dir = folder, folder / "run"
        random = np.random.default_rng(0)
        X = random.uniform(-1, 1, (1024, 2))
        declaration = Declaration(["a", "b"], [(-1, 1), (-1, 1)], [], "y", (-1, 1))
        write_store(folder / "data.zarr", [(X, X @ [0.5, -0.3])], declaration, 1024, chunk_rows=256)
        self.ledger = Ledger.create(folder / "budget.db", epsilon=2, delta=1e-5)

    def written(self, text: str = "", count: int = 0, wait: int = 60) -> str:
        """The job file, with lines before its sections."""
        (self.folder / "job.toml").write_text(
            f'data = "data.zarr"\nepsilon = 1\ndelta = 1e-6\nledger = "budget.db"\nrun_dir = "run"\n{text}\n'
            f'[workers]\ncount = {count}\nmemory = "512MiB"\nwait = {wait}\n[slurm]\ninterface = "lo"\n'
        )
        return str(self.folder / "job.toml")

    def codes(self) -> list[int]:
        return [entry["code"] for entry in JobFolder(self.run_dir).journal() if entry["event"] == "end"]

    def passes(self) -> int:
        return sum(entry["event"] == "pass" for entry in JobFolder(self.run_dir).journal())


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_the_same_job_again_hands_out_its_model_and_spends_nothing(case: Case) -> None:
    file = case.written()
    assert main(["run-job", file, "--on", "slurm"]) == 0
    model, passes = (case.run_dir / "model.json").read_bytes(), case.passes()
    assert passes > 0
    assert main(["run-job", file, "--on", "slurm"]) == 0
    assert (case.run_dir / "model.json").read_bytes() == model
    assert (case.passes(), case.codes(), len(case.ledger.charges())) == (passes, [0, 0], 1)


def test_a_full_budget_is_code_3(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    case.ledger.charge(1.5, 1e-6, mechanism="another")
    file = case.written(count=1)
    assert main(["submit", "slurm", file]) == 3
    assert not case.run_dir.exists()
    assert main(["run-job", file, "--on", "slurm"]) == 3  # before it asks anybody for workers
    assert capsys.readouterr().err.count("Do not retry") == 2
    assert case.codes() == [3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('target = "z"', "target must be the store's, 'y', got 'z'"),
        ('bounds = "bounds.toml"', "has no bounds in"),
    ],
)
def test_a_declaration_that_does_not_fit_costs_nothing(
    case: Case, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    bounds = '[target]\nname = "y"\nlower = -1\nupper = 1\n[features.a]\nlower = -1\nupper = 1\n'
    (case.folder / "bounds.toml").write_text(bounds)
    assert main(["run-job", case.written(text), "--on", "slurm"]) == 1
    assert said in capsys.readouterr().err
    assert not case.ledger.charges()


def test_bounds_of_a_file_take_the_place_of_the_store_s(case: Case) -> None:
    feature = "[features.{}]\nlower = -2\nupper = 2\n"
    bounds = '[target]\nname = "y"\nlower = -3\nupper = 3\n' + feature.format("b") + feature.format("a")
    (case.folder / "bounds.toml").write_text(bounds)
    assert main(["run-job", case.written('bounds = "bounds.toml"'), "--on", "slurm"]) == 0
    plan = json.loads((case.run_dir / "plan.json").read_text())
    assert "2.0" in json.dumps(plan["scaling"])
    assert plan["feature_names"] == ["a", "b"]


def test_intervals_and_absent_chunks_may_be_asked_for(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    (case.folder / "data.zarr" / "X" / "c" / "1" / "0").unlink()
    assert main(["run-job", case.written("uncertainty = true"), "--on", "slurm"]) == 1
    assert "3 of 4 chunks" in capsys.readouterr().err
    assert not case.ledger.charges()
    text = 'solver = "ihm"\nuncertainty = true\nallow_missing_chunks = true'
    assert main(["run-job", case.written(text), "--on", "slurm"]) == 0
    assert '"residual_square"' in (case.run_dir / "releases.jsonl").read_text()
    assert main(["run-job", case.written(text.replace("uncertainty = true\n", "")), "--on", "slurm"]) == 1
    assert "run_dir must be empty or hold the same plan" in capsys.readouterr().err
    assert len(case.ledger.charges()) == 1


def test_a_second_copy_leaves_with_code_75_when_the_first_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastdp_dask.commands.run_job._TURN_SECONDS", 0.0)
    found = pytest.raises(Stopped, match=rf"another copy of this job works in run, process {os.getpid()} on")
    with FileLock(tmp_path / ".driver.lock", wait=0), found, _only_copy(tmp_path, "run"):
        raise AssertionError
    with _only_copy(tmp_path, "run"):
        assert (tmp_path / ".driver.lock").exists()
    assert not (tmp_path / ".driver.lock").exists()


def played(case: Case, sbatch: str, wait: int, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run a job with workers in a process whose sbatch and scancel are these scripts."""
    tools = case.folder / "tools"
    tools.mkdir()
    for name, text in {"sbatch": sbatch, "scancel": SCANCEL}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", **variables}
    return subprocess.run(
        [sys.executable, "-m", "fastdp_dask.commands", "run-job", case.written(count=1, wait=wait), "--on", "slurm"],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip


def alive(number: str) -> bool:
    try:
        os.killpg(int(number), 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_are_asked_for_used_and_cancelled(case: Case) -> None:
    done = played(case, SBATCH, 60, SLURM_MEM_PER_NODE="1")
    assert done.returncode == 0, done.stderr
    assert "asked slurm for 1 worker jobs" in done.stderr
    versions = json.loads((case.run_dir / "job" / "versions.json").read_text())
    assert versions["others"] == [versions["driver"]]
    begin = next(entry for entry in JobFolder(case.run_dir).journal() if entry["event"] == "begin")
    assert (begin["queue"], begin["identifier"]) == ("slurm", "7")
    script = (case.run_dir / "job" / "worker.sh").read_text()
    assert "tls://" in script
    assert not list((case.run_dir / "job").glob(".dask-jobqueue*"))
    deadline = time.monotonic() + 20
    while any(map(alive, (case.folder / "tools" / "started").read_text().split())):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_queue_that_starts_nothing_ends_the_wait(case: Case) -> None:
    done = played(case, "#!/bin/bash\necho Submitted batch job 999999999\n", 1)
    assert done.returncode == 1
    job = case.run_dir / "job"
    assert (
        f"no worker has joined after 1 s: expected 1 from slurm. Script: {job}/worker.sh. Logs: {job}/logs"
        in done.stderr
    )
    assert (job / "worker.sh").exists()
    assert (case.codes(), case.ledger.charges()) == ([1], [])


def test_a_queue_that_takes_no_workers_is_quoted(case: Case) -> None:
    done = played(case, "#!/bin/bash\necho 'sbatch: error: invalid account' >&2\nexit 1\n", 60)
    assert done.returncode == 1
    assert "fastdp: error: sbatch refuses the job (sbatch: error: invalid account)." in done.stderr
    assert "Traceback" not in done.stderr
    assert (case.codes(), case.ledger.charges()) == ([1], [])
