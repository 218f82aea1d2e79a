"""Jobs on a real Slurm: whatever is cancelled, killed or out of time, one charge and the numbers of a quiet run."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from one_machine import PROGRAMS, OneMachineSlurm
from programs import needs
from scenario import BUDGET, FIT, PASSES, SEEDS, Scenario, coefficients, make_store, released

from fastdp_dask.jobs import read_job
from fastdp_dask.jobs.model import Slurm
from fastdp_dask.jobs.render import rendered
from fastdp_dask.jobs.status import status

pytestmark = [pytest.mark.site, pytest.mark.timeout(400)]


@dataclass(frozen=True)
class Site:
    """The cluster of this module, a store, and what a fit without any cluster releases."""

    slurm: OneMachineSlurm
    folder: Path
    store: Path
    releases: list[tuple[str, str]]
    model: list[float]
    out_of_time: Scenario
    out_of_time_job: str

    def scenario(self, name: str, **options: Any) -> Scenario:
        return Scenario(self.slurm, self.folder / name, self.store, **options)

    def assert_as_undisturbed(self, scenario: Scenario) -> None:
        assert scenario.releases() == self.releases
        assert coefficients(scenario.run_dir) == self.model
        assert scenario.paid_once()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    needs(*PROGRAMS)
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as root,
        tempfile.TemporaryDirectory(prefix="jobs") as work,
        OneMachineSlurm(Path(root) / "s").running() as slurm,
    ):
        folder = Path(work)
        store = make_store(folder / "data.zarr")
        # Slurm keeps time in half minutes and signals up to a minute early: after 30 to 90 s of these two minutes.  A
        # hundred seconds of passes cannot end before; this longest scenario runs beside the others.
        late = Scenario(slurm, folder / "late", store, chunk_seconds=1.2, walltime="2m", notice="30s")
        number = late.submit()
        options = {**FIT, **SEEDS, "out": folder / "local"}
        words = [str(word) for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        local = late.command("fit", store, *words)
        assert local.returncode == 0, local.stderr
        yield Site(slurm, folder, store, released(folder / "local"), coefficients(folder / "local"), late, number)


def test_a_job_starts_its_workers_and_equals_a_local_fit(site: Site) -> None:
    dump = site.folder / "environment.txt"
    job = site.scenario("plain", slurm={"prologue": [f"env >> {dump}"]})
    # What a shell inside of another allocation holds; any of it would hold back or shrink this job.
    job.environment |= {
        "SECRET_TOKEN": "hunter2", "SBATCH_PARTITION": "nowhere", "SBATCH_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "1",
        "SLURM_JOB_ID": "999", "SLURM_NTASKS": "64",
    }  # fmt: skip
    facts = job.end(job.submit())
    assert facts["JobState"] == "COMPLETED", job.log()
    site.assert_as_undisturbed(job)
    assert "private against whoever knows the seed" in job.log()
    assert [entry["code"] for entry in job.journal("end")] == [0]
    assert job.slurm.jobs().keys() <= {site.out_of_time_job} | set(site.out_of_time.worker_jobs())
    held = [path for path in job.run_dir.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (job.run_dir, job.run_dir / "job")} == {0o700}
    for path in (*held, dump):
        assert b"hunter2" not in path.read_bytes(), path
    assert "distributed.nanny" in "".join(path.read_text() for path in held if path.suffix == ".err")
    assert not [path for path in held if ".worker.key" in path.name]  # keys of that run are gone with it

    again = job.end(job.submit_script())
    assert again["JobState"] == "COMPLETED"
    assert len(job.journal("begin")) == 2
    assert job.passes() == PASSES  # none of them by the second
    site.assert_as_undisturbed(job)


def test_cancelled_workers_are_replaced(site: Site) -> None:
    job = site.scenario("cancelled-workers", chunk_seconds=0.15)
    number = job.submit()
    job.until(lambda: job.passes() >= 2 and job.worker_jobs())
    first = job.worker_jobs()
    site.slurm.ask("scancel", first[0])
    job.until(lambda: job.passes() >= 3)
    site.slurm.ask("scancel", *first)
    assert job.end(number)["JobState"] == "COMPLETED", job.log()
    site.assert_as_undisturbed(job)
    assert len(list((job.run_dir / "job" / "logs").glob("*worker-*.err"))) > 2


def test_a_killed_driver_is_started_again_and_draws_nothing_twice(site: Site) -> None:
    job = site.scenario("killed-driver", chunk_seconds=0.15)
    number = job.submit()
    job.until(lambda: job.passes() >= 3)
    before = job.releases()
    assert len(before) >= 2
    os.kill(job.journal("begin")[-1]["pid"], signal.SIGKILL)
    assert job.end(number)["JobState"] == "COMPLETED", job.log()
    assert [entry["restarts"] for entry in job.journal("begin")] == ["0", "1"]
    assert job.releases()[: len(before)] == before
    site.assert_as_undisturbed(job)


def test_two_copies_at_once_make_one_result(site: Site) -> None:
    job = site.scenario("two-copies", chunk_seconds=0.1)
    numbers = [job.submit(), job.submit_script()]
    assert [job.end(number)["JobState"] for number in numbers] == ["COMPLETED"] * 2, job.log()
    assert [entry["event"] for entry in job.journal("begin", "end")] == ["begin", "end"] * 2  # one after the other
    assert job.passes() == PASSES
    site.assert_as_undisturbed(job)


def test_a_cancelled_job_stays_cancelled_and_says_where_it_stands(site: Site) -> None:
    job = site.scenario("cancelled", chunk_seconds=0.15)
    number = job.submit()
    refused = job.command("submit", "slurm", job.file)
    assert refused.returncode == 1
    assert f"whose job {number} is " in refused.stderr
    job.until(lambda: released(job.run_dir))
    found = status(job.run_dir)
    site.slurm.ask("scancel", number)
    assert (found.state, found.charge, found.identifier) == ("running", BUDGET, number)
    assert job.end(number)["JobState"] == "CANCELLED"
    job.until(lambda: job.journal("end"))
    assert [entry["code"] for entry in job.journal("end")] == [75]
    assert '"state": "checkpointed"' in job.command("jobs", job.run_dir, "--json").stdout
    assert job.end(job.submit())["JobState"] == "COMPLETED", job.log()
    assert status(job.run_dir).state == "done"
    site.assert_as_undisturbed(job)


def test_one_allocation_of_scheduler_driver_and_workers(site: Site) -> None:
    job = site.scenario("allocation", slurm={"one_allocation": True}, workers={"memory": "700MiB", "count": 2})
    assert job.end(job.submit())["JobState"] == "COMPLETED", job.log()
    site.assert_as_undisturbed(job)
    assert not list((job.run_dir / "job").glob("keys-*"))
    assert "Scheduler at:" in job.log()
    assert "tls://" in job.log()
    assert "tcp://" not in job.log()


def test_slurm_takes_the_rendered_scripts(site: Site) -> None:
    job = site.scenario("dry", slurm={"directives": ["--mem-per-cpu=900M"]})
    printed = job.command("submit", "slurm", job.file, "--dry-run")
    assert printed.returncode == 0
    assert not job.run_dir.exists()
    texts = [printed.stdout]
    for directives in ([], ["--mem=2G"], ["--mem-per-cpu=900M"]):
        for one_allocation in (False, True):
            slurm = Slurm(directives=directives, one_allocation=one_allocation)
            texts.append(rendered(read_job(job.file).model_copy(update={"slurm": slurm}), "slurm", sys.executable))
    for text in texts:
        taken = subprocess.run(["sbatch", "--test-only"], input=text, capture_output=True, text=True, timeout=30)
        assert taken.returncode == 0, (taken.stderr, text)


def test_without_workers_the_job_fails_within_its_bound(site: Site) -> None:
    with site.slurm.drained("n2"):  # no node is left on which they would fit beside this driver
        job = site.scenario("no-workers", workers={"memory": "15000MiB", "wait": "5s"})
        facts = job.end(job.submit())
    assert (facts["JobState"], facts["ExitCode"]) == ("FAILED", "1:0"), job.log()
    script, logs = job.run_dir / "job" / "worker.sh", job.run_dir / "job" / "logs"
    assert f"no worker has joined after 5 s: expected 2 from slurm. Script: {script}. Logs: {logs}." in job.log()
    assert script.is_file()
    assert not job.ledger.charges()
    assert status(job.run_dir).state == "failed"


def test_a_job_whose_workers_are_all_gone_ends_and_is_queued_again(site: Site) -> None:
    job = site.scenario("no-workers-left", chunk_seconds=0.15, workers={"lost": "3s"})
    number = job.submit()
    job.until(lambda: job.passes() >= 2 and job.worker_jobs())
    with site.slurm.drained("n1", "n2"):
        site.slurm.ask("scancel", *job.worker_jobs())
        job.until(lambda: job.journal("end"))
    assert job.journal("end")[0]["code"] == 75
    assert "has had no worker for 3 s" in job.log()
    assert job.end(number)["JobState"] == "COMPLETED", job.log()
    site.assert_as_undisturbed(job)


def test_a_job_out_of_time_goes_on_in_the_next(site: Site) -> None:
    job = site.out_of_time
    assert job.end(site.out_of_time_job, 300)["JobState"] == "COMPLETED", job.log()
    codes = [entry["code"] for entry in job.journal("end")]
    assert codes[-1] == 0
    assert len(codes) >= 2
    assert set(codes[:-1]) == {75}
    assert [entry["restarts"] for entry in job.journal("begin")] == [str(run) for run in range(len(codes))]
    site.assert_as_undisturbed(job)


def test_a_lost_node_leaves_one_result(site: Site) -> None:
    """The node's daemon dies, its processes live on: the queue starts a second driver beside the first."""
    job = site.scenario("lost-node", chunk_seconds=0.45)
    number = job.submit()
    job.until(lambda: job.passes() >= 2)
    lost = site.slurm.facts(number)["NodeList"]
    site.slurm.kill_node(lost)
    try:
        job.until(lambda: len(job.journal("begin")) == 2, 200)
        assert job.end(number)["JobState"] == "COMPLETED", job.log()
    finally:
        site.slurm.start_node(lost)  # ends what it was running
    assert [entry["restarts"] for entry in job.journal("begin")] == ["0", "1"]
    site.assert_as_undisturbed(job)
