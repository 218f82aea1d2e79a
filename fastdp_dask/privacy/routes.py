"""The choice among the routes of `floors`: the least beta that a given failure probability can buy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError, CalibrationError
from fastdp_dask.privacy.floors import (
    beta_free,
    beta_leverage,
    beta_public,
    coherence_bound_public,
    coherence_bound_uniform,
    leverage_bound,
)

ROUTES = ("auto", "gram", "public", "leverage", "free")

_CHI_GRID = tuple(float(chi) for chi in np.linspace(0.02, 0.98, 49))


@dataclass(frozen=True)
class Floor:
    """A requirement lambda_min + eta² >= `beta`, and the probability `failure_delta` to pay for it."""

    name: str
    beta: float
    failure_delta: float
    reason: str


def choose_floor(
    gamma: float,
    *,
    n_padded: int,
    d: int,
    sketch_size: int,
    delta: float,
    coherence: float | None = None,
    route: str = "auto",
) -> Floor:
    """The least beta at which the noise level is gamma, for an SRHT drawn freshly for this data.

    Parameters
    ----------
    gamma : float
        Noise level, > 0.
    n_padded, d, sketch_size : int
        Public sizes: N (a power of two), columns of the sketched matrix, k2 <= N.
    delta : float
        Failure probability that a route may spend at most; the free and Gram routes spend none.
    coherence : float or None
        Delta of the sketch if it is known.  None: Delta is bounded for uniformly sampled rows, out of
        `delta`.
    route : {"auto", "gram", "public", "leverage", "free"}
        "auto" takes the least; a name takes that route.

    Returns
    -------
    Floor
        The route, its beta (rounded up), the failure probability that it spends, and why it was taken.

    Raises
    ------
    ArgumentError
        An argument is out of range, or "gram" is asked for with sketch_size < n_padded.
    CalibrationError
        "leverage" is asked for, but no distortion fits `delta`.

    Notes
    -----
    Depends on public numbers only, so the choice itself reveals nothing.  Proofs: `floors`.
    """
    wanted = _validate.choice("route", route, ROUTES)
    budget = _validate.delta(delta)
    if wanted == "gram" and sketch_size != n_padded:
        raise ArgumentError(
            f"sketch_size must equal n_padded={n_padded} for route='gram', got sketch_size={sketch_size}. "
            f"Use route='auto'."
        )
    if wanted in ("auto", "gram") and sketch_size == n_padded:
        return Floor("gram", beta_public(gamma, 0.0), 0.0, "the sketch is orthonormal, so delta_i = 0")
    found: list[Floor] = []
    if wanted in ("auto", "free"):
        found.append(Floor("free", beta_free(gamma), 0.0, "holds for every sketch and spends no delta"))
    if wanted in ("auto", "public"):
        m_star = coherence_bound_public(n_padded, sketch_size, budget)
        reason = f"the signs are independent of the data: m* = {m_star:.6g}"
        spent = 0.0 if m_star == 0.0 else budget
        found.append(Floor("public", beta_public(gamma, m_star), spent, reason))
    if wanted in ("auto", "leverage"):
        best = _leverage(gamma, n_padded, d, sketch_size, budget, coherence)
        if best is not None:
            found.append(best)
        elif wanted == "leverage":
            raise CalibrationError(
                f"route='leverage' needs a larger sketch: no distortion below 1 fails with probability <= "
                f"delta={budget!r} at sketch_size={sketch_size}. Raise sketch_size or use route='auto'."
            )
    return min(found, key=lambda floor: (floor.beta, floor.failure_delta))


def _leverage(
    gamma: float, n_padded: int, d: int, sketch_size: int, budget: float, coherence: float | None
) -> Floor | None:
    """Smallest chi of the grid whose total failure fits: beta grows with chi, the failure falls with it."""
    share = budget * 0.25 * (1.0 - 2.0**-30)
    spent_on_coherence = 0.0
    if coherence is None:
        coherence, spent_on_coherence = coherence_bound_uniform(n_padded, sketch_size, share), share
    for chi in _CHI_GRID:
        leverage, failure = leverage_bound(n_padded, d, sketch_size, coherence, share, share, chi)
        total = (failure + spent_on_coherence) * (1.0 + 2.0**-52)
        if total <= budget:
            reason = f"concentration and embedding at chi = {chi:.2g}: Q = {leverage:.6g}"
            return Floor("leverage", beta_leverage(gamma, leverage), total, reason)
    return None
