"""What lies in cluster/ is what the commands make of it, to the last letter."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from job_cases import PYTHON
from typer.main import get_command

from fastdp_dask.commands.app import app, main
from fastdp_dask.jobs import read_job
from fastdp_dask.jobs.render import rendered

FOLDER = Path(__file__).parents[2] / "cluster"
FILES = sorted(path.relative_to(FOLDER) for path in FOLDER.glob("*/*.toml"))
WORDS = (FOLDER / "README.md").read_text()


def test_every_queue_has_examples() -> None:
    assert {path.parts[0] for path in FILES} == {"slurm", "pbs", "kubernetes"}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_rendered_file_lies_beside_its_job_file(path: Path) -> None:
    kind = path.parts[0]
    made = (FOLDER / path).with_suffix(".yaml" if kind == "kubernetes" else ".sh")
    assert made.read_text() == rendered(read_job(FOLDER / path, kind), kind, PYTHON)
    assert f"fastdp submit {kind} {path.name}" in (FOLDER / path).read_text().splitlines()[0]
    assert path.as_posix() in WORDS


def test_a_dry_run_prints_that_file(capsys: pytest.CaptureFixture[str]) -> None:
    job = FOLDER / "slurm" / "workers-as-jobs.toml"
    assert main(["submit", "slurm", str(job), "--dry-run", "--python", PYTHON]) == 0
    assert capsys.readouterr().out == job.with_suffix(".sh").read_text()


def commands(text: str) -> list[list[str]]:
    """Every `fastdp ...` in a text, up to a pipe, a redirection or a comment."""
    found = re.findall(r"^(?:#\s+)?(?:.*\s)?(fastdp [a-z-]+ [^|>&`\n#]*)", text, re.MULTILINE)
    return [shlex.split(words)[1:] for words in found]


@pytest.mark.parametrize("path", ["crontab", "README.md", *map(str, FILES)])
def test_the_commands_in_the_examples_are_commands(path: str) -> None:
    """Parsed, not run: every option exists and has a value of its kind."""
    found = commands((FOLDER / path).read_text())
    assert found
    group = get_command(app)
    for words in found:
        command = group.get_command(group.make_context("fastdp", [], resilient_parsing=True), words[0])
        assert command is not None, words
        command.make_context(words[0], list(words[1:]))
