"""Excess risk against ε with several k2, and speed-ups over dense sketches (after FM, Figure 3).

python examples/paper/figure3.py            # minutes
python examples/paper/figure3.py --quick
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from common import draw, facts, medians, note, options, plan_of, sphere, write

from fastdp_dask.solvers import gradient_descent, ihm_paper

_K2 = (4, 20, 100, 200)  # in units of L


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    chosen = options(__doc__.splitlines()[0], arguments, "n = 1,024, d = 4, 2 values of epsilon, 1 run")
    n, d, epsilons, runs = (
        (1024, 4, (1.0, 10.0), 1) if chosen.quick else (131072, 32, (0.3, 1.0, 3.0, 10.0), chosen.runs)
    )
    start = time.perf_counter()
    data = sphere(n, d)
    delta = 1.0 / n**2
    length = max(float(d), math.log(12 / (delta / 10)))
    methods: dict[str, Any] = {
        "AdaSSP, paper": lambda e: plan_of("adassp", "paper", data.shape, e),
        "AdaSSP, tight": lambda e: plan_of("adassp", "tight", data.shape, e),
        "linear mixing, paper": lambda e: plan_of("linear_mixing", "paper", data.shape, e),
        "linear mixing, tight": lambda e: plan_of("linear_mixing", "tight", data.shape, e),
        "fast linear mixing, paper": lambda e: plan_of("fast_linear_mixing", "paper", data.shape, e),
        "fast linear mixing, tight": lambda e: plan_of("fast_linear_mixing", "tight", data.shape, e),
        "IHM, paper": lambda e: plan_of("ihm", "paper", data.shape, e),
        "IHM, paper, without −η²θ": lambda e: ihm_paper.make_plan(n, d, epsilon=e, delta=delta, pull=False),
        "IHM, tight": lambda e: plan_of("ihm", "tight", data.shape, e),
        "gradient descent": lambda e: gradient_descent.make_plan(n, d, epsilon=e, delta=delta),
    }
    for ratio in _K2:
        k2 = min(n, math.ceil(ratio * length))
        methods[f"FastIHM, paper, k2 = {ratio} L"] = lambda e, k2=k2: plan_of("fastihm", "paper", data.shape, e, k2=k2)
    methods["FastIHM, tight"] = lambda e: plan_of("fastihm", "tight", data.shape, e)
    rows: list[list[object]] = []
    medians(data, plan_of("fastihm", "paper", data.shape, 1.0), 1)  # compile
    for name, make in methods.items():
        for epsilon in epsilons:
            risk, seconds = medians(data, make(epsilon), runs)
            rows.append([name, epsilon, risk, seconds])
        note(name, *(f"{row[2]:.1e}" for row in rows[-len(epsilons) :]), f"{rows[-1][3]:.2f} s")
    dense = medians(data, plan_of("ihm", "paper", data.shape, 1.0), 1, dense=True)
    rows.append(["IHM, paper, dense Gaussian matrices", 1.0, *dense])
    about = facts(start, n=n, d=d, delta=delta, runs=runs, seeds=f"0 to {runs - 1}", data="sphere, seed 0")
    write(chosen.out, "figure3", ["method", "epsilon", "median_excess_risk", "seconds"], rows, about)

    def risks(axis: Any) -> None:
        for i, name in enumerate(methods):
            points = [row for row in rows if row[0] == name]
            style = ("-", "--", ":")[i // 6]
            axis.loglog([p[1] for p in points], [p[2] for p in points], style, marker=".", label=name)
        axis.set(xlabel="ε", ylabel="median excess risk", title=f"sphere, n = {n:,}, d = {d}, δ = 1/n²")

    def speed(axis: Any) -> None:
        at = [row for row in rows if row[1] == 1.0][::-1]
        axis.barh([str(row[0]) for row in at], [dense[1] / float(str(row[3])) for row in at])
        axis.set(xscale="log", xlabel="speed-up over dense IHM, ε = 1")
        axis.tick_params(labelsize="x-small")

    draw(chosen.out, "figure3", [risks, speed])


if __name__ == "__main__":
    main()
