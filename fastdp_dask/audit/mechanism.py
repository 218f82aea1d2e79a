"""What can be audited: a claim, pairs of data sets, and a way to run the code on either of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fastdp_dask.audit.bounds import Claim
from fastdp_dask.errors import PrivacyLeakWarning
from fastdp_dask.rng import NoiseSource, derive_key

Noise = Callable[[int], NoiseSource]
"""The noise of run number i (or of batch number i)."""

Sampler = Callable[[int, int, Noise], np.ndarray]
"""(side, runs, noise) → scores (runs, any number) of that many independent runs on one side of a pair."""

Case = tuple[Claim, Sampler]
"""What is claimed, and how to run it on either side of one pair of neighbours."""


@dataclass(frozen=True)
class Mechanism:
    """`build(epsilon, delta)` gives a claim and a sampler for each pair of neighbours.

    `share` is the part of the requested runs that it makes: whole fits are slower than single releases.
    """

    name: str
    covers: str
    share: float
    build: Callable[[float, float], Sequence[Case]]


def noise_for(seed: int | None, *path: str | int) -> Noise:
    """Secure noise for every run, or with a seed reproducible noise."""
    if seed is None:
        return lambda _: NoiseSource()

    def seeded(run: int) -> NoiseSource:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            return NoiseSource(derive_key(seed, "audit", *path, run))

    return seeded
