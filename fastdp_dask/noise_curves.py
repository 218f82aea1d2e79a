r"""How much noise each sketch mechanism needs, as arrays over ε, and how flat an SRHT is, as arrays over k2.

Pure functions of public numbers (`deviation_curve` of a given array), for figures and comparisons.

Noise is η², the variance added to every entry of the sketch when nothing is known of λ_min, for rows of norm ≤ 1:

    Gaussian mixing              η² = γ                          φ(α; γ), k1 rows
    fast mixing, paper           η² = γ̄ (1 + 2m)                 φ̄(α; γ̄), k1 rows
    fast mixing, tight           η² = γ (1 + 2m)                 φ(α; γ), k1 rows
    fast mixing, any sketch      η² = (γ + sqrt(γ² + γ))²        the limit C² = 1 + 2m → ∞
    Upadhyay (2014)              η² = C² k1 ln(2/δ) ln(16 k1/δ)² / ε², C = 4

Source: GM and IHM; FM, Lemma 1 and Appendix C.2; for the last, the form of Blocki, Blum, Datta & Sheffet (FOCS 2012)
and Upadhyay (arXiv:1409.5414 and 1410.2470): all singular values at least C sqrt(k1 ln(2/δ)) ln(16 k1/δ)/ε.  See
`upadhyay` for its constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastdp_dask import _validate, privacy
from fastdp_dask.sketch.srht import SRHT


def gaussian_mixing(epsilons: Sequence[float], delta: float, k1: int) -> np.ndarray:
    """η² = γ at which k1 Gaussian-mixed rows are (ε, δ)-private, for each ε, (len(epsilons),)."""
    return np.array([privacy.calibrate_gamma(epsilon, delta, k1) for epsilon in epsilons])


def fast_mixing(
    epsilons: Sequence[float], delta: float, k1: int, deviation: float, *, preset: str = "tight"
) -> np.ndarray:
    """η² = γ (1 + 2m) at which k1 fast-mixed rows are (ε, δ)-private, for each ε, (len(epsilons),).

    Parameters
    ----------
    epsilons : sequence of float
    delta : float
    k1 : int
    deviation : float
        m ≥ 0, taken as known.
    preset : {"tight", "paper"}
        The Gaussian-mixing curve, or the curve of FM's Lemma 1 (γ > 25/8, whatever ε is).
    """
    bound = _validate.choice("preset", preset, ("tight", "paper"))
    gammas = np.array([privacy.calibrate_gamma(epsilon, delta, k1, bound=bound) for epsilon in epsilons])
    return gammas * (1.0 + 2.0 * deviation)


def any_sketch(epsilons: Sequence[float], delta: float, k1: int) -> np.ndarray:
    """η² that is enough for every sketch with unit columns, the limit of 1 + 2m → ∞, for each ε, (len(epsilons),).

    η² = (γ + sqrt(γ² + γ))² solves 2/sqrt(η²) + 1/η² = 1/γ, where the left side is the most that N can be: with
    a = Σ^(−1/2) x, ‖a‖² ≤ 1/η², b = Σ^(−1/2) Zᵀu, ‖b‖ ≤ 1, E has nuclear norm 2 ‖a‖ ‖b − a/2‖, largest where b and a
    are opposed (`privacy.beta_free`).  It is proved for both orders of a pair, every sketch and all data.

    FM, Appendix C.2, has 2/sqrt(η²) − 1/η² = 1/γ, η² = (γ + sqrt(γ² − γ))²: b along a, the direction that costs most
    where Σ loses E.  That is smaller by a factor of about 1 + 2/sqrt(η²), half a percent at γ = 200; not proved here.
    """
    return np.array([privacy.beta_free(privacy.calibrate_gamma(epsilon, delta, k1)) for epsilon in epsilons])


def upadhyay(epsilons: Sequence[float], delta: float, k1: int) -> np.ndarray:
    """η² = (4 sqrt(k1 ln(2/δ)) ln(16 k1/δ)/ε)²: the least squared singular value of the earlier analysis.

    Its shape is that of one Gaussian row, composed k1 times: each row gets ε/sqrt(4 k1 ln(2/δ)) and δ/(2 k1).  The
    constant is one of this module, not copied from a theorem: 4 = sqrt(16) is the smaller of the two readings of it (16
    would raise the curve sixteenfold), so that the comparison favours the earlier analysis.  That it is enough for k1
    Gaussian rows is tested against the exact account; it is used for comparison only, never to calibrate a release.
    """
    log = math.sqrt(16 * k1 * math.log(2 / delta)) * math.log(16 * k1 / delta)
    return (log / np.asarray(epsilons, dtype=float)) ** 2


def coherence_curve(n_padded: int, sizes: Sequence[int], seeds: Sequence[int]) -> np.ndarray:
    """Δ of an SRHT with uniform rows, (len(seeds), len(sizes)), N = n_padded."""
    return np.array([[SRHT(n_padded, size, seed=seed).coherence() for size in sizes] for seed in seeds])


def deviation_curve(X: np.ndarray, sizes: Sequence[int], seeds: Sequence[int]) -> np.ndarray:
    """m = max_i ‖row i of SᵀSX − X‖ for X (n, d), rows of norm ≤ 1, (len(seeds), len(sizes)).  NOT PRIVATE in X."""
    found = np.empty((len(seeds), len(sizes)))
    for i, seed in enumerate(seeds):
        for j, size in enumerate(sizes):
            sketch = SRHT(X.shape[0], size, seed=seed)
            away = sketch.adjoint(sketch.apply(X)) - X
            found[i, j] = float(np.linalg.norm(away, axis=1).max())
    return found
