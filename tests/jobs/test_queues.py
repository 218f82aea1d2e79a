"""What the commands of a batch system are asked, and what their answers mean; played by small scripts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from job_cases import job

from fastdp_dask.errors import FastDPError
from fastdp_dask.jobs.environment import handed_on, without_job
from fastdp_dask.jobs.queues import QUEUES

DIRTY = {
    "PATH": "/bin", "HOME": "/home/x", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "hunter2", "SLURM_CONF": "/etc/s",
    "SLURM_JOB_ID": "1", "SLURM_MEM_PER_NODE": "9", "SBATCH_PARTITION": "p", "PBS_ACCOUNT": "a", "PBS_SERVER": "s",
    "SRUN_DEBUG": "3", "OMP_NUM_THREADS": "2",
}  # fmt: skip


class Tools:
    """A folder at the front of the PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str, said: str = "", error: str = "", code: int = 0) -> None:
        """A command that notes its words and environment and answers so."""
        lines = [
            "#!/bin/bash", f'printf "%s\\n" "$@" > {self.folder}/{name}.words', f"env > {self.folder}/{name}.env",
            f"cat <<'END'\n{said}\nEND", f"cat >&2 <<'END'\n{error}\nEND", f"exit {code}",
        ]  # fmt: skip
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o755)

    def words(self, name: str) -> list[str]:
        return (self.folder / f"{name}.words").read_text().split("\n")[:-1]

    def environment(self, name: str) -> str:
        return (self.folder / f"{name}.env").read_text()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Tools(tmp_path)


def test_few_variables_are_handed_on() -> None:
    kept = {"PATH", "HOME", "LC_ALL", "SLURM_CONF", "PBS_SERVER"}
    assert handed_on(DIRTY).keys() == kept
    assert handed_on(DIRTY, ["OMP_NUM_THREADS", "NOT_THERE"]).keys() == kept | {"OMP_NUM_THREADS"}


def test_a_job_forgets_the_allocation_it_runs_in() -> None:
    gone = {"SLURM_JOB_ID", "SLURM_MEM_PER_NODE", "SBATCH_PARTITION", "PBS_ACCOUNT", "SRUN_DEBUG"}
    assert without_job(DIRTY).keys() == DIRTY.keys() - gone


def test_sbatch(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in DIRTY.items():
        if name != "PATH":
            monkeypatch.setenv(name, value)
    tools.make("sbatch", "sbatch: a remark of the site\n12;cluster")
    asked = job(slurm={"environment": ["OMP_NUM_THREADS"]})
    assert QUEUES["slurm"].submit(asked, "/run/driver.sh") == "12"
    assert tools.words("sbatch") == ["--parsable", "/run/driver.sh"]
    seen = tools.environment("sbatch")
    assert "OMP_NUM_THREADS=2" in seen
    for name in ("SBATCH_PARTITION", "SLURM_JOB_ID", "hunter2"):
        assert name not in seen


def test_qsub(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "1")
    tools.make("qsub", "7.server")
    assert QUEUES["pbs"].submit(job(pbs={"environment": ["HERE", "NOT_HERE"]}), "/run/driver.sh") == "7.server"
    assert tools.words("qsub") == ["-v", "HERE", "/run/driver.sh"]


def test_kubectl(tools: Tools) -> None:
    tools.make("kubectl")
    assert QUEUES["kubernetes"].submit(job(), "/tmp/job.yaml") == "/fastdp"
    assert tools.words("kubectl") == ["apply", "--filename", "/tmp/job.yaml"]


@pytest.mark.parametrize(("kind", "name"), [("slurm", "sbatch"), ("pbs", "qsub"), ("kubernetes", "kubectl")])
def test_a_refusal_says_why_and_a_missing_command_what_to_do(tools: Tools, kind: str, name: str) -> None:
    if not Path(f"/usr/bin/{name}").exists():
        with pytest.raises(FastDPError, match=f"{name} must be on the PATH to submit, got none.*--dry-run"):
            QUEUES[kind].submit(job(), "x")
    tools.make(name, error="error: invalid partition specified: lond", code=1)
    with pytest.raises(FastDPError, match=rf"{name} refuses the job \(error: invalid partition specified: lond\)"):
        QUEUES[kind].submit(job(), "x")


@pytest.mark.parametrize(
    ("kind", "name", "said", "error", "code", "state"),
    [
        ("slurm", "squeue", "PENDING", "", 0, "queued"),
        ("slurm", "squeue", "RUNNING", "", 0, "running"),
        ("slurm", "squeue", "COMPLETING", "", 0, "running"),
        ("slurm", "squeue", "REQUEUED", "", 0, "queued"),
        ("slurm", "squeue", "TIMEOUT", "", 0, "ended"),
        ("slurm", "squeue", "", "slurm_load_jobs error: Invalid job id specified", 1, "ended"),
        ("slurm", "squeue", "", "Unable to contact slurm controller", 1, None),
        ("pbs", "qstat", "Job Id: 7\n    job_state = Q", "", 0, "queued"),
        ("pbs", "qstat", "Job Id: 7\n    job_state = R", "", 0, "running"),
        ("pbs", "qstat", "", "qstat: Unknown Job Id 7", 153, "ended"),
        ("pbs", "qstat", "", "qstat: 7 Job has finished, use -x", 35, "ended"),
        ("pbs", "qstat", "", "Connection refused", 1, None),
        ("kubernetes", "kubectl", {"active": 1, "ready": 1}, "", 0, "running"),
        ("kubernetes", "kubectl", {"active": 1, "ready": 0}, "", 0, "queued"),
        ("kubernetes", "kubectl", {}, "", 0, "queued"),
        ("kubernetes", "kubectl", {"failed": 1}, "", 0, "queued"),
        ("kubernetes", "kubectl", {"conditions": [{"type": "Failed"}]}, "", 0, "ended"),
        ("kubernetes", "kubectl", {"conditions": [{"type": "Complete"}]}, "", 0, "ended"),
        ("kubernetes", "kubectl", "", 'Error from server (NotFound): jobs "fastdp" not found', 1, "ended"),
        ("kubernetes", "kubectl", "", "Unable to connect to the server", 1, None),
    ],
)
def test_where_a_job_stands(
    tools: Tools, kind: str, name: str, said: Any, error: str, code: int, state: str | None
) -> None:
    tools.make(name, json.dumps({"status": said}) if isinstance(said, dict) else said, error, code)
    assert QUEUES[kind].state("lab/fastdp" if kind == "kubernetes" else "7") == state


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert [QUEUES[kind].state("7") for kind in QUEUES] == [None, None, None]
