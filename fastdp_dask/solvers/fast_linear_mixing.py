"""Fast linear mixing: least squares on one private Gaussian sketch of an SRHT of [X y] (FM)."""

from __future__ import annotations

import math

from fastdp_dask import rng
from fastdp_dask.linalg import gram_of
from fastdp_dask.mechanisms import fast_mixing, spectral
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.operator import SketchedRows
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers.base import Solution
from fastdp_dask.solvers.linear_mixing import least_squares, release_moments
from fastdp_dask.solvers.linear_mixing_plan import MixingPlan


def solve(
    rows: SketchedRows, plan: MixingPlan, *, public_seed: int, noise: rng.NoiseSource, releases: ReleaseLog
) -> Solution:
    """θ = argmin ‖ỹ − X̃θ‖² over the released rows [X̃ ỹ] = S_G (S B) + η Ξ, B = [X y]/√2.

    Everything is in units of B, whose rows have norm ≤ 1, so FastMix holds as it stands: m(B) = m([X y])/√2 has
    sensitivity Δ, λ_min((SB)ᵀSB) has sensitivity 1 + 2m(B).  One pass; a second where the deviation is released.
    Source: FM, Algorithm 1 on [X y].
    """
    if "moments" not in releases:
        joined = rows.with_target()
        if not plan.k2:  # an SRHT of N rows is orthonormal: no deviation, and no transform either
            gram, _ = joined.gram(plan.clip)
            release_moments(gram / 2, 0.0, plan, noise, releases)
            return least_squares(plan, releases)
        sketch = SRHT(plan.n_samples, plan.k2, seed=rng.derive_key(public_seed, "round", 0))
        sums, _ = joined.sketch([sketch], plan.clip)
        gram = gram_of(sums[0], GRID * math.sqrt(2 * plan.k2))
        if plan.route != "private":
            release_moments(gram, 0.0, plan, noise, releases)
            return least_squares(plan, releases)
        (deviation,) = joined.deviation([sketch], sums)
        # What rounding adds is halved with the rest; Δ is not.
        sensitivity = spectral.deviation_sensitivity(
            sketch.coherence(), plan.n_samples, plan.k2, plan.n_columns + 1
        )
        with releases.together():
            m_tilde = float(
                releases.once("m_tilde", _deviation, noise, deviation / math.sqrt(2), sensitivity, plan)
            )
            release_moments(gram, m_tilde, plan, noise, releases)
    return least_squares(plan, releases)


def _deviation(z: rng.NoiseStream, value: float, sensitivity: float, plan: MixingPlan) -> float:
    if plan.preset == "tight":
        return spectral.deviation(value, sensitivity, plan.deviation_noise, plan.estimate_failure, z)
    return fast_mixing.private_deviation(value, sensitivity, plan.omega, plan.tau, z)
