"""Small stores and a way to run `fastdp` as a process, for the tests of the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from fastdp_dask.data import Declaration, write_store

DECLARATION = Declaration(
    feature_names=["age", "height", "kind=a", "kind=b"],
    bounds_X=[(0.0, 100.0), (0.0, 2.5), (0.0, 1.0), (0.0, 1.0)],
    groups=[[2, 3]],
    target="wage",
    bounds_y=(0.0, 50.0),
    categories=[("kind", ["a", "b"])],
)
PAPER = ["--epsilon", "5", "--delta", "1e-6", "--solver", "fastihm", "--preset", "paper"]
SEEDS = ["--public-seed", "11", "--random-state", "12"]


def records(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X (n_rows, 4) and y (n_rows,) of `DECLARATION`: wage is about 5 + 0.3 age."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 2, n_rows)
    X = np.column_stack([random.uniform(0, 100, n_rows), random.uniform(0, 2.5, n_rows), kind == 0, kind == 1])
    return X, 5 + 0.3 * X[:, 0] + random.normal(0, 1, n_rows)


def make_store(path: Path, n_rows: int = 4096, chunk_rows: int = 1024, blank: int | None = None) -> Path:
    """A store of `records`, in which the record `blank` has no values."""
    X, y = records(n_rows)
    if blank is not None:
        X[blank], y[blank] = np.nan, np.nan
    return write_store(path, [(X, y)], DECLARATION, n_rows, chunk_rows=chunk_rows)


def command(*arguments: object) -> list[str]:
    """`fastdp` with `arguments`, as a process of this interpreter."""
    return [sys.executable, "-m", "fastdp_dask.commands", *map(str, arguments)]


# The last bits of a product of float matrices on the driver depend on the number of threads of BLAS.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `fastdp` as a process to its end."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT
    )


def without_times(text: str) -> str:
    """The text with seconds and speeds replaced, which the clock decides."""
    return re.sub(r"[\d.,]+ (rows/s|s\b)", r"# \1", text)
