"""Extreme shapes (after FM, Appendix I): very many rows to a column, and few.

python examples/paper/appendix_i.py            # minutes
python examples/paper/appendix_i.py --quick
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from common import draw, facts, medians, note, options, plan_of, sphere, write

_METHODS = (
    ("adassp", "tight"), ("ihm", "paper"), ("ihm", "tight"), ("fastihm", "paper"), ("fastihm", "tight"),
    ("linear_mixing", "tight"), ("fast_linear_mixing", "tight"),
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    chosen = options(__doc__.splitlines()[0], arguments, "n = 1,024, d = 2 and 16, 1 epsilon, 1 run")
    shapes, epsilons, runs = [(1 << 20, 4), (1 << 17, 32), (1 << 14, 256)], (0.3, 1.0, 3.0, 10.0), min(3, chosen.runs)
    if chosen.quick:
        shapes, epsilons, runs = [(1024, 2), (1024, 16)], (3.0,), 1
    start = time.perf_counter()
    rows: list[list[Any]] = []
    for shape in shapes:
        data = sphere(*shape)
        for solver, preset in _METHODS:
            for epsilon in epsilons:
                found = medians(data, plan_of(solver, preset, shape, epsilon), runs)
                rows.append([*shape, f"{solver}, {preset}", epsilon, *found])
            note(shape, solver, preset, *(f"{row[4]:.1e}" for row in rows[-len(epsilons) :]), f"{rows[-1][5]:.2f} s")
    about = facts(start, delta="1/n^2", runs=runs, seeds=f"0 to {runs - 1}", data="sphere, seed 0")
    write(chosen.out, "appendix_i", ["n", "d", "method", "epsilon", "median_excess_risk", "seconds"], rows, about)

    def panel(shape: tuple[int, int]) -> Any:
        def plot(axis: Any) -> None:
            here = [row for row in rows if (row[0], row[1]) == shape]
            for name in dict.fromkeys(row[2] for row in here):
                points = [row for row in here if row[2] == name]
                axis.loglog([p[3] for p in points], [p[4] for p in points], marker=".", label=name)
            axis.set(xlabel="ε", ylabel="median excess risk", title=f"sphere, n = {shape[0]:,}, d = {shape[1]}")

        return plot

    draw(chosen.out, "appendix_i", [panel(shape) for shape in shapes])


if __name__ == "__main__":
    main()
