"""Noise against ε (after FM, Figure 1): η² that each analysis asks for, when nothing is known of λ_min.

python examples/paper/figure1.py            # seconds
python examples/paper/figure1.py --quick
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
    chosen = options(__doc__.splitlines()[0], arguments, "n = 1,024, d = 4, 3 values of epsilon")
    n, d, count = (1024, 4, 3) if chosen.quick else (131072, 32, 25)
    start = time.perf_counter()
    delta = 1.0 / n**2
    length = max(float(d), float(np.log(12 / (delta / 10))))
    k1, k2 = int(np.ceil(6 * length)), min(n, int(np.ceil(100 * length)))
    epsilons = np.geomspace(0.1, 10, count)
    m = float(noise_curves.deviation_curve(sphere(n, d).X, [k2], [0])[0, 0])
    m_star = float(privacy.coherence_bound_public(n, k2, delta / 20))
    curves = {
        "Gaussian mixing": noise_curves.gaussian_mixing(epsilons, delta, k1),
        "fast mixing, tight, m of the data": noise_curves.fast_mixing(epsilons, delta, k1, m),
        "fast mixing, paper, m of the data": noise_curves.fast_mixing(epsilons, delta, k1, m, preset="paper"),
        "fast mixing, tight, public m*": noise_curves.fast_mixing(epsilons, delta, k1, m_star),
        "fast mixing, any sketch (C² → ∞)": noise_curves.any_sketch(epsilons, delta, k1),
        "Upadhyay (2014)": noise_curves.upadhyay(epsilons, delta, k1),
    }
    about = facts(start, n=n, d=d, delta=delta, k1=k1, k2=k2, m=m, m_star=m_star, seed=0)
    rows = [[float(epsilon), *(float(curve[i]) for curve in curves.values())] for i, epsilon in enumerate(epsilons)]
    write(chosen.out, "figure1", ["epsilon", *curves], rows, about)

    def panel(axis: Any) -> None:
        for name, curve in curves.items():
            axis.loglog(epsilons, curve, label=name)
        axis.set(xlabel="ε", ylabel="η²", title=f"k1 = {k1:,}, k2 = {k2:,}, n = {n:,}, δ = 1/n²")

    draw(chosen.out, "figure1", [panel])


if __name__ == "__main__":
    main()
