"""Audits of one release at a time.  Many runs share one call where the function draws rows independently."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastdp_dask import privacy
from fastdp_dask.audit import pairs, scores
from fastdp_dask.audit.bounds import Claim
from fastdp_dask.audit.mechanism import Case, Mechanism, Noise, Sampler
from fastdp_dask.audit.pairs import Pair
from fastdp_dask.linalg import smallest_eigenvalue
from fastdp_dask.mechanisms import fast_mixing, wishart
from fastdp_dask.privacy import Event, GaussianEvent, MixingEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers import common
from fastdp_dask.solvers.base import Plan

_AT_ONCE = 20_000
_SEED = 1  # of the public sketches: any will do, as the data are aligned with it


def _claim(events: Sequence[Event], delta: float) -> Claim:
    return Claim(privacy.epsilon_of(events, delta), delta, privacy.compose(events))


def _batches(runs: int) -> list[tuple[int, int]]:
    return [(i, min(_AT_ONCE, runs - start)) for i, start in enumerate(range(0, runs, _AT_ONCE))]


# -- rows of a Gaussian sketch -------------------------------------------------------------------------------


def _mixing(epsilon: float, delta: float) -> Sequence[Case]:
    """X̃ = S_G Z + η Ξ with λ_min(ZᵀZ) + η² = γ (1 + 2m) exactly: the estimates at the edge of their safe side."""
    k1 = 4
    gamma = privacy.calibrate_gamma(epsilon, delta, k1)
    orthonormal = SRHT(2, 2, seed=_SEED)
    adversarial = SRHT(64, 8, seed=_SEED)
    cases = [
        (pairs.rank_one(2), orthonormal, 0.0),
        (pairs.aligned_with(adversarial, math.sqrt(gamma)), adversarial, None),
    ]
    claim = _claim([MixingEvent(k1, gamma)], delta)
    return [(claim, _mixing_of(*case, k1, gamma)) for case in cases]


def _mixing_of(pair: Pair, sketch: SRHT, deviation: float | None, k1: int, gamma: float) -> Sampler:
    sides = pair.rows()
    unit = GRID * math.sqrt(sketch.sketch_size)
    sums = [side.sketch([sketch], 1.0)[0][0] for side in sides]
    grams = [side.grams[0] for side in sides]
    if deviation is None:
        (deviation,) = sides[0].deviation([sketch], sums[:1])
    added = fast_mixing.added_variance(gamma, deviation, smallest_eigenvalue(grams[0]))

    def sample(side: int, runs: int, noise: Noise) -> np.ndarray:
        found = []
        for batch, count in _batches(runs):
            stream = noise(batch).stream("sketch")
            rows = fast_mixing.mixing(sums[side] / unit, added, k1 * count, stream).reshape(count, k1, -1)
            W = np.einsum("rka,rkb->rab", rows, rows)
            found.append(scores.wishart_ratio(W, k1, grams[0], grams[1], added))
        return np.concatenate(found)[:, None]

    return sample


def _wishart(epsilon: float, delta: float) -> Sequence[Case]:
    """W ~ Wishart_d(K, XᵀX + η²I), the Gram route with λ_min + η² = γ exactly; in one case η = 0."""
    degrees = 8
    gamma = privacy.calibrate_gamma(epsilon, delta, degrees)
    cases = [pairs.rank_one(2), pairs.weakest_direction(gamma)]
    claim = _claim([MixingEvent(degrees, gamma)], delta)
    return [(claim, _wishart_of(pair, degrees, gamma)) for pair in cases]


def _wishart_of(pair: Pair, degrees: int, gamma: float) -> Sampler:
    grams = [side.gram(1.0)[0] for side in pair.rows()]
    added = fast_mixing.added_variance(gamma, 0.0, smallest_eigenvalue(grams[0]))
    identity = np.eye(len(grams[0]))

    def sample(side: int, runs: int, noise: Noise) -> np.ndarray:
        found = []
        for batch, count in _batches(runs):
            stream = noise(batch).stream("hessian_0")
            scale = grams[side] + added * identity
            W = np.array([wishart.wishart(degrees, scale, stream) for _ in range(count)])
            found.append(scores.wishart_ratio(W, degrees, grams[0], grams[1], added))
        return np.concatenate(found)[:, None]

    return sample


# -- one gradient --------------------------------------------------------------------------------------------


def _gradient(epsilon: float, delta: float) -> Sequence[Case]:
    """g̃ = Σ_i x_i clip_C(y_i − x_iᵀθ) + σ ζ at a θ where the record's residual is clipped."""
    multiplier = privacy.calibrate_gaussian(epsilon, delta)
    pair, theta = pairs.clipped_residual()
    plan = Plan(
        solver="audit", preset="", n_samples=len(pair.X), n_columns=2, epsilon=epsilon, delta=delta, n_iter=1,
        k1=0, k2=0, clip=1.0, gamma=0.0, noise_multiplier=multiplier, n_passes=1,
    )  # fmt: skip
    means = [side.gradient(theta, plan.clip) for side in pair.rows()]

    def sample(side: int, runs: int, noise: Noise) -> np.ndarray:
        found = []
        for batch, count in _batches(runs):
            many = np.tile(means[side], (count, 1))
            released = common.release_gradient("gradient_0", many, plan, noise(batch), ReleaseLog())
            found.append(scores.gaussian_ratio(released, means[0], means[1], multiplier * plan.clip))
        return np.concatenate(found)[:, None]

    return [(_claim([GaussianEvent(multiplier, 1)], delta), sample)]


SINGLE = (
    Mechanism("mixing", "rows of a Gaussian sketch", 1.0, _mixing),
    Mechanism("wishart", "the same as one Wishart draw", 0.25, _wishart),
    Mechanism("gradient", "a clipped gradient with its noise", 1.0, _gradient),
)
