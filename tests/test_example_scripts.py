"""The short examples and the notebook run as they stand, and what they print is what they are about.

In this process, one after another: starting an interpreter for each would take most of the time.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def output(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", [name, *(arguments or ["--quick"])])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda name, *arguments: output(name, capsys, monkeypatch, *arguments)


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def test_quickstart_pays_once_and_is_refused(shown: Any) -> None:
    text = shown("quickstart.py")
    assert numbers(text)[:2] == pytest.approx([0.25, 0.6], abs=0.05)
    assert "spent Amount(epsilon=1.0" in text
    assert "refused: ledger" in text


def test_out_of_core_tells_memory_and_error(shown: Any) -> None:
    text = shown("out_of_core.py")
    assert re.search(r"in 4 chunks, \d passes", text)
    assert numbers(text.splitlines()[-1])[0] < 0.1


def test_bounds_that_fit_are_best(shown: Any) -> None:
    lines = shown("bounds.py").splitlines()
    right, law, wide, tight = [numbers(line)[-1] for line in lines[1:5]]
    assert right < min(wide, tight)
    assert right == pytest.approx(law, rel=0.2)  # three times too wide costs little
    assert numbers(lines[5].partition("columns")[0])[0] < 0.8 * right  # pay rises with age at one site only
    assert "site=north*age" in lines[5]


def test_a_smaller_epsilon_is_predicted_to_cost_more(shown: Any) -> None:
    lines = [numbers(line) for line in shown("choose_epsilon.py", "20000", "4", "0.3", "2").splitlines()[2:]]
    assert [line[0] for line in lines] == [0.3, 2]
    assert lines[0][2] > 2 * lines[1][2]


def test_parquet_becomes_a_model(shown: Any) -> None:
    text = shown("parquet_to_model.py")
    assert numbers(text.splitlines()[0])[0] == pytest.approx(0.25, abs=0.05)
    assert "40,000 predictions in 2 chunks" in text


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_changes_no_bit(shown: Any) -> None:
    assert "the same to the last bit on threads, with other chunks: True" in shown("cluster.py")


def test_a_year_is_twelve_months_of_budget(shown: Any) -> None:
    text = shown("year_of_fits.py")
    assert "   12   " in text
    assert "   13   refused: ledger" in text
    total = float(re.findall(r"add up to epsilon ([\d.]+)", text)[0])
    assert total < 3


def test_the_guarantee_in_words(shown: Any) -> None:
    text = shown("explain_guarantee.py")
    assert "20,000 people's records" in text
    assert "at most 2.72 times" in text
    assert "50% likely may come to hold it for 73.1% likely" in text
    assert "age: -1 to 1" in text
    assert "The noise is secret" in text


def test_the_notebook_runs_and_holds_no_output() -> None:
    notebook = json.loads((EXAMPLES / "quickstart.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    scope: dict[str, Any] = {}
    for cell in cells:
        exec(compile("".join(cell["source"]), "quickstart.ipynb", "exec"), scope)
    assert scope["model"].coef_ == pytest.approx([0.25, 0.6], abs=0.05)
    assert scope["ledger"].remaining().epsilon == 1.0
