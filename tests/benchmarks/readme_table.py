"""The README's figures of speed, from what was measured.

    python tests/benchmarks/readme_table.py [RESULTS.json]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "speed.json"
README = HERE.parent.parent / "README.md"
FIRST, LAST = "<!-- speed: written by tests/benchmarks/readme_table.py -->\n", "<!-- end of speed -->\n"
NAMES = {
    "from_zarr sum": "the same sum of `dask.array.from_zarr`",
    "sketch": "pass: sketch and first gradient", "gradient": "pass: gradient", "gram": "pass: XᵀX and first gradient",
    "deviation": "pass: deviation of the sketch", "fit": "FastIHM, T = 3, from disk",
    "fit, persist": "FastIHM, T = 3, data held in memory", "gram solve": "not private: XᵀX and a solve",
    "lstsq": "not private: `da.linalg.lstsq`", "dask-ml": "not private: dask-ml, L-BFGS",
}  # fmt: skip


def section(document: dict[str, Any]) -> str:
    """The text between the marks."""
    results, machine = document["results"], document["machine"]
    facts = results["disk"][0]["facts"]
    lines = [
        f"{facts['n']:,} × {facts['d']} float32 on disk (LZ4, {facts['chunk_rows']:,} rows to a chunk, page cache), "
        f"k2 = {facts['k2']:,}, two threads; multiples of",
        f"`store.X.sum(axis=0).compute()` on the same store, medians of {document['repeats']}. The machine's load was "
        f"{machine['load']:.0f} on {machine['cores']} cores: processor work is the steadier",
        "column.",
        "",
        "| | time | processor work |",
        "|---|---|---|",
    ]
    for table in results["disk"]:
        for name, label in NAMES.items():
            if name in table["ratios"]:
                lines.append(f"| {label} | {table['ratios'][name]:.2f} | {table['work_ratios'][name]:.2f} |")
    if "out_of_core" in results:
        run = results["out_of_core"]
        lines += [
            "",
            f"{run['bytes'] / 1e9:.1f} GB in {run['passes']} passes on {run['workers']} workers of "
            f"{run['memory_limit'] / 1e6:.0f} MB each: {run['peak'] / 1e6:.0f} MB used at most, "
            f"{run['projected'] / 1e6:.0f} MB projected,",
            f"{run['spilled']} values spilled, {'some' if run['restarted'] else 'no'} worker restarted.",
        ]
    return "\n".join([*lines, "", "`python tests/benchmarks/run.py` measures all of this, and how it grows, anew.", ""])


def main(arguments: list[str]) -> None:
    document = json.loads(Path(arguments[0] if arguments else RESULTS).read_text())
    text = README.read_text()
    before, rest = text.split(FIRST)
    README.write_text(before + FIRST + section(document) + LAST + rest.split(LAST)[1])


if __name__ == "__main__":
    main(sys.argv[1:])
