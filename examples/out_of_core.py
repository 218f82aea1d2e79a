"""A fit on more data than this process ever holds: a store written block by block, read chunk by chunk.

    python examples/out_of_core.py            # 20,000,000 x 20 float32: 1.6 GB on disk
    python examples/out_of_core.py --quick    # 200,000 x 20
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dask
import numpy as np

from fastdp_dask import LinearRegression
from fastdp_dask.data import Declaration, open_store, write_store

D = 20
BLOCK = 65_536
THETA = np.linspace(1, -1, D)


def blocks(n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Records in blocks, as they would come from an instrument or a database cursor."""
    generator = np.random.default_rng(1)
    for start in range(0, n, BLOCK):
        X = generator.uniform(-1, 1, (min(BLOCK, n - start), D)).astype("float32")
        yield X, X @ THETA + generator.normal(0, 0.5, len(X))


def main(n: int) -> None:
    declared = Declaration([f"x{j}" for j in range(D)], [(-1, 1)] * D, [], "y", (-10, 10))
    with tempfile.TemporaryDirectory() as folder, dask.config.set(scheduler="threads", num_workers=2):
        store = open_store(write_store(Path(folder) / "data.zarr", blocks(n), declared, n))
        # persist="auto" would hold data that fit into memory, which saves reading them in every pass.
        model = LinearRegression(
            epsilon=1.0, delta=1e-12, persist=False, **store.declaration.estimator_arguments()
        )
        model.fit(store.X, store.y)
    print(f"{store.X.nbytes / 2**20:,.0f} MiB in {store.X.numblocks[0]} chunks, {model.n_passes_} passes")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB")
    print(f"largest error of a coefficient: {np.abs(model.coef_ - THETA).max():.4f}")


if __name__ == "__main__":
    main(200_000 if "--quick" in sys.argv else 20_000_000)
