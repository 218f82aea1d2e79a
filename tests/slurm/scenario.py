"""A job on the one-machine Slurm, and everything that may be asked about it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from one_machine import OneMachineSlurm

from fastdp_dask.data import Declaration, write_store
from fastdp_dask.jobs.records import JobFolder
from fastdp_dask.ledger import Ledger

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_HANDED_ON = (
    *_ONE_THREAD, "FASTDP_TEST_CHUNK_SECONDS", "DASK_DISTRIBUTED__WORKER__PRELOAD",
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT",
)  # fmt: skip
BUDGET = (50.0, 1e-6)
# Ten passes, so that there is always one to be disturbed.
FIT = {"epsilon": BUDGET[0], "delta": BUDGET[1], "solver": "fastihm", "preset": "paper", "n_iter": 9, "k2": 512}
PASSES = 10
SEEDS = {"public_seed": 11, "random_state": 12}


def make_store(path: Path) -> Path:
    """8,192 records of two columns in 16 chunks."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (8192, 2))
    y = np.clip(X @ [0.5, -0.3] + 0.1 * random.standard_normal(8192), -1, 1)
    declaration = Declaration(["a", "b"], [(-1, 1), (-1, 1)], [], "y", (-1, 1))
    return write_store(path, [(X, y)], declaration, 8192, chunk_rows=512)


class Scenario:
    """One run folder, its ledger and its job file.

    Parameters
    ----------
    cluster : OneMachineSlurm
    folder : Path
        New.
    store : Path
    chunk_seconds : float
        How long a worker takes for a chunk of X.
    **changes
        Of the job file; a section is merged.
    """

    def __init__(
        self, cluster: OneMachineSlurm, folder: Path, store: Path, /, *, chunk_seconds: float = 0.0, **changes: Any
    ) -> None:
        folder.mkdir()
        self.slurm, self.run_dir, self.file = cluster, folder / "run", folder / "job.toml"
        self.ledger = Ledger.create(folder / "budget.db", epsilon=3 * BUDGET[0], delta=3 * BUDGET[1])
        preload = json.dumps([str(Path(__file__).with_name("slow_chunks.py"))]) if chunk_seconds else "[]"
        own = {
            **dict.fromkeys(_ONE_THREAD, "1"), "FASTDP_TEST_CHUNK_SECONDS": str(chunk_seconds),
            "DASK_DISTRIBUTED__WORKER__PRELOAD": preload, "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1s",
        }  # fmt: skip
        self.environment = {**os.environ, **own}
        job: dict[str, Any] = {
            **FIT, "data": str(store), "run_dir": str(self.run_dir), "ledger": str(folder / "budget.db"),
            "persist": False, "walltime": "5m", "notice": "60s", "seeds": SEEDS, "driver": {"memory": "700MiB"},
            "workers": {"count": 2, "memory": "700MiB", "wait": "60s", "lost": "60s"},
            "slurm": {"partition": "debug", "interface": "lo", "environment": list(_HANDED_ON)},
        }  # fmt: skip
        for name, value in changes.items():
            job[name] = {**job[name], **value} if isinstance(value, dict) else value
        self.file.write_text(_toml(job))

    def command(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run `fastdp` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "fastdp_dask.commands", *map(str, words)], capture_output=True, text=True,
            timeout=60, check=False, env=self.environment,
        )  # fmt: skip

    def submit(self) -> str:
        """Submit the job; its number."""
        done = self.command("submit", "slurm", self.file)
        assert done.returncode == 0, done.stderr
        return str(self.journal("submit")[-1]["identifier"])

    def submit_script(self) -> str:
        """Submit the script of the run folder once more, past every check of `fastdp submit`."""
        script = self.run_dir / "job" / "driver.sh"
        done = subprocess.run(
            ["sbatch", "--parsable", str(script)], capture_output=True, text=True, timeout=30, check=True,
            env={**os.environ, **{name: self.environment[name] for name in _HANDED_ON}},
        )  # fmt: skip
        return done.stdout.strip()

    def journal(self, *events: str) -> list[dict[str, Any]]:
        """Lines of the job's journal."""
        return [entry for entry in JobFolder(self.run_dir).journal() if not events or entry["event"] in events]

    def releases(self) -> list[tuple[str, str]]:
        """Names and bits of what was released, in order."""
        return released(self.run_dir)

    def passes(self) -> int:
        """How many passes were begun."""
        return len(self.journal("pass"))

    def until(self, true: Callable[[], Any], seconds: float = 120.0) -> None:
        """Wait for something, and show the log if it does not come."""
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s; {self.slurm.jobs()}; {self.log()[-3000:]}")
            time.sleep(0.1)

    def end(self, number: str, seconds: float = 150.0) -> dict[str, str]:
        """Wait until a job is neither waiting nor running; what Slurm says about it."""
        self.until(lambda: number not in self.slurm.jobs(), seconds)
        return self.slurm.facts(number)

    def worker_jobs(self) -> list[str]:
        """Numbers of this scenario's running worker jobs, by the log that each writes."""
        mine = {path.stem.rsplit("-", 1)[1] for path in (self.run_dir / "job" / "logs").glob("*worker-*.err")}
        return sorted(
            number for number, (_, state) in self.slurm.jobs().items() if number in mine and state == "RUNNING"
        )

    def log(self) -> str:
        """Everything the driver said."""
        logs = sorted((self.run_dir / "job" / "logs").glob("driver-*.log"))
        return "\n".join(path.read_text() for path in logs)

    def paid_once(self) -> bool:
        """Whether the ledger holds one charge, of the whole fit."""
        charges = self.ledger.charges()
        return len(charges) == 1 and self.ledger.spent() == BUDGET


def released(run_dir: Path) -> list[tuple[str, str]]:
    """Names and bits of the releases of a run folder."""
    path = run_dir / "releases.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [(each["name"], each["hex"]) for line in lines for each in json.loads(line)["releases"]]


def coefficients(run_dir: Path) -> list[float]:
    """The model of a run folder."""
    model = json.loads((run_dir / "model.json").read_text())
    return [*model["coef"], model["intercept"]]


def _toml(table: dict[str, Any]) -> str:
    plain = [f"{name} = {json.dumps(value)}" for name, value in table.items() if not isinstance(value, dict)]
    for section, content in table.items():
        if isinstance(content, dict):
            plain += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in content.items())]
    return "\n".join(plain) + "\n"
