"""Runs that take turns, so that a change of the machine's load meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

Runs = dict[str, Callable[[], Any]]


def in_turns(runs: Runs, repeats: int) -> dict[str, dict[str, float]]:
    """Median seconds by the clock, and processor seconds of this process, of each run, after one that compiles."""
    wall: dict[str, list[float]] = {name: [] for name in runs}
    busy: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        for name, run in runs.items():
            start, used = time.perf_counter(), time.process_time()
            kept = run()  # freed after the clocks have stopped
            seconds, work = time.perf_counter() - start, time.process_time() - used
            del kept
            if number:
                wall[name].append(seconds)
                busy[name].append(work)
    return {
        "seconds": {name: statistics.median(values) for name, values in wall.items()},
        "processor_seconds": {name: statistics.median(values) for name, values in busy.items()},
    }


def table(
    title: str, facts: dict[str, Any], runs: Runs, repeats: int, unit: str = "sum", bars: dict[str, float] | None = None
) -> dict[str, Any]:
    """Measure, print one line for each run, and return what is to be written."""
    measured = in_turns(runs, repeats)
    ratios = {
        kind: {name: value / values[unit] for name, value in values.items()} for kind, values in measured.items()
    }
    print(f"\n{title}: " + ", ".join(f"{name} = {value:,}" for name, value in facts.items()))
    for name, value in measured["seconds"].items():
        bar = f"  (bar {bars[name]})" if bars and name in bars else ""
        by_work = ratios["processor_seconds"][name]
        ratio = ratios["seconds"][name]
        print(f"{name:>18} {value:9.4f} s {ratio:8.2f} x {unit} ({by_work:.2f} by work){bar}", flush=True)
    return {
        "title": title, "facts": facts, "unit": unit, **measured, "ratios": ratios["seconds"],
        "work_ratios": ratios["processor_seconds"], "bars": bars or {},
    }  # fmt: skip
