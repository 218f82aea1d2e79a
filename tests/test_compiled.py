"""Kernels: every combination of array types has a cache file of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

from fastdp_dask.compiled import kernel


@kernel
def doubled(a: np.ndarray, factor: float) -> float:
    """Double in place, return the sum times factor."""
    total = 0.0
    for i in range(a.shape[0]):
        a[i] = a[i] + a[i]
        total += a[i]
    return total * factor


def test_every_dtype_gets_its_own_answer() -> None:
    for dtype in (np.int32, np.int64, np.float32, np.float64):
        a = np.arange(5).astype(dtype)
        assert doubled(a, 0.5) == 10
        assert a.tolist() == [0, 2, 4, 6, 8]
        assert a.dtype == dtype
    assert len(doubled._versions) == 4
    assert doubled.__doc__ == "Double in place, return the sum times factor."


def test_versions_are_cached_under_different_names(tmp_path: Path) -> None:
    """Two processes on an empty cache, each compiling another dtype first: no file is shared between dtypes."""
    (tmp_path / "some_kernels.py").write_text(
        textwrap.dedent(
            """
            from fastdp_dask.compiled import kernel

            @kernel
            def add(a, b):
                for i in range(a.shape[0]):
                    a[i] += b[i]
            """
        )
    )
    script = (
        "import sys, numpy as np; from some_kernels import add\n"
        "a = np.ones(3, sys.argv[1]); add(a, a.copy()); assert a.tolist() == [2, 2, 2], a"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for dtypes in (["int64"], ["float64"], ["float64"], ["int64"]):
        for dtype in dtypes:
            subprocess.run([sys.executable, "-c", script, dtype], check=True, env=environment, timeout=120)
    compiled = sorted(path.name for path in (tmp_path / "cache").rglob("*.nbc"))
    assert len(compiled) == 2
    assert sum("f8x1cw" in name for name in compiled) == sum("i8x1cw" in name for name in compiled) == 1
