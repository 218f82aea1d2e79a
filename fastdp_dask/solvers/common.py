"""The gradient release that every iterative solver shares."""

from __future__ import annotations

import numpy as np

from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.solvers.base import Plan


def release_gradient(
    name: str, gradient: np.ndarray, plan: Plan, noise: NoiseSource, releases: ReleaseLog
) -> np.ndarray:
    """g̃ = g + σ ζ, ζ ~ N(0, I_d), σ = noise_multiplier · C: the sensitivity of g is C (‖x_i‖ ≤ 1, |residual| ≤ C)."""
    scale = plan.noise_multiplier * plan.clip
    return releases.once(name, lambda z: gradient + scale * z.standard_normal(gradient.shape), noise)
