"""What the README shows is run as it stands: its Python blocks, its commands, its bounds file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fastdp_dask.commands.app import main

README = Path(__file__).parents[1] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def run(folder: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def salaries(path: Path, n: int = 5000) -> None:
    generator = np.random.default_rng(0)
    lines = ["age,region,salary"]
    for _ in range(n):
        age, region = generator.integers(18, 80), generator.choice(["north", "south", "east", "west"])
        lines.append(f"{age},{region},{20 + 0.8 * age + generator.normal(0, 5):.1f}")
    lines[17] = "33,,51.0"
    path.write_text("\n".join(lines) + "\n")


def test_the_two_commands_and_the_blocks_are_there() -> None:
    text = README.read_text()
    assert 'pip install -e ".[demo]" && fastdp demo' in text
    assert 'pip install -e ".[test]" && pytest' in text
    assert [len(blocks(language)) for language in ("python", "toml")] == [2, 1]


def test_the_first_model_fits(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(blocks("python")[0])
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", run(tmp_path, "first.py"))]
    assert numbers[0] == pytest.approx(0.25, abs=0.05)
    assert numbers[1] == pytest.approx(0.6, abs=0.05)


@pytest.mark.slow
@pytest.mark.cluster
def test_from_a_csv_to_a_model_and_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in this process, as each would take longer to start than to do its work."""
    monkeypatch.chdir(tmp_path)
    salaries(tmp_path / "salaries.csv")
    (tmp_path / "bounds.toml").write_text(blocks("toml")[0])
    commands = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("fastdp ")]
    assert [line.split()[1] for line in commands] == ["ingest", "plan", "ledger", "fit", "predict", "fit", "report"]
    for line in commands:
        assert main(line.split()[1:]) == 0, line
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == 5001
    (tmp_path / "cluster.py").write_text(blocks("python")[1])
    assert "[" in run(tmp_path, "cluster.py")
