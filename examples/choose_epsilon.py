"""Choosing ε before anything is spent: what `plan` predicts for each, from public facts alone.

    python examples/choose_epsilon.py [ROWS COLUMNS [EPSILON ...]]

The predicted error is that beyond least squares, root mean square, for a target whose bounds are 0 and 100, averaged
over a few guessed spectra of the data: a guide to orders of magnitude, and no data is read.
"""

from __future__ import annotations

import math
import sys

from fastdp_dask import plan

WIDTH = 100.0


def main(n: int, d: int, *epsilons: float) -> None:
    print(f"{n:,} records, {d} columns, delta = 1/n²")
    print("epsilon   odds at most x   predicted error   passes   noise on a gradient / its sensitivity")
    for epsilon in epsilons or (0.1, 0.3, 1.0, 3.0, 10.0):
        made = plan(n, d, epsilon=epsilon, delta=1 / n**2, solver="ihm")
        error = math.sqrt(made.predicted_risk) * WIDTH / 2
        print(
            f"{epsilon:7g}   {math.exp(epsilon):14,.2f}   {error:15.3g}   {made.n_passes:6d}   "
            f"{made.noise_multiplier:.3g}"
        )


if __name__ == "__main__":
    rows, columns, *given = sys.argv[1:] if len(sys.argv) > 2 else ("100000", "20")
    main(int(rows), int(columns), *map(float, given))
