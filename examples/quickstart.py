"""A private model in a few lines, with a budget that is kept.

    python examples/quickstart.py            # 1,000,000 records
    python examples/quickstart.py --quick    # 50,000
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from fastdp_dask import BudgetError, Ledger, LinearRegression


def records(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Age and weekly hours; an hourly wage that depends on both."""
    generator = np.random.default_rng(1)
    X = generator.uniform([18, 0], [80, 40], size=(n, 2))
    return X, 8 + 0.25 * X[:, 0] + 0.6 * X[:, 1] + generator.normal(0, 3, n)


def main(n: int) -> None:
    X, y = records(n)
    with tempfile.TemporaryDirectory() as folder:
        # The budget of these records, for everything that anyone will ever publish about them.
        ledger = Ledger.create(Path(folder) / "budget.db", epsilon=1.5, delta=1e-8)
        model = LinearRegression(
            epsilon=1.0, delta=1e-10,
            bounds_X=([18, 0], [80, 40]), bounds_y=(0, 60),  # public knowledge, never read from the data
            ledger=ledger,
        )  # fmt: skip
        model.fit(X, y)
        print("coefficients", model.coef_.round(3), "intercept", round(model.intercept_, 3))
        print("truth        [0.25 0.6 ] intercept 8")
        print("spent", ledger.spent(), "of", ledger.budget())
        try:
            model.fit(X, y)  # another release: another epsilon of 1, and only 0.5 is left
        except BudgetError as refused:
            print("refused:", refused)


if __name__ == "__main__":
    main(50_000 if "--quick" in sys.argv else 1_000_000)
