"""The gradient release that every iterative solver shares."""

from __future__ import annotations

import numpy as np

from fastdp_dask.mechanisms import additive
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource, NoiseStream
from fastdp_dask.rows.grid import GRID, residual_grid
from fastdp_dask.solvers.base import Plan


def release_gradient(
    name: str, gradient: np.ndarray, plan: Plan, noise: NoiseSource, releases: ReleaseLog
) -> np.ndarray:
    """g̃ = g + σ ζ, ζ ~ N(0, I_d), σ = noise_multiplier · C: the sensitivity of g is C (‖x_i‖ ≤ 1, |residual| ≤ C)."""

    def draw(z: NoiseStream) -> np.ndarray:
        n, C = plan.n_samples, plan.clip
        step = 1.0 / (GRID * residual_grid(n, C))
        return additive.gaussian(gradient, plan.noise_multiplier, z, sensitivity=C, step=step, largest=n * C)

    return releases.once(name, draw, noise)
