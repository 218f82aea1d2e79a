"""Noise on a vector, a symmetric matrix or a number, added as whole numbers of a public grid, once, on the driver.

What is released is k · unit with k whole: the same grid for all data, so that no low bits tell two data sets apart,
and the noise has exactly the stated discrete law.  `unit` is a power of two near 2⁻⁴⁴ of the noise: a function of
public numbers.  A value that does not lie on the grid is first rounded to it, and the sensitivity grows by what that
may add.

A discrete Gaussian of deviation sqrt(s² + 36) or more, in units, is at least as private as real Gaussian noise of
deviation s, for every event and in every composition, up to a factor 1 ± 10⁻³⁰⁷ in probability; a discrete Laplace of
scale t + 1 has a Rényi curve below that of real Laplace noise of scale t.  So the accounts for real noise hold
(PROOFS.md, section 9).
"""

from __future__ import annotations

import math

import numpy as np

from fastdp_dask.rng import NoiseStream

_UNIT_BITS = 44
_EXACT_BITS = 53
_ROUNDED = 1.5  # a difference of two values moves by this many units at most, when each is rounded, and cast before


def gaussian(
    value: np.ndarray,
    noise_multiplier: float,
    noise: NoiseStream,
    *,
    sensitivity: float = 1.0,
    step: float = 0.0,
    largest: float,
) -> np.ndarray:
    """value + σ ζ, ζ ~ N(0, I) on the grid, σ = noise_multiplier · sensitivity (and not less).

    Parameters
    ----------
    value : ndarray of shape (..., d)
        Private; blanking one record moves each of these vectors by at most `sensitivity`.
    noise_multiplier : float
    noise : NoiseStream
    sensitivity : float
        Euclidean, public.
    step : float
        Power of two of which every entry is a whole multiple, before it became a float; 0 where there is none.
    largest : float
        Public bound on the absolute value of an entry.
    """
    unit = _unit(noise_multiplier * sensitivity, largest)
    rounded = 0.0 if _lies_on(unit, step, largest) else _ROUNDED * math.sqrt(value.shape[-1])
    scale = _gaussian_scale(noise_multiplier * (sensitivity / unit + rounded))
    drawn = noise.discrete_gaussian(scale, value.size).reshape(value.shape)
    return (_whole(value, unit) + drawn) * unit


def symmetric_gaussian(
    matrix: np.ndarray,
    scale: float,
    off_diagonal: float,
    noise: NoiseStream,
    *,
    step: float = 0.0,
    largest: float,
) -> np.ndarray:
    """matrix + E, E symmetric with N(0, scale²) on the diagonal and N(0, off_diagonal²) above it, on the grid.

    Blanking one row x of norm ≤ 1 moves XᵀX by xxᵀ.  With off_diagonal = scale the released upper triangle moves by
    at most 1 in Euclidean norm (its square is (1 + Σ x_j⁴)/2 at ‖x‖ = 1, largest at a unit vector).  With
    off_diagonal = scale/√2 the triangle whose off-diagonal entries are multiplied by √2 has the norm ‖xxᵀ‖_F = ‖x‖² ≤ 1
    and independent N(0, scale²) noise: the same privacy with half the variance off the diagonal.  `step` and `largest`
    as in `gaussian`.
    """
    d = matrix.shape[0]
    unit = _unit(off_diagonal, largest)
    sensitivity = 1.0 / unit + (0.0 if _lies_on(unit, step, largest) else _ROUNDED * d)
    found = _whole(np.triu(matrix), unit)
    found[np.triu_indices(d, 1)] += noise.discrete_gaussian(
        _gaussian_scale(off_diagonal * sensitivity), d * (d - 1) // 2
    )
    found[np.diag_indices(d)] += noise.discrete_gaussian(_gaussian_scale(scale * sensitivity), d)
    return (found + np.triu(found, 1).T) * unit


def gaussian_bound(
    value: float, sensitivity: float, noise_multiplier: float, tail: float, noise: NoiseStream, *, above: bool
) -> float:
    """value ± (σ·tail + σζ): above (or below) `value` except with probability P(ζ > tail), ζ ~ N(0, 1) on the grid.

    σ = noise_multiplier · sensitivity, and not less; `value` private, of that sensitivity; the rest public.
    """
    unit, steps = _scalar_grid(sensitivity, noise_multiplier)
    scale = _gaussian_scale(noise_multiplier * steps)
    return _bound(value, unit, scale, tail, int(noise.discrete_gaussian(scale, 1)[0]), above)


def laplace_bound(
    value: float, sensitivity: float, scale_over_sensitivity: float, tail: float, noise: NoiseStream, *, above: bool
) -> float:
    """As `gaussian_bound`, ζ ~ Laplace(1): on the wrong side with probability e^−tail/2 at most, tail ≥ 0."""
    unit, steps = _scalar_grid(sensitivity, scale_over_sensitivity)
    scale = math.ceil(scale_over_sensitivity * steps) + 1
    return _bound(value, unit, scale, tail, int(noise.discrete_laplace(scale, 1)[0]), above)


def _bound(value: float, unit: float, scale: int, tail: float, drawn: int, above: bool) -> float:
    # P(noise > s) is at most that of real noise at s − 1; 2⁻⁴⁰ covers the rounding of the quantile.
    shift = math.ceil(scale * (tail + 2.0**-40 * (1.0 + abs(tail)))) + 2
    exact = math.ceil(value / unit) + shift - drawn if above else math.floor(value / unit) - shift + drawn
    found = float(exact)  # to the nearest, which may lie on the wrong side
    if above and found < exact:
        found = math.nextafter(found, math.inf)
    elif not above and found > exact:
        found = math.nextafter(found, -math.inf)
    return found * unit


def _scalar_grid(sensitivity: float, noise_multiplier: float) -> tuple[float, int]:
    """The unit, and how many of them the rounded value may move by."""
    unit = _unit(noise_multiplier * sensitivity, 0.0)
    return unit, math.floor(sensitivity / unit) + 1


def _unit(scale: float, largest: float) -> float:
    """2⁻⁴⁴ of the noise, coarser where entries up to `largest` would not be exact floats."""
    bits = math.frexp(scale)[1] - 1 - _UNIT_BITS
    if largest > 0.0:
        bits = max(bits, math.frexp(largest)[1] - _EXACT_BITS)
    return math.ldexp(1.0, bits)


def _lies_on(unit: float, step: float, largest: float) -> bool:
    """Whether entries are multiples of the unit and arrived here without a rounding."""
    return unit <= step and largest <= step * 2.0**_EXACT_BITS


def _gaussian_scale(scale: float) -> int:
    return math.ceil(math.hypot(scale, 6.0)) + 1


def _whole(value: np.ndarray, unit: float) -> np.ndarray:
    return np.rint(value / unit).astype(np.int64)
