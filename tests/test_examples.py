"""The examples run, in their quick form, and write what they say."""

from __future__ import annotations

import csv
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str | Path) -> str:
    """Standard output of an example run as a user would run it, any warning an error."""
    command = [sys.executable, "-W", "error::RuntimeWarning", str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def table(path: Path) -> dict[tuple[str, str, float], float | None]:
    with path.open(newline="") as stream:
        return {
            (line["set"], line["variant"], float(line["epsilon"])): float(line["median_excess_risk"])
            if line["median_excess_risk"]
            else None
            for line in csv.DictReader(stream)
        }


def check(found: dict[tuple[str, str, float], float | None]) -> None:
    """Every variant at every epsilon, finite; only the leverage route may not exist at a size."""
    assert len(found) == len({k[0] for k in found}) * len({k[1] for k in found}) * len({k[2] for k in found})
    for (_, variant, _), risk in found.items():
        assert variant == "fastihm, coherence=leverage" if risk is None else math.isfinite(risk) and risk >= 0


@pytest.mark.slow
def test_quick_ablation_of_the_generators_writes_table_and_picture(tmp_path: Path) -> None:
    run("ablation.py", "--quick", "--out", tmp_path)
    found = table(tmp_path / "ablation.csv")
    check(found)
    assert {name for name, _, _ in found} == {"sphere", "correlated"}
    text = (tmp_path / "ablation.md").read_text()
    for _, variant, _ in found:
        assert f"| {variant} |" in text
    assert (tmp_path / "ablation.png").read_bytes().startswith(b"\x89PNG")


def test_quick_ablation_reads_a_csv_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 9, (600, 2))
    lines = [["a", "kind", "b", "target"]]
    lines += [[f"{a:.6f}", "x", f"{b:.6f}", f"{a - 2 * b:.6f}"] for a, b in X]
    lines[5][0] = ""
    with (tmp_path / "shop.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(lines)
    run("ablation.py", "--quick", "--csv", tmp_path / "shop.csv", "--out", tmp_path)
    found = table(tmp_path / "ablation.csv")
    check(found)
    assert {name for name, _, _ in found} == {"shop"}
    # At epsilon = 10 an exact linear relation is found to a few per cent of the target's spread (about 0.1 squared).
    best = found["shop", "ihm (Gram, no SRHT), everything on", 10.0]
    assert best is not None
    assert best < 0.01


def test_quick_comparison_prints_every_ratio() -> None:
    text = run("accuracy.py", "--quick")
    # For two sets: two draws, their mean and the worst.
    for name in ("fastihm / paper FastIHM", "ihm / paper IHM", "ihm / better of IHM, AdaSSP"):
        assert len(re.findall(rf"{name} = \d+\.\d+", text)) == 2 * 4
    assert text.count("geometric mean of ihm / better of IHM and AdaSSP") == 2
    # Even at this size, where one epsilon and three runs say little, the papers' FastIHM is far behind.
    assert all(float(value) < 0.5 for value in re.findall(r"paper FastIHM = (\d+\.\d+)", text))


def test_the_committed_table_is_of_the_full_size() -> None:
    found = table(EXAMPLES / "results" / "ablation.csv")
    check(found)
    assert {epsilon for _, _, epsilon in found} == {0.3, 1.0, 3.0, 10.0}
    everything = {k: v for k, v in found.items() if k[1] == "fastihm, everything on"}
    for (name, _, epsilon), risk in everything.items():
        paper = found[name, "fastihm, paper preset", epsilon]
        assert risk is not None
        assert paper is not None
        assert risk < 0.5 * paper
