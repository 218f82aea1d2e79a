"""A report for those who must answer for a release: intervals for the statistician, the guarantee for everyone.

    python examples/report.py --out pay-run

Fits pay on age, hours and region of made-up people, prints the table of coefficients with intervals that know of the
privacy noise, and writes report.html and report.json into the run folder.  Open report.html in a browser: it needs no
network.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fastdp_dask import LinearRegression
from fastdp_dask.report.write import write
from fastdp_dask.rows.groups import CompleteGroup

NAMES = ["age", "hours", "region=north", "region=south", "region=east", "region=west"]


def people(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Age, hours per week and one indicator of four regions; pay."""
    generator = np.random.default_rng(0)
    age, hours, region = generator.uniform(18, 80, n), generator.uniform(0, 60, n), generator.integers(0, 4, n)
    pay = 20 + 0.8 * age + 0.5 * hours + np.array([0.0, 4.0, -3.0, 8.0])[region] + generator.normal(0, 5, n)
    return np.column_stack([age, hours, np.eye(4)[region]]), pay


def main() -> None:
    """Fit, show, write."""
    parser = argparse.ArgumentParser(description="A private fit with its report.")
    parser.add_argument("--out", type=Path, required=True, help="new run folder")
    folder = parser.parse_args().out
    X, y = people(60_000)
    model = LinearRegression(
        epsilon=1.0, delta=1e-10, uncertainty=True, run_dir=folder,
        bounds_X=([18, 0, 0, 0, 0, 0], [80, 60, 1, 1, 1, 1]), groups=[CompleteGroup([2, 3, 4, 5])], bounds_y=(0, 200),
    )  # fmt: skip
    model.fit(X, y, feature_names=NAMES, source="made-up people")
    print(model.summary())
    print(write(folder)[0])


if __name__ == "__main__":
    main()
