"""All measurements of speed and memory, in one command.

    python tests/benchmarks/run.py [--out RESULTS.json] [--quick] [--repeats N] [--only NAME …] [--memory]

Figures are medians of five runs that take turns; ratios are between runs of one table.  Data are written with
`write_store` (LZ4, 65,536 rows to a chunk), read from the page cache, computed on two threads.  On a machine that
others use, ratios `by work` (processor seconds) are the steadier ones.  `--quick` is a thousandth of the size: it
shows that every part works.  `--memory` adds a fit of 6 GB on two workers of 500 MB, which needs 6 GB of disk and some
minutes.
`python tests/benchmarks/readme_table.py RESULTS.json` puts the figures into the README.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_codecs
import bench_fwht
import bench_growth
import bench_passes
import dask
import numba
import numpy as np
import out_of_core

from fastdp_dask import PrivacyLeakWarning
from fastdp_dask.linalg import one_blas_thread

PARTS = ("kernel", "disk", "memory_fit", "growth", "workers", "codecs")


def measured(
    folder: Path, quick: bool, n: int, repeats: int, only: list[str], memory: bool
) -> dict[str, Any]:
    """The results of each part that was asked for, by its name."""
    n, d, k2, chunk_rows = (4096, 8, 256, 1024) if quick else (n, 64, 32_768, 65_536)
    in_memory = (2048, 8, 256) if quick else (131_072, 32, 4096)
    kernels = [((256, 9), "float64", None)] if quick else bench_fwht.CASES
    factors = {"n": (1, 4, 16), "d": (1, 2), "k2": (1, 4), "chunk_rows": (1, 4)}
    small = (n // 16, d // 2, k2 // 4, chunk_rows // 4)
    parts: dict[str, Callable[[], Any]] = {
        "kernel": lambda: list(bench_fwht.rows(kernels, repeats)),
        "disk": lambda: list(bench_passes.on_disk(folder, n, d, k2, chunk_rows, repeats)),
        "memory_fit": lambda: bench_passes.in_memory(*in_memory, repeats),
        "growth": lambda: list(bench_growth.exponents(folder, *small, repeats, {"n": (1, 4)} if quick else factors)),
        "workers": lambda: bench_growth.workers(folder, n // 2, d, k2 // 4, chunk_rows, repeats),
        "codecs": lambda: bench_codecs.codecs(folder, n // 4, d, chunk_rows, repeats),
    }
    results = {name: part() for name, part in parts.items() if not only or name in only}
    if memory:
        rows = 6_000_000_000 // (4 * 65) // 65_536 * 65_536
        results["out_of_core"] = out_of_core.measure(
            out_of_core.write(folder / "large", rows, 64, 65_536), k2=8192, n_iter=3, memory_limit=500_000_000
        )
        print("\nout of core:", json.dumps(results["out_of_core"]))
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="also write the figures to this file")
    parser.add_argument("--rows", type=int, default=4_194_304, help="rows of the largest data (default 4,194,304)")
    parser.add_argument("--repeats", type=int, default=5, help="runs per figure (default 5)")
    parser.add_argument("--quick", action="store_true", help="small data, one run")
    parser.add_argument("--only", nargs="*", default=[], choices=PARTS, help="these parts alone")
    parser.add_argument("--memory", action="store_true", help="also 6 GB on two workers of 500 MB")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        dask.config.set(scheduler="threads", num_workers=2),
        one_blas_thread(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        results = measured(
            Path(folder), options.quick, options.rows, 1 if options.quick else options.repeats, options.only,
            options.memory,
        )  # fmt: skip
    if options.out is not None:
        machine = {
            "processor": numba.config.CPU_NAME or platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[1] if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "dask": dask.__version__,
        }
        # Parts that were not measured now stay as they are.
        kept = json.loads(options.out.read_text())["results"] if options.only and options.out.exists() else {}
        document = {"machine": machine, "repeats": options.repeats, "results": {**kept, **results}}
        options.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
