"""Job files: what is taken, and that every refusal names the field, the expected, what came and the next step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_cases import MINIMAL, job, written

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs import read_job
from fastdp_dask.jobs.fields import clock, seconds
from fastdp_dask.jobs.reading import parse_job

TEXT = """
data = "salaries.zarr"
epsilon = 1
delta = 1e-10
run_dir = "run1"
ledger = "budget.db"
walltime = "1h 30m"
[workers]
count = 4
memory = "8GiB"
scratch = "scratch"
[tls]
ca_file = "ca.pem"
cert = "cert.pem"
key = "key.pem"
[slurm]
partition = "normal"
"""


def test_a_job_file_and_its_places(tmp_path: Path) -> None:
    found = written(tmp_path, TEXT, "slurm")
    assert (found.epsilon, found.delta, found.walltime, found.workers.memory) == (1.0, 1e-10, 5400, 8 * 2**30)
    for place in (found.data, found.run_dir, found.ledger, found.workers.scratch, found.tls and found.tls.key):
        assert Path(str(place)).parent == tmp_path
    path = tmp_path / "again.json"
    path.write_text(found.model_dump_json(exclude_none=True, exclude_defaults=True))
    assert read_job(path, "slurm") == found


def test_urls_stay_as_they_are(tmp_path: Path) -> None:
    assert written(tmp_path, TEXT.replace("salaries.zarr", "s3://bucket/x.zarr")).data == "s3://bucket/x.zarr"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epsilon": 0}, "epsilon: expected greater than 0, got 0"),
        ({"epsilon": "1"}, "epsilon: expected a valid number, got '1'"),
        ({"epsilon": float("nan")}, "epsilon: expected a finite number, got nan"),
        ({"epsilon": float("inf")}, "epsilon: expected a finite number, got inf"),
        ({"delta": 1}, "delta: expected less than 1, got 1"),
        ({"delta": True}, "delta: expected a valid number, got True"),
        ({"solver": "ols"}, "solver: expected 'auto'"),
        ({"uncertainty": "yes"}, "uncertainty: expected a valid boolean, got 'yes'"),
        ({"allow_missing_chunks": 1}, "allow_missing_chunks: expected a valid boolean, got 1"),
        ({"walltime": "soon"}, 'walltime: expected a length of time such as "90m"'),
        ({"walltime": 60}, "notice: shorter than walltime"),
        ({"workers": {"memory": "8Gigs"}}, 'workers.memory: expected a size such as "8GiB", got \'8Gigs\''),
        ({"workers": {"memory": "1KiB"}}, "workers.memory: expected greater than or equal to 67108864"),
        ({"workers": {"cores": 0}}, "workers.cores: expected greater than or equal to 1, got 0"),
        ({"workers": {"count": -1}}, "workers.count: expected greater than or equal to 0, got -1"),
        ({"workers": {"cores": 2, "processes": 3}}, "workers.processes: at most workers.cores"),
        ({"workers": {"coers": 2}}, "workers.coers is not a field (did you mean cores?)"),
        ({"slurm": {"partition": "a; rm"}}, "slurm.partition: expected a word without spaces or quotes"),
        ({"slurm": {"directives": ["constraint"]}}, "slurm.directives.0: expected a directive without its prefix"),
        ({"slurm": {"directives": ["--x\n#SBATCH -y"]}}, "slurm.directives.0: expected one line of text"),
        ({"slurm": {"prologue": ["a\nb"]}}, "slurm.prologue.0: expected one line of text"),
        ({"slurm": {"environment": ["A=b"]}}, "slurm.environment.0: expected"),
        ({"slurm": {"directives": ["--mem=1G", "--mem-per-cpu=1G"]}}, "one of --mem, --mem-per-cpu and --mem-per-gpu"),
        ({"kubernetes": {"image": "x"}}, "kubernetes.claim is missing"),
        ({"kubernetes": {"image": "x", "claim": "A_b"}}, "kubernetes.claim: expected letters, digits and - only"),
        ({"seeds": {"public_seed": 1}}, "seeds.random_state is missing"),
        ({"walltme": "1h"}, "walltme is not a field (did you mean walltime?)"),
        ({"name": "Big Fit"}, "name: expected letters, digits and - only, got 'Big Fit'"),
    ],
)  # fmt: skip
def test_what_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        job(**changes)
    assert said in str(caught.value)
    assert str(caught.value).startswith("JOB.toml: ")
    assert str(caught.value).endswith("Correct the file and run again.")


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ArgumentError, match=r"epsilon.*delta.*coers"):
        job(epsilon=-1, delta=2, workers={"coers": 1})


@pytest.mark.parametrize("url", ["s3://key:hunter2@bucket/x", "https://host/x?token=hunter2"])
def test_a_secret_in_a_place_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ArgumentError, match="a job file holds no secret") as caught:
        job(data=url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("storage", [{"secret": "hunter2"}, {"client_kwargs": {"aws_access_key_id": "hunter2"}}])
def test_credentials_among_storage_settings_are_refused(storage: dict[str, Any]) -> None:
    assert job(storage={"endpoint_url": "http://x", "anon": True}).storage == {"endpoint_url": "http://x", "anon": True}
    with pytest.raises(ArgumentError, match="storage: expected settings without credentials") as caught:
        job(storage=storage)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("missing", ["data", "epsilon", "delta", "run_dir"])
def test_what_has_no_default(missing: str) -> None:
    with pytest.raises(ArgumentError, match=f"{missing} is missing"):
        parse_job({name: value for name, value in MINIMAL.items() if name != missing}, "JOB.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"cannot be read \(No such file"):
        read_job(tmp_path / "none.toml")
    with pytest.raises(ArgumentError, match=r"cannot be read.*Expected TOML"):
        written(tmp_path, "data = ")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ArgumentError, match="Correct the file"):
        read_job(tmp_path / "list.json")


def test_the_section_of_the_queue_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"a section \[pbs\] is expected to submit to pbs, got none"):
        written(tmp_path, TEXT, "pbs")


def test_places_in_a_container_are_absolute(tmp_path: Path) -> None:
    text = TEXT + '[kubernetes]\nimage = "x"\nclaim = "c"\n'
    with pytest.raises(ArgumentError, match="data: expected an absolute path inside the container"):
        written(tmp_path, text, "kubernetes")


@pytest.mark.parametrize("name", ["run_dir", "ledger"])
def test_locks_need_a_file_system(tmp_path: Path, name: str) -> None:
    old = {"run_dir": '"run1"', "ledger": '"budget.db"'}[name]
    with pytest.raises(ArgumentError, match="expected paths on a file system, got a URL"):
        written(tmp_path, TEXT.replace(old, '"s3://bucket/x"'))


def test_a_run_folder_inside_the_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="run_dir: expected a folder outside of data"):
        written(tmp_path, TEXT.replace('"run1"', '"salaries.zarr/run1"'))


@given(st.integers(1, 10**7))
def test_a_clock_is_read_back(length: int) -> None:
    assert seconds(clock(length)) == length


@pytest.mark.parametrize(
    ("text", "length"), [("90m", 5400), ("1h 30m", 5400), ("2-00:00:00", 172800), ("1d", 86400), ("45s", 45), (7, 7)]
)
def test_lengths_of_time(text: Any, length: int) -> None:
    assert seconds(text) == length


@given(st.integers(60, 10**6))
def test_workers_leave_before_their_time_limit(walltime: int) -> None:
    found = job(walltime=walltime, notice=min(120, walltime // 2))
    assert 0 < found.lifetime <= found.lifetime + found.stagger < walltime


def test_json_of_a_job_holds_what_was_set_and_no_more() -> None:
    text = job().model_dump_json(exclude_none=True, exclude_defaults=True)
    assert json.loads(text) == MINIMAL
