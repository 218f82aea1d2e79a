"""The gradient release that every iterative solver shares."""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask.mechanisms import additive
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource, NoiseStream
from fastdp_dask.rows.grid import GRID, residual_grid
from fastdp_dask.solvers.base import Plan


def root(n_targets: int) -> float:
    """sqrt(t), not below it."""
    return 1.0 if n_targets == 1 else math.nextafter(math.sqrt(n_targets), math.inf)


def release_gradient(
    name: str, gradient: np.ndarray, plan: Plan, noise: NoiseSource, releases: ReleaseLog
) -> np.ndarray:
    """g̃ = g + σ ζ, ζ ~ N(0, I), σ = noise_multiplier · C sqrt(t): the sensitivity of g (d, t) is C sqrt(t).

    Blanking record i moves g by x_i r_iᵀ with ‖x_i‖ ≤ 1 and t residuals in [−C, C].
    """

    def draw(z: NoiseStream) -> np.ndarray:
        n, C = plan.n_samples, plan.clip
        step = 1.0 / (GRID * residual_grid(n, C))
        return additive.gaussian(
            gradient.ravel(), plan.noise_multiplier, z,
            sensitivity=C * root(plan.n_targets), step=step, largest=n * C,
        ).reshape(gradient.shape)  # fmt: skip

    return releases.once(name, draw, noise)
