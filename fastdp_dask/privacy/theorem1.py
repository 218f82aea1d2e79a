"""The closed privacy statement of one FastMix release."""

from __future__ import annotations

import numpy as np

from fastdp_dask import _validate
from fastdp_dask.privacy._rounding import round_up
from fastdp_dask.privacy.conversion import check_delta, rdp_to_epsilon
from fastdp_dask.privacy.rdp import fast_mixing_rdp_paper, mixing_rdp

BOUNDS = ("tight", "paper")


def mixing_curve(alpha: np.ndarray, gamma: float, bound: str) -> float | np.ndarray:
    """The Rényi curve of one row that `bound` names: "tight" `mixing_rdp`, "paper"
    `fast_mixing_rdp_paper`."""
    if _validate.choice("bound", bound, BOUNDS) == "tight":
        return mixing_rdp(alpha, gamma)
    return fast_mixing_rdp_paper(alpha, gamma)


def fastmix_epsilon(omega: float, gamma: float, k1: int, delta: float, bound: str = "paper") -> float:
    """epsilon of one FastMix release: two Laplace releases and k1 mixed rows.

    epsilon = 2/omega + max(0, min over alpha of
    k1 curve(alpha; gamma) + [log(3/delta) + (alpha - 1) log(1 - 1/alpha) - log alpha] / (alpha - 1) ).

    Parameters
    ----------
    omega : float
        Scale of the Laplace noise on the coherence m and on the smallest eigenvalue, in units of their
        sensitivities.
    gamma : float
        Noise level, (lambda + eta²)/(1 + 2m); > 25/8 for "paper", > 1 for "tight".
    k1 : int
        Number of released rows, >= 1.
    delta : float
        Total delta, 3e-300 <= delta < 1.  The shift of the two Laplace releases must be at least log(3/(2
        delta)).
    bound : {"paper", "tight"}
        "paper": curve phibar over 1 < alpha < 4 gamma/5.  "tight": curve phi over 1 < alpha < gamma.

    Returns
    -------
    float
        epsilon, rounded up.

    Raises
    ------
    ArgumentError
        An argument is out of range.

    Notes
    -----
    Source: FM, Theorem 1.  delta = 2 delta/3 + delta/3: with shift tau = log(3/(2 delta)) each
    estimate is on the wrong side with probability exp(-tau)/2 = delta/3.  Outside that event, of one data
    set, the noise level holds for the pair, and the conversion of the rows spends the last delta/3.  The
    Laplace releases cost 1/omega each.
    """
    noise = _validate.positive("omega", omega)
    rows = _validate.count("k1", k1)
    third = np.nextafter(check_delta(delta) / 3.0, 0.0)

    def curve(alpha: np.ndarray) -> np.ndarray:
        return np.asarray(rows * mixing_curve(alpha, gamma, bound))

    return round_up(2.0 / noise) + rdp_to_epsilon(curve, float(third))
