"""The benchmark of the passes runs, and writes every figure that it names."""

from __future__ import annotations

import json
import math
from pathlib import Path

import bench_passes
import pytest


def test_quick_mode_measures_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench_passes.main([str(tmp_path / "out.json"), "--quick"])
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [result["title"] for result in results] == [
        "passes", "whole fit, T = 3", "in memory, T = 3",
        "growth in nothing", "growth in n", "growth in d", "growth in k2", "growth in chunk_rows",
    ]  # fmt: skip
    assert set(results[0]["seconds"]) == {"sum", *bench_passes.BARS, "gram"} - {"fit"}
    for result in results:
        assert result["ratios"][result["unit"]] == 1.0
        assert all(math.isfinite(value) and value > 0 for value in result["seconds"].values())
    assert "(bar 1.5)" in capsys.readouterr().out
