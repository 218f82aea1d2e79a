"""A year of monthly fits on one budget: the ledger adds them up, and says no in time.

    python examples/year_of_fits.py [--quick]

The people are the same each month, so what is published about them adds up: twelve fits of (ε, δ) are (12 ε, 12 δ)
together.  That bound needs nothing but the fits' own guarantees; `fastdp ledger show` also prints the smaller total
that the Rényi curves of the same fits add up to.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from fastdp_dask import BudgetError, Ledger, LinearRegression
from fastdp_dask.ledger.composition import composed_epsilon

YEAR = {"epsilon": 3.0, "delta": 1.2e-8}
MONTHS = 12


def main(n: int) -> None:
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, (n, 3))
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(Path(folder) / "budget.db", **YEAR)
        print("month   slope of x0   spent so far")
        for month in range(1, MONTHS + 2):
            y = X @ [0.5 - 0.02 * month, 0.2, -0.1] + generator.normal(0, 0.1, n)
            model = LinearRegression(
                epsilon=YEAR["epsilon"] / MONTHS, delta=YEAR["delta"] / MONTHS, bounds_X=(-1, 1), bounds_y=(-2, 2),
                ledger=ledger, run_dir=Path(folder) / f"month-{month:02}",  # a fit that is interrupted goes on there
            )  # fmt: skip
            try:
                model.fit(X, y, source=f"month {month}")
            except BudgetError as refused:
                print(f"{month:5}   refused: {refused}")
                break
            print(f"{month:5}   {model.coef_[0]:11.3f}   epsilon {ledger.spent().epsilon:.2f}")
        charges = ledger.charges()
        together = composed_epsilon(charges)
        print(f"{len(charges)} charges; their Rényi curves add up to epsilon {together:.2f} at the same delta")


if __name__ == "__main__":
    main(20_000 if "--quick" in sys.argv else 200_000)
