"""Excess risk against ε on three million real flights (after FM, Figure 3, on data of a larger size).

    npm pack vega-datasets@3.2.1 && tar xzf vega-datasets-3.2.1.tgz package/data/flights-3m.parquet
    python examples/paper/figure3_flights.py --parquet package/data/flights-3m.parquet     # about ten minutes
    python examples/paper/figure3_flights.py --quick                                       # made-up flights, seconds

The file is data/flights-3m.parquet of the package vega-datasets 3.2.1 (BSD-3-Clause; flights within the United States
from January to June 2001, Bureau of Transportation Statistics).  Bounds and categories are public knowledge: delays by
what matters to a passenger, distances by the map, airports by the list of large hubs; other airports set no column.

IHM and FastIHM clip residuals at half the width of the delay's bounds.  Few flights are hours late, but those are
clipped on one side: both curves end where clipped least squares does, 0.45 minutes from least squares.  AdaSSP, which
clips nothing but the delays, goes on falling.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from common import DataSet, draw, facts, medians, note, plan_of, write

from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.linalg import one_blas_thread, solve_psd
from fastdp_dask.rows.scaling import Scaling, declare

HUBS = (
    "ATL", "BOS", "BWI", "CLT", "CVG", "DCA", "DEN", "DFW", "DTW", "EWR", "FLL", "HNL", "IAD", "IAH", "JFK", "LAS",
    "LAX", "LGA", "MCO", "MDW", "MIA", "MSP", "ORD", "PHL", "PHX", "PIT", "SAN", "SEA", "SFO", "SLC", "STL", "TPA",
)  # fmt: skip
_METHODS = {
    "AdaSSP, tight": ("adassp", "tight"),
    "IHM, tight": ("ihm", "tight"),
    "FastIHM, paper": ("fastihm", "paper"),
    "FastIHM, tight": ("fastihm", "tight"),
    "linear mixing, tight": ("linear_mixing", "tight"),
}
_CHUNK = 65536


def columns_of(
    minute: np.ndarray, distance: np.ndarray, origin: np.ndarray, destination: np.ndarray
) -> tuple[np.ndarray, list[list[int]]]:
    """X (n, 73) float32 and its groups: distance in miles, hour, weekday, and large hubs at both ends.

    `minute` counts minutes since 1970-01-01 00:00, a Thursday.
    """
    n, hubs = len(minute), len(HUBS)
    X = np.zeros((n, 2 + 7 + 2 * hubs), dtype=np.float32)
    X[:, 0], X[:, 1] = distance, minute % 1440 / 60
    X[np.arange(n), 2 + (minute // 1440 + 3) % 7] = 1  # Monday first
    order = np.argsort(HUBS)
    names = np.array(HUBS)[order]
    for start, airports in ((9, origin), (9 + hubs, destination)):
        place = np.minimum(np.searchsorted(names, airports), hubs - 1)
        known = np.flatnonzero(names[place] == airports)
        X[known, start + order[place[known]]] = 1
    groups = [list(range(2, 9)), list(range(9, 9 + hubs)), list(range(9 + hubs, 9 + 2 * hubs))]
    return X, groups


def scaling_of(groups: list[list[int]]) -> Scaling:
    """Distance 0 to 5,000 miles, hour 0 to 24, delay an hour early to three hours late."""
    lower, upper = np.zeros(2 + sum(map(len, groups))), np.ones(2 + sum(map(len, groups)))
    upper[:2] = 5000, 24
    return declare(len(lower), bounds_X=(lower, upper), groups=groups, bounds_y=(-60, 180))


def read(path: Path) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """X, delays in minutes and groups of the Parquet file."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    minute = table["date"].to_numpy().astype("datetime64[m]").astype(np.int64)
    airports = [table[name].to_numpy().astype("U3") for name in ("origin", "destination")]
    X, groups = columns_of(minute, table["distance"].to_numpy(), *airports)
    return X, table["delay"].to_numpy().astype(np.float64), groups


def made_up(n: int) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Flights of the same columns that never took off."""
    generator = np.random.default_rng(0)
    airports = generator.choice([*HUBS, "XNA"], size=(2, n))
    X, groups = columns_of(generator.integers(0, 1 << 24, n), generator.uniform(50, 3000, n), *airports)
    return X, 10 + X[:, 1] + 30 * generator.standard_normal(n), groups


def data_set(X: np.ndarray, y: np.ndarray, scaling: Scaling) -> DataSet:
    """With exact least squares from one pass: |y| ≤ 1 as scaled, so nothing of Xᵀy is clipped.  NOT PRIVATE."""
    with one_blas_thread():
        gram, moment = BlockedRows(
            da.from_array(X, chunks=(_CHUNK, -1)), da.from_array(y, chunks=_CHUNK), scaling
        ).gram(1.0)
    return DataSet(X, y, scaling, gram, solve_psd(gram, moment))


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parquet", type=Path, help="data/flights-3m.parquet of vega-datasets 3.2.1")
    parser.add_argument("--quick", action="store_true", help="4,096 made-up flights, 2 values of epsilon")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    chosen = parser.parse_args(arguments)
    if not chosen.quick and chosen.parquet is None:
        parser.error("give --parquet FILE, flights-3m.parquet of the package vega-datasets (see --help), or --quick")
    start = time.perf_counter()
    X, y, groups = made_up(4096) if chosen.quick else read(chosen.parquet)
    epsilons = (1.0, 10.0) if chosen.quick else (0.1, 0.3, 1.0, 3.0)
    scaling = scaling_of(groups)
    data = data_set(X, y, scaling)
    n, d = X.shape[0], scaling.n_columns
    medians(data, plan_of("ihm", "tight", (n, d), 1.0), 1)  # compile
    rows: list[list[object]] = []
    for name, (solver, preset) in _METHODS.items():
        for epsilon in epsilons:
            risk, seconds = medians(data, plan_of(solver, preset, (n, d), epsilon), chosen.runs)
            # In minutes: half the width of the bounds of y is one unit.
            rows.append([name, epsilon, risk, risk**0.5 * scaling.y_half, seconds])
        note(name, *(f"{row[2]:.1e}" for row in rows[-len(epsilons) :]), f"{rows[-1][4]:.2f} s")
    origin = "made up, seed 0" if chosen.quick else "vega-datasets 3.2.1, data/flights-3m.parquet"
    about = facts(start, n=n, d=d, delta=1.0 / n**2, runs=chosen.runs, seeds=f"0 to {chosen.runs - 1}", data=origin)
    header = ["method", "epsilon", "median_excess_risk", "minutes_beyond_least_squares", "seconds"]
    write(chosen.out, "figure3_flights", header, rows, about)

    def risks(axis: Any) -> None:
        for name in _METHODS:
            points = [row for row in rows if row[0] == name]
            axis.loglog([p[1] for p in points], [p[3] for p in points], marker=".", label=name)
        axis.set(
            xlabel="ε", ylabel="minutes beyond least squares, root mean square", title=f"flights, n = {n:,}, d = {d}"
        )

    draw(chosen.out, "figure3_flights", [risks])


if __name__ == "__main__":
    main()
