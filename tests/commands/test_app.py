"""Help, version and what a wrong call gets."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from command_cases import run
from typer.testing import CliRunner

from fastdp_dask.commands.app import app, main


@pytest.mark.parametrize("name", ["demo", "ingest", "fit", "predict"])
def test_each_command_is_listed_and_has_help(name: str) -> None:
    listing = CliRunner().invoke(app, ["--help"])
    assert listing.exit_code == 0
    assert f" {name} " in listing.stdout
    own = CliRunner().invoke(app, [name, "--help"])
    assert own.exit_code == 0
    assert f"Usage: fastdp {name}" in own.stdout


def test_help_states_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "0 done; 1 error; 2 wrong usage; 3 budget refused, never retry; 75 checkpointed" in text


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fastdp {version('fastdp-dask')}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fit", "store", "--delta", "1e-6", "--out", "run"], "--epsilon"),
        (["fit", "store", "--epsilon", "much", "--delta", "1e-6", "--out", "run"], "--epsilon"),
        (["demo", "--epsilom", "1"], "--epsilom"),
        (["fitt"], "fitt"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("fastdp: error: ")
    assert named in line


def test_exit_codes_of_the_process() -> None:
    wrong = run("fit")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    failed = run("fit", "no-such-store", "--epsilon", "1", "--delta", "1e-6", "--out", "run")
    assert (failed.returncode, failed.stdout) == (1, "")
    (line,) = failed.stderr.splitlines()
    assert line.startswith("fastdp: error: store ")
    assert "does not exist" in line
