"""What compression costs a pass: raw chunks, LZ4 with bit shuffle, Zstandard, and the codec of `write_store`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import zarr
from bench_timing import table
from zarr.codecs import BloscCodec, ZstdCodec

CODECS: dict[str, Any] = {
    "raw": None,
    "LZ4 + shuffle": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "LZ4 + bit shuffle": BloscCodec(cname="lz4", clevel=5, shuffle="bitshuffle"),
    "Zstandard": ZstdCodec(level=3),
}


def codecs(folder: Path, n: int, d: int, chunk_rows: int, repeats: int) -> dict[str, Any]:
    """Time of a sum over X, an eighth of whose columns are numbers and the others indicators, by codec."""
    generator = np.random.default_rng(3)
    numbers = max(1, d // 8)
    runs, stored = {}, {}
    for name, codec in CODECS.items():
        path = folder / name.replace(" ", "")
        array = zarr.create_array(str(path), shape=(n, d), chunks=(chunk_rows, d), dtype="f4", compressors=codec)
        for start in range(0, n, chunk_rows):
            rows = min(chunk_rows, n - start)
            block = np.zeros((rows, d), np.float32)
            block[:, :numbers] = generator.standard_normal((rows, numbers))
            if d > numbers:
                block[np.arange(rows), generator.integers(numbers, d, rows)] = 1
            array[start : start + rows] = block
        files = (os.path.join(base, file) for base, _, found in os.walk(path) for file in found)
        stored[name] = sum(os.path.getsize(file) for file in files)
        X = da.from_zarr(str(path))
        runs[name] = lambda X=X: X.sum(axis=0).compute()
    found = table("codecs", {"n": n, "d": d, "chunk_rows": chunk_rows}, runs, repeats, unit="raw")
    smaller = (f"{name} {stored['raw'] / size:.1f} times smaller" for name, size in stored.items())
    print("    stored: " + ", ".join(smaller))
    return {**found, "stored_bytes": stored}
