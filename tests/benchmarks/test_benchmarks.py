"""The benchmarks run, and write every figure that they name."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import readme_table
import run


def numbers(value: Any) -> list[float]:
    """All numbers in a document."""
    if isinstance(value, dict):
        return [found for part in value.values() for found in numbers(part)]
    if isinstance(value, list):
        return [found for part in value for found in numbers(part)]
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.slow
@pytest.mark.cluster
def test_quick_mode_measures_every_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    run.main(["--quick", "--out", str(out)])
    results = json.loads(out.read_text())["results"]
    assert tuple(results) == run.PARTS
    passes, fits = results["disk"]
    assert set(passes["seconds"]) == {"sum", "from_zarr sum", "sketch", "deviation", "gradient", "gram"}
    assert {"sum", "fit", "fit, persist", "gram solve", "lstsq"} <= set(fits["seconds"])
    assert passes["ratios"]["sum"] == passes["work_ratios"]["sum"] == 1.0
    assert set(results["growth"][0]["exponents"]) == {*passes["seconds"], "fit"}
    assert results["workers"]["speedup"] > 0
    assert set(results["codecs"]["stored_bytes"]) == {"raw", "LZ4 + shuffle", "LZ4 + bit shuffle", "Zstandard"}
    assert all(math.isfinite(value) for value in numbers(results))
    assert "(bar 1.5)" in capsys.readouterr().out
    run.main(["--quick", "--out", str(out), "--only", "codecs"])
    assert json.loads(out.read_text())["results"]["disk"] == results["disk"]  # what was not measured stays


def test_the_readme_says_what_was_measured() -> None:
    document = json.loads(readme_table.RESULTS.read_text())
    written = readme_table.README.read_text().split(readme_table.FIRST)[1].split(readme_table.LAST)[0]
    assert written == readme_table.section(document)
    document["results"]["disk"][0]["ratios"]["gradient"] += 0.1
    assert written != readme_table.section(document)
