"""A driver that is killed between any two steps of a fit, and run again, ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# What must be among the steps, in this order: written down, read, paid, drawn, recorded, used.
PROTOCOL = [
    "after link run/.lock.*",
    "after replace run/plan.json.new",
    "before pass: (gram|sketch)",
    "before release (?P<paying>\\w+)",
    "before ledger INSERT",
    "before ledger COMMIT",
    "after ledger COMMIT",
    "before stream of noise for (?P=paying)",
    "before release (?P<written>\\w+)",
    "half of write run/releases.jsonl",
    "after fsync run/releases.jsonl",
    "after release (?P=written)",
    "before pass: gradient",
    "after release gradient_1",
    "before replace run/model.json.new",
    "after replace run/model.json.new",
    "before unlink run/.lock",
]


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "stride"), [("tight", 1), ("paper", 5)])
def test_a_kill_at_any_step_costs_nothing(preset: str, stride: int) -> None:
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": path}
    ran = subprocess.run(
        [sys.executable, str(HERE / "crash_driver.py"), preset, str(stride)],
        capture_output=True, text=True, timeout=280, check=False, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout)
    print(f"\n{preset}: killed at              equals undisturbed  charges  each release drawn once")
    for row in [*found["rows"], *found["twice"]]:
        label = row.get("label", "")
        print(f"{row['step']!s:>10} {label:45} {row['equal']!s:>6} {row['charges']:>8} {row['draws_once']!s:>8}")
    assert found["equal_without_folder"]
    if stride == 1:
        labels = "\n".join(row["label"] for row in found["rows"])
        pattern = "^" + "$.*^".join(step if "(" in step else re.escape(step) for step in PROTOCOL) + "$"
        assert re.search(pattern, labels, re.DOTALL | re.MULTILINE)
    assert len(found["rows"]) > 20
    for row in [*found["rows"], *found["twice"]]:
        assert (row["equal"], row["charges"], row["draws_once"], row["left"]) == (True, 1, True, []), row
