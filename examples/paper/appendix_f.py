"""Coherence Δ and deviation m of an SRHT against k2 (after FM, Appendix F).

python examples/paper/appendix_f.py            # under a minute
python examples/paper/appendix_f.py --quick
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import draw, facts, options, sphere, write

from fastdp_dask import noise_curves, privacy


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    chosen = options(__doc__.splitlines()[0], arguments, "n = 1,024, d = 4, 3 sizes, 1 run")
    n, d, runs = (1024, 4, 1) if chosen.quick else (131072, 32, chosen.runs)
    start = time.perf_counter()
    first = 8 if chosen.quick else 7
    sizes = [1 << p for p in range(first, n.bit_length() - 1)]
    failure = 1e-6
    coherence = noise_curves.coherence_curve(n, sizes, range(runs))
    deviation = noise_curves.deviation_curve(sphere(n, d).X, sizes, range(runs))
    curves = {
        "coherence_median": np.median(coherence, axis=0),
        "coherence_largest": coherence.max(axis=0),
        "coherence_bound": np.array([privacy.coherence_bound_uniform(n, k2, failure) for k2 in sizes]),
        "deviation_median": np.median(deviation, axis=0),
        "deviation_largest": deviation.max(axis=0),
        "deviation_public_bound": np.array([privacy.coherence_bound_public(n, k2, failure) for k2 in sizes]),
    }
    about = facts(start, n=n, d=d, runs=runs, seeds=f"0 to {runs - 1}", failure=failure, data="sphere, seed 0")
    rows = [[k2, *(float(curve[i]) for curve in curves.values())] for i, k2 in enumerate(sizes)]
    write(chosen.out, "appendix_f", ["k2", *curves], rows, about)

    def panel(prefix: str, title: str) -> Any:
        def plot(axis: Any) -> None:
            for name, curve in curves.items():
                if name.startswith(prefix):
                    axis.loglog(sizes, curve, marker=".", label=name.removeprefix(prefix + "_").replace("_", " "))
            axis.set(xlabel="k2", title=f"{title}, n = {n:,}")

        return plot

    draw(chosen.out, "appendix_f", [panel("coherence", "coherence Δ"), panel("deviation", "deviation m, sphere")])


if __name__ == "__main__":
    main()
