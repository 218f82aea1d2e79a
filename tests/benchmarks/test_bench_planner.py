"""The benchmark of the planner runs, and writes every figure that it names."""

from __future__ import annotations

import json
import math
from pathlib import Path

import bench_planner
import pytest


@pytest.mark.parametrize("table", ["speed", "grid"])
def test_quick_mode_measures_every_run(table: str, tmp_path: Path) -> None:
    bench_planner.main([table, str(tmp_path / "out.json"), "--quick", "--folder", str(tmp_path)])
    results = json.loads((tmp_path / "out.json").read_text())["results"]
    for result in results:
        if table == "speed":
            assert all(math.isfinite(result[name]) and result[name] > 0 for name in ("ratio", "cpu_ratio"))
            continue
        assert result["over"] >= 1.0
        assert result["picked"] in result["near"]
        assert set(result["near"]) <= set(result["cpu"]) == set(result["predicted_cpu"])
        assert len({name.split(",")[0] for name in result["cpu"]}) == 5


def test_sets_are_what_their_names_say() -> None:
    """Scaled rows have the energy that is said to be publicly known, within 1 %: 2,048 rows of 8 columns."""
    for title, X, y, scaling, known in bench_planner.data_sets(True, None):
        rows, target = scaling.rows(X, y)
        energy = float((rows.astype(float) ** 2).sum() / len(rows) / 2**32)
        assert abs(target).max() == pytest.approx(1.0)
        if title != "correlated":  # its longest row decides
            assert energy == pytest.approx(known.row_energy, rel=0.02)  # six standard errors for uniform entries
