"""`fastdp audit`: table, file, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fastdp_dask.commands.app import main
from fastdp_dask.mechanisms import fast_mixing

ARGUMENTS = ["audit", "--mechanism", "mixing", "--mechanism", "gradient", "--runs", "5000", "--seed", "3"]


def test_table_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.json"
    assert main([*ARGUMENTS, "--epsilon", "1.5", "--delta", "1e-4", "--json", str(file)]) == 0
    captured = capsys.readouterr()
    assert "delta = 0.0001" in captured.out
    assert captured.out.count("within its claim") == 2
    assert [line.split(":")[1].strip() for line in captured.err.splitlines()] == ["mixing", "gradient"]
    records = json.loads(file.read_text())
    assert [record["mechanism"] for record in records] == ["mixing", "gradient"]
    for record in records:
        assert record["holds"] is True
        assert record["claim"] == pytest.approx(1.5, rel=1e-6)
        assert record["lower_bound"] == max(record["direct"], record["curve"]) < 1.5
        assert f"{record['lower_bound']:.3f}" in captured.out
        assert (record["runs"], record["delta"], record["confidence"]) == (5000, 1e-4, 1 - 1e-6)


def test_a_broken_claim_exits_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    genuine = fast_mixing.mixing

    def weak(Z: Any, added: float, *rest: Any) -> Any:
        return genuine(Z, added / 9, *rest)

    monkeypatch.setattr(fast_mixing, "mixing", weak)
    assert main([*ARGUMENTS, "--runs", "20000"]) == 1
    out = capsys.readouterr().out
    assert out.count("EXCEEDS ITS CLAIM") == 1
    assert out.count("within its claim") == 1  # the gradient is as it was


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--mechanism", "mixin"], "mechanism"), (["--runs", "0"], "runs"), (["--epsilon", "0"], "epsilon"),
     (["--delta", "1"], "delta"), (["--seed", "-1"], "seed")],
)  # fmt: skip
def test_wrong_arguments_are_named_before_anything_runs(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *arguments]) == 1
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith(f"fastdp: error: {named} must")
    assert captured.out == ""
