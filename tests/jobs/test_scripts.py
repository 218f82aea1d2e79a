"""The text of Slurm and PBS jobs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from dask_jobqueue.pbs import PBSJob
from dask_jobqueue.slurm import SLURMJob
from job_cases import PYTHON, job

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.render import rendered
from fastdp_dask.jobs.shell import files_of
from fastdp_dask.jobs.workers import cluster_options, dask_config


def directives(text: str, prefix: str = "#SBATCH ") -> list[str]:
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def worker_script(asked: Job, kind: str, folder: Path) -> str:
    """The script that dask-jobqueue makes of the options; it creates the folder of its logs."""
    options = {**cluster_options(asked, kind, PYTHON), "log_directory": str(folder / "logs")}
    options.pop("scheduler_options")
    return (SLURMJob if kind == "slurm" else PBSJob)("tls://10.0.0.1:8786", name="w", **options).job_script()


@pytest.mark.parametrize("asked", [job(), job(slurm={"one_allocation": True}), job(insecure=False)], ids=range(3))
def test_scripts_are_shell(asked: Job, tmp_path: Path) -> None:
    for kind in ("slurm", "pbs"):
        for text in (rendered(asked, kind, PYTHON), worker_script(asked, kind, tmp_path)):
            assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    if shutil.which("shellcheck"):
        text = rendered(asked, "slurm", PYTHON)
        done = subprocess.run(
            ["shellcheck", "-S", "error", "-"], input=text, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout


def test_every_field_of_a_slurm_job_arrives() -> None:
    slurm = {"partition": "long", "account": "lab", "directives": ["--constraint=avx"], "prologue": ["module load x"]}
    driver = {"cores": 2, "memory": "3GiB"}
    text = rendered(job(slurm=slurm, driver=driver, walltime="2h", notice="5m", max_restarts=7), "slurm", PYTHON)
    assert directives(text) == [
        "--job-name=fastdp", "--output=/checkpoint/run1/job/logs/driver-%j.log", "--open-mode=append",
        "--partition=long", "--account=lab", "--ntasks=1", "--cpus-per-task=2", "--mem=3072M", "--time=02:00:00",
        "--signal=B:USR1@300", "--requeue", "--constraint=avx",
    ]  # fmt: skip
    assert "\nmodule load x\n" in text
    assert f"{PYTHON} -m fastdp_dask.commands run-job /checkpoint/run1/job/job.json --on slurm &" in text
    assert 'scontrol requeue "$SLURM_JOB_ID"' in text
    assert "limit=7" in text


MEMORIES: list[dict[str, Any]] = [
    {}, {"skip_directives": ["--mem"]}, {"directives": ["--mem-per-cpu=2G"]}, {"directives": ["--mem-per-gpu=2G"]},
    {"directives": ["--mem=9G"]}, {"skip_directives": ["--mem"], "directives": ["--mem-per-cpu=2G"]},
]  # fmt: skip


@pytest.mark.parametrize("one_allocation", [False, True])
@pytest.mark.parametrize("memory", MEMORIES, ids=range(len(MEMORIES)))
def test_memory_is_asked_for_in_one_way(memory: dict[str, Any], one_allocation: bool, tmp_path: Path) -> None:
    asked = job(slurm={**memory, "one_allocation": one_allocation})
    for text in (rendered(asked, "slurm", PYTHON), worker_script(asked, "slurm", tmp_path)):
        kinds = [line.split("=")[0] for line in directives(text) if line.startswith("--mem")]
        if memory.get("directives"):
            assert kinds == [memory["directives"][0].split("=")[0]]
        elif memory.get("skip_directives"):
            assert "--mem" not in kinds
        else:
            assert len(kinds) == 1


def test_workers_of_slurm(tmp_path: Path) -> None:
    workers = {"count": 3, "cores": 4, "processes": 2, "memory": "8GiB", "scratch": "/local"}
    asked = job(workers=workers, slurm={"partition": "long", "interface": "ib0"}, walltime="1h")
    text = worker_script(asked, "slurm", tmp_path)
    for part in (
        "#SBATCH -p long", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=8G", "#SBATCH -t 01:00:00", "--no-requeue",
        "--nthreads 2", "--nworkers 2", "--memory-limit 4.00GiB", "--local-directory /local", "--interface ib0",
        "--lifetime 3300s --lifetime-stagger 240s", "--no-dashboard", "--death-timeout 60",
        "export DASK_CONFIG=/checkpoint/run1/job/dask.json",
    ):  # fmt: skip
        assert part in text, part


def test_one_allocation_has_a_task_for_each_worker_and_one_for_scheduler_and_driver() -> None:
    workers = {"count": 3, "cores": 4, "memory": "8GiB"}
    asked = job(workers=workers, slurm={"one_allocation": True, "interface": "ib0"}, insecure=False)
    text = rendered(asked, "slurm", PYTHON)
    assert {"--ntasks=4", "--cpus-per-task=4", "--mem-per-cpu=2048M"} <= set(directives(text))
    assert text.count("srun ") == 2
    assert text.count("--protocol tls") == 2
    assert "certificates" in text
    assert "certificates" not in rendered(job(slurm={"one_allocation": True}), "slurm", PYTHON)
    given = {"ca_file": "/tls/ca.pem", "cert": "/tls/cert.pem", "key": "/tls/key.pem"}
    text = rendered(job(slurm={"one_allocation": True}, tls=given), "slurm", PYTHON)
    assert "certificates" not in text
    assert "TLS__CA_FILE=/tls/ca.pem" in text


def test_a_job_without_workers_is_a_driver_alone() -> None:
    text = rendered(job(workers={"count": 0}, slurm={"one_allocation": True}), "slurm", PYTHON)
    assert "srun" not in text
    assert "--ntasks=1" in text


def test_every_field_of_a_pbs_job_arrives(tmp_path: Path) -> None:
    pbs = {"queue": "batch", "account": "lab", "directives": ["-l place=scatter"], "prologue": ["module load x"]}
    asked = job(pbs=pbs, walltime="2h", notice="5m")
    text = rendered(asked, "pbs", PYTHON)
    assert directives(text, "#PBS ") == [
        "-N fastdp", "-o /checkpoint/run1/job/logs/", "-j oe", "-q batch", "-A lab", "-l select=1:ncpus=1:mem=4096mb",
        "-l walltime=02:00:00", "-W umask=077", "-r y", "-l place=scatter",
    ]  # fmt: skip
    assert "(sleep 6900 && kill -USR1 $driver)" in text
    assert 'qsub -v "FASTDP_RESTARTS=$((restarts + 1))" /checkpoint/run1/job/driver.sh' in text
    worker = worker_script(asked, "pbs", tmp_path)
    for part in ("#PBS -q batch", "#PBS -r n", "#PBS -l place=scatter", "mem=4096MB", "#PBS -V", "--lifetime 6600s"):
        assert part in worker, part


def test_pbs_hands_named_variables_to_the_next_run(tmp_path: Path) -> None:
    text = rendered(job(run_dir=str(tmp_path), pbs={"environment": ["HERE", "NOT_HERE"]}), "pbs", "python")
    assert "qsub -v FASTDP_RESTARTS=1,HERE " in _bash(text, tmp_path, 75, 0, HERE="1")[1]


def test_pbs_selects_as_it_is_told() -> None:
    text = rendered(job(pbs={"directives": ["-l select=1:ncpus=1:mem=2gb:model=x"]}), "pbs", PYTHON)
    assert text.count("select=") == 1
    with pytest.raises(ArgumentError, match=r"pbs.directives: expected options of #PBS.*got '--constraint=x'"):
        rendered(job(pbs={"directives": ["--constraint=x"]}), "pbs", PYTHON)


@pytest.mark.parametrize("odd", ["/run 1", "/run%j", '/run"1', "/run'1", "/run$1", "/run;1"])
def test_a_path_that_a_script_cannot_hold(odd: str) -> None:
    tls = {"ca_file": "/tls/ca.pem", "cert": "/tls/cert.pem", "key": odd}
    for name, changes in {
        "run_dir": {"run_dir": odd}, "workers.scratch": {"workers": {"scratch": odd}}, "tls.key": {"tls": tls},
    }.items():  # fmt: skip
        with pytest.raises(ArgumentError, match=f"{name}: expected a path that a #SBATCH or #PBS line"):
            files_of(job(**changes))


def _bash(text: str, folder: Path, exit_code: int, restarts: int, **more: str) -> tuple[int, str]:
    """Run a rendered script with a driver that ends with `exit_code`, and tools that say how they were called."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, body in {
        "python": f"exit {exit_code}",
        "scontrol": 'echo "scontrol $*"',
        "qsub": 'echo "qsub $*"',
    }.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    variables = {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts), "FASTDP_RESTARTS": str(restarts)}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", **variables, **more}
    done = subprocess.run(
        ["bash"], input=text, text=True, capture_output=True, env=environment, check=False, timeout=20
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("kind", ["slurm", "pbs"])
@pytest.mark.parametrize(
    ("exit_code", "restarts", "again"),
    [
        (0, 0, False), (1, 0, False), (2, 0, False), (3, 0, False), (75, 0, True), (75, 4, True), (75, 5, False),
        (137, 0, True), (137, 3, False), (143, 0, False), (130, 0, False),
    ],
)  # fmt: skip
def test_what_is_put_back_into_the_queue(kind: str, exit_code: int, restarts: int, again: bool, tmp_path: Path) -> None:
    """75 always, a killed driver three times; an error, a full budget or a cancellation never."""
    text = rendered(job(run_dir=str(tmp_path), max_restarts=5), kind, "python")
    code, said = _bash(text, tmp_path, exit_code, restarts)
    assert code == exit_code
    called = "scontrol requeue 7" if kind == "slurm" else f"qsub -v FASTDP_RESTARTS={restarts + 1}"
    assert (called in said) == again


@pytest.mark.parametrize(
    ("memory", "processes", "kept"), [("4 GiB", 1, True), ("16 GiB", 4, True), ("6 GiB", 2, False)]
)
def test_roomy_workers_keep_the_memory_of_their_passes(memory: str, processes: int, kept: bool) -> None:
    """Of 4 GiB each or more; smaller ones give every chunk back to the system, as Dask has it."""
    config = json.loads(dask_config(job(workers={"memory": memory, "cores": processes, "processes": processes})))
    environment = config.get("distributed", {}).get("nanny", {}).get("pre-spawn-environ", {})
    assert (environment.get("MALLOC_TRIM_THRESHOLD_") == 2**28) is kept
    assert set(environment) == ({"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} if kept else set())
