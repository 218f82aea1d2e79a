"""The same fit on a cluster: whichever `distributed.Client` is active computes, and the bits do not change.

    python examples/cluster.py            # 2,000,000 x 20, four worker processes on this machine
    python examples/cluster.py --quick    # 50,000 x 20, two

With a cluster of your own, `Client("tls://scheduler:8786", security=…)` takes the place of `LocalCluster`.
"""

from __future__ import annotations

import sys
import warnings

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from fastdp_dask import LinearRegression, PrivacyLeakWarning


def main(n: int, workers: int) -> None:
    X = da.random.default_rng(1).uniform(-1, 1, size=(n, 20), chunks=(n // 8, 20))
    y = X @ np.linspace(1, -1, 20)
    # Seeds, only so that the two fits can be compared: a real release leaves both out.
    model = LinearRegression(
        epsilon=1.0, delta=1e-12, bounds_X=(-1, 1), bounds_y=(-10, 10), public_seed=1, random_state=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
            on_workers = model.fit(X, y).coef_
        on_threads = model.fit(X.rechunk((n // 3, 20)), y).coef_
    print("coefficients", on_workers[:3].round(4), "…")
    print("the same to the last bit on threads, with other chunks:", bool(np.array_equal(on_workers, on_threads)))


if __name__ == "__main__":  # worker processes import this file
    main(*((50_000, 2) if "--quick" in sys.argv else (2_000_000, 4)))
