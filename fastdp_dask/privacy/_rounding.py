"""The one place that says why a privacy bound computed here is never below the true one.

Analysis.  Let u = 2**-53.  Every curve of `rdp.py` is a sum of *non-negative* terms, so its relative error is
at most the worst relative error of a term, plus u for each addition.  A term is a product of at most 60
correctly rounded operations (u each, Horner steps included: their partial sums do not cancel) and of at most
two library logarithms or exponentials (at most 8u each): 76u.  Two things amplify: the difference -log(1-s) -
s for s >= 1/2, and the elasticity in 1/(gamma - 1), together by less than 8; and the argument gamma - alpha e
of the papers' curve, by 1/(1 - 0.966) < 30 at its last order 4 gamma/5 (in the tight curve it is one
correctly rounded subtraction).  In all below 76 * 8 * 30 u < 2**-38; the truncation of the series is below
2**-60.  Every curve is therefore inflated once by 1 + 2**-36 (1.5e-11), and one least normal number is added,
so that a product that underflows is covered too.

Where terms of both signs meet (conversion to epsilon), the same factor multiplies the sum of the *absolute*
values of the terms, which bounds the error of a sum that cancels.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

SLACK = 2.0**-36
TINY = float(np.finfo(np.float64).tiny)

_Real = TypeVar("_Real", float, np.ndarray)


def round_up(value: _Real) -> _Real:
    """A number certainly not below the exact, non-negative quantity that `value` approximates."""
    return value * (1.0 + SLACK) + TINY
