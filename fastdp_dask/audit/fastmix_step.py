"""The private step of `fastmix`, with the arguments that `fastmix` itself calls it with."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp_dask import fast_mix
from fastdp_dask.audit.replay import ReplayedRows
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import PrivacyLeakWarning
from fastdp_dask.rng import NoiseSource
from fastdp_dask.sketch.srht import SRHT


@dataclass(frozen=True)
class FastmixStep:
    """Call it with rows and noise: the same plan and sketch, another draw."""

    arguments: tuple[Any, ...]
    sketch: SRHT
    plan: Any

    def __call__(self, rows: ReplayedRows, noise: NoiseSource) -> fast_mix.FastMixRelease:
        """One release."""
        given: Any = [
            rows if isinstance(value, BlockedRows) else noise if isinstance(value, NoiseSource) else value
            for value in self.arguments
        ]
        return fast_mix._release(*given)


def fastmix_step(X: np.ndarray, **options: Any) -> FastmixStep:
    """What `fastmix(X, **options)` would do after its checks, its plan and its choice of a sketch."""
    recorded: list[tuple[Any, ...]] = []
    genuine = fast_mix._release
    fast_mix._release = lambda *arguments: recorded.append(arguments)  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            fast_mix.fastmix(X, **options)
    finally:
        fast_mix._release = genuine
    (arguments,) = recorded
    (sketch,) = (value for value in arguments if isinstance(value, SRHT))
    (plan,) = (value for value in arguments if isinstance(value, fast_mix._Plan))
    return FastmixStep(arguments, sketch, plan)
