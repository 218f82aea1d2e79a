"""Second opinions in 50-digit arithmetic, written from the printed formulas and sharing no code with the
package."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp

DIGITS = 50
# Orders near one lose log10(1/(alpha-1)) digits in the printed formulas: the working precision covers 1e-16,
# twice.
WORKING_DIGITS = 120


def exact(function: Callable[..., mp.mpf]) -> Callable[..., mp.mpf]:
    def at_full_precision(*arguments: float) -> mp.mpf:
        with mp.workdps(WORKING_DIGITS):
            return function(*(mp.mpf(argument) for argument in arguments))

    return at_full_precision


@exact
def phi(alpha: mp.mpf, gamma: mp.mpf) -> mp.mpf:
    return (alpha * mp.log(1 - 1 / gamma) - mp.log(1 - alpha / gamma)) / (2 * (alpha - 1))


@exact
def phi_bar(alpha: mp.mpf, gamma: mp.mpf) -> mp.mpf:
    first = mp.log(1 - 1 / gamma - 1 / (4 * gamma**2))
    second = mp.log(1 - alpha / gamma - alpha**2 / (4 * gamma**2))
    return (alpha * first - second) / (2 * (alpha - 1))


@exact
def gaussian(alpha: mp.mpf, sigma: mp.mpf, sensitivity: mp.mpf) -> mp.mpf:
    return alpha * sensitivity**2 / (2 * sigma**2)


@exact
def laplace(alpha: mp.mpf, scale: mp.mpf, sensitivity: mp.mpf) -> mp.mpf:
    ratio = sensitivity / scale
    share = alpha / (2 * alpha - 1)
    grown, shrunk = mp.exp((alpha - 1) * ratio), mp.exp(-alpha * ratio)
    return mp.log(share * grown + (1 - share) * shrunk) / (alpha - 1)


def minimum_epsilon(curve: Callable[[mp.mpf], mp.mpf], delta: mp.mpf, lower: mp.mpf, upper: mp.mpf) -> mp.mpf:
    """Minimum over log(alpha - 1) in [log lower, log upper] of the Canonne-Kamath-Steinke bound.

    Golden section on a quasi-convex function, to 1e-9 in log(alpha - 1), so to about 1e-18 in the value.
    """
    with mp.workdps(DIGITS):

        def value(position: mp.mpf) -> mp.mpf:
            t = mp.exp(position)
            alpha = 1 + t
            return curve(alpha) + (mp.log(1 / mp.mpf(delta)) + t * mp.log(t / alpha) - mp.log(alpha)) / t

        ratio = (mp.sqrt(5) - 1) / 2
        a, b = mp.log(lower), mp.log(upper)
        at_end = value(b)  # the minimum may lie at the end of the range
        c, d = b - ratio * (b - a), a + ratio * (b - a)
        at_c, at_d = value(c), value(d)
        while b - a > mp.mpf("1e-9"):
            if at_c < at_d:
                b, d, at_d = d, c, at_c
                c = b - ratio * (b - a)
                at_c = value(c)
            else:
                a, c, at_c = c, d, at_d
                d = a + ratio * (b - a)
                at_d = value(d)
        return min(at_c, at_d, at_end)


def assert_just_above(value: float, truth: mp.mpf, relative: float = 1e-9) -> None:
    """value in [truth, truth (1 + relative)], compared without rounding."""
    with mp.workdps(WORKING_DIGITS):
        number = mp.mpf(value)
        assert number >= truth, f"below the truth by {mp.nstr((truth - number) / abs(truth), 5)} (relative)"
        assert number <= truth * (1 + mp.mpf(relative)), f"excess {mp.nstr((number - truth) / truth, 5)}"
