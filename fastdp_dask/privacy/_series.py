"""Remainders of log and exp after their first-order term, free of cancellation.

`log_remainder(v) = -log(1 - v) - v` and `exp_remainder(x) = exp(x) - 1 - x` are both >= 0.  The quotients by
the argument are what the curves need: they neither underflow nor lose digits near zero.
"""

from __future__ import annotations

import numpy as np

# 1/(2k+3), k < 19: with z**2 <= 1/9 the first omitted term is below 2**-65 of the sum.
_ATANH_TAIL = 1.0 / (2.0 * np.arange(19) + 3.0)
# 1/(k+2)!, k < 20: with |x| <= 1 the first omitted term is below 2**-68 of the sum.
_EXP_TAIL = 1.0 / np.cumprod(np.arange(2.0, 22.0))


def _horner(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def log_remainder_ratio(v: np.ndarray, complement: np.ndarray) -> np.ndarray:
    """(-log(1 - v) - v) / v for v < 1, shape kept; `complement` is 1 - v as precisely as the caller knows it.

    For |v| <= 1/2, with z = v/(2-v), -log(1-v) = 2 atanh z and v = 2z/(1+z), so the ratio is
    z + (1+z) z**2 (1/3 + z**2/5 + z**4/7 + ...).  Beyond, the plain difference loses at most three bits.
    """
    near = np.abs(v) <= 0.5
    small = np.where(near, v, 0.0)
    z = small / (2.0 - small)
    series = z + (1.0 + z) * z**2 * _horner(_ATANH_TAIL, z**2)
    safe = np.where(near, 0.5, v)
    return np.where(near, series, (-np.log(np.where(near, 0.5, complement)) - safe) / safe)


def exp_remainder_ratio(x: np.ndarray) -> np.ndarray:
    """(exp(x) - 1 - x) / x for x <= 1: x (1/2! + x/3! + ...) for |x| <= 1, the plain difference below -1."""
    near = np.abs(x) <= 1.0
    small = np.where(near, x, 0.0)
    far = np.where(near, -1.0, x)
    return np.where(near, small * _horner(_EXP_TAIL, small), (np.expm1(far) - far) / far)
