"""The commands of Slurm, PBS and Kubernetes, asked with a time limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any, Protocol

from fastdp_dask.errors import FastDPError
from fastdp_dask.jobs.environment import handed_on
from fastdp_dask.jobs.model import Job

_SECONDS = 60.0
_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", *"QHWTS"}
_WORKING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", *"REB"}


class Queue(Protocol):
    """What a batch system is asked.  `state` is "queued", "running", "ended", or None if it cannot be reached."""

    def submit(self, job: Job, path: str) -> str: ...
    def check(self, path: str) -> None: ...
    def state(self, identifier: str) -> str | None: ...


class SlurmQueue:
    """sbatch and squeue."""

    def submit(self, job: Job, path: str) -> str:
        """Submit the script at `path`; the job's number."""
        names = () if job.slurm is None else job.slurm.environment
        said = _ask(["sbatch", "--parsable", path], handed_on(os.environ, names))
        return said.strip().splitlines()[-1].split(";")[0]

    def check(self, path: str) -> None:
        """Raise if Slurm would refuse the script at `path`."""
        _ask(["sbatch", "--test-only", path], dict(os.environ))

    def state(self, identifier: str) -> str | None:
        """Where this number stands."""
        words = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={identifier}"]
        said = _answer(words, "Invalid job id")
        return None if said is None else _stands(said)


class PbsQueue:
    """qsub and qstat."""

    def submit(self, job: Job, path: str) -> str:
        """Submit the script at `path`; the job's identifier."""
        names = () if job.pbs is None else job.pbs.environment
        present = [name for name in names if name in os.environ]
        words = ["qsub", *(["-v", ",".join(present)] if present else []), path]
        return _ask(words, handed_on(os.environ, names)).strip().splitlines()[-1]

    def check(self, path: str) -> None:
        """PBS has no such question."""

    def state(self, identifier: str) -> str | None:
        """Where this identifier stands."""
        said = _answer(["qstat", "-f", identifier], "Unknown Job", "has finished")
        if said is None:
            return None
        states = [line.split("=")[1].strip() for line in said.splitlines() if line.strip().startswith("job_state")]
        return _stands("\n".join(states))


class KubernetesQueue:
    """kubectl."""

    def submit(self, job: Job, path: str) -> str:
        """Apply the manifest at `path`; "namespace/name" of the job."""
        _ask(["kubectl", "apply", "--filename", path], dict(os.environ))
        namespace = job.kubernetes.namespace if job.kubernetes else None
        return f"{namespace or ''}/{job.name}"

    def check(self, path: str) -> None:
        """Raise if the server would refuse the manifest at `path`."""
        _ask(["kubectl", "apply", "--dry-run=server", "--filename", path], dict(os.environ))

    def state(self, identifier: str) -> str | None:
        """Where the Job of this name stands."""
        namespace, _, name = identifier.partition("/")
        place = ["--namespace", namespace] if namespace else []
        said = _answer(["kubectl", *place, "get", "job", name, "--output", "json"], "NotFound")
        if said is None:
            return None
        if not said:
            return "ended"
        try:
            status: dict[str, Any] = json.loads(said).get("status", {})
        except ValueError:
            return None
        if any(each["type"] in ("Complete", "Failed") for each in status.get("conditions", [])):
            return "ended"
        if status.get("active"):
            return "running" if status.get("ready") else "queued"
        return "queued"  # not begun, or waiting for another try


QUEUES: dict[str, Queue] = {"slurm": SlurmQueue(), "pbs": PbsQueue(), "kubernetes": KubernetesQueue()}


def _stands(said: str) -> str:
    states = {line.strip() for line in said.splitlines() if line.strip()}
    if states & _WORKING:
        return "running"
    return "queued" if states & _WAITING else "ended"


def _ask(words: list[str], environment: dict[str, str]) -> str:
    """The answer of a command that has to succeed."""
    if shutil.which(words[0]) is None:
        raise FastDPError(
            f"{words[0]} must be on the PATH to submit, got none. Run this where jobs are submitted from, or take "
            "--dry-run and submit what it prints."
        )
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FastDPError(f"{words[0]} must answer within {_SECONDS:g} s, got nothing. Try again later.") from None
    if done.returncode != 0:
        raise FastDPError(
            f"{words[0]} refuses the job ({' '.join(done.stderr.split())[:400]}). Correct the section of the job file."
        )
    return done.stdout


def _answer(words: list[str], *unknown: str) -> str | None:
    """The answer of a question; "" if the job is not known any more, None if nobody can be asked."""
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    if done.returncode == 0:
        return done.stdout
    return "" if any(text in done.stderr for text in unknown) else None
