"""What declared bounds do: too wide costs noise, too tight costs bias; and how they pass through preprocessing.

    python examples/bounds.py            # 1,000,000 records
    python examples/bounds.py --quick    # 100,000

Bounds come from the design of the table, from law or from physics: a working week has at most 168 hours, whoever is in
the data.  Minimum and maximum of the data at hand are private values; so are the mean and the range that a scaler
learns.  `BoundedFeatures` scales and multiplies columns by declared bounds instead, and hands on new ones.
"""

from __future__ import annotations

import sys

import numpy as np
from sklearn.pipeline import make_pipeline

from fastdp_dask import BoundedFeatures, LinearRegression
from fastdp_dask.data import read_declaration

BUDGET = {"epsilon": 0.3, "delta": 1e-10}
DECLARED = read_declaration({
    "target": {"name": "pay", "lower": 0, "upper": 60},
    "features": {
        "age": {"lower": 18, "upper": 80},
        "hours": {"lower": 0, "upper": 60},
        "site": {"categories": ["north", "south"]},
    },
})  # fmt: skip


def records(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Age, hours and one of two sites; pay rises with age in the north only."""
    generator = np.random.default_rng(1)
    age, hours, north = generator.uniform(18, 80, n), generator.uniform(0, 60, n), generator.integers(0, 2, n)
    pay = 10 + 0.4 * hours + 0.25 * (age - 18) * north + generator.normal(0, 2, n)
    return np.column_stack([age, hours, north, 1 - north]), pay


def rmse(model: LinearRegression, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def main(n: int) -> None:
    X, y = records(n)
    print("bounds of hours      RMSE")
    for lower, upper in ((0, 60), (0, 168), (0, 100_000), (20, 40)):
        bounds = ([18, lower, 0, 0], [80, upper, 1, 1])
        model = LinearRegression(bounds_X=bounds, bounds_y=(0, 60), groups=[[2, 3]], **BUDGET).fit(X, y)
        print(f"{lower:6,} to {upper:7,}   {rmse(model, X, y):7.2f}")

    features = BoundedFeatures(DECLARED, products=[("site", "age")])
    pipeline = make_pipeline(features, LinearRegression(**features.estimator_arguments(), **BUDGET)).fit(X, y)
    print(f"with site x age      {rmse(pipeline, X, y):7.2f}   columns {', '.join(features.get_feature_names_out())}")


if __name__ == "__main__":
    main(100_000 if "--quick" in sys.argv else 1_000_000)
