"""Budgets as exact decimals: what is written is what is added, so that ten times 0.1 are 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import lru_cache
from typing import Any, NamedTuple

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError

SMALLEST_EPSILON = Decimal("1e-12")  # anything less is a slip of a unit: its noise would drown every answer
_MOST_DECIMALS = 360  # more than any float's shortest decimal has
# 309 digits before the point, 360 behind it, carries.  Inexact is an error, never a rounding.
_EXACT = Context(prec=800, traps=[Inexact, InvalidOperation, Overflow])


class Amount(NamedTuple):
    """(epsilon, delta) as floats, rounded to the side that does not overstate what may still be spent."""

    epsilon: float
    delta: float


class ExactAmount(NamedTuple):
    """(epsilon, delta) as decimals."""

    epsilon: Decimal
    delta: Decimal

    def plus(self, other: ExactAmount) -> ExactAmount:
        """Sum, exactly."""
        return ExactAmount(_EXACT.add(self.epsilon, other.epsilon), _EXACT.add(self.delta, other.delta))

    def minus(self, other: ExactAmount) -> ExactAmount:
        """Difference, exactly."""
        return ExactAmount(_EXACT.subtract(self.epsilon, other.epsilon), _EXACT.subtract(self.delta, other.delta))

    def covers(self, other: ExactAmount) -> bool:
        """Whether neither part of `other` is larger."""
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def rounded_down(self) -> Amount:
        """The largest floats whose shortest decimals do not exceed this."""
        return Amount(*(_beside(value, -math.inf) for value in self))

    def rounded_up(self) -> Amount:
        """The smallest floats whose shortest decimals are not below this."""
        return Amount(*(_beside(value, math.inf) for value in self))

    def texts(self) -> tuple[str, str]:
        """Plain decimals, for messages and files."""
        return text(self.epsilon), text(self.delta)


NOTHING = ExactAmount(Decimal(0), Decimal(0))


def exact(epsilon: Any, delta: Any) -> ExactAmount:
    """Check a budget or a charge: epsilon finite and > 0, 0 <= delta < 1.

    A float stands for the shortest decimal that denotes it, 0.1 for one tenth; a Decimal for itself.

    Raises
    ------
    ArgumentError
        nan, inf, zero (of either sign), a negative epsilon or one below 1e-12; a delta outside [0, 1), or -0.0.
    """
    whole = ExactAmount(_positive_epsilon(epsilon), _delta(delta))
    if whole.epsilon < SMALLEST_EPSILON:
        raise ArgumentError(
            f"epsilon must be at least {text(SMALLEST_EPSILON)} in a ledger, got epsilon={text(whole.epsilon)}. "
            "Typical values lie between 0.1 and 10."
        )
    return whole


def total(amounts: Iterable[ExactAmount]) -> ExactAmount:
    """Sum, exactly."""
    result = NOTHING
    for amount in amounts:
        result = result.plus(amount)
    return result


def text(value: Decimal) -> str:
    """One spelling for each number: 0.10 and 1e-1 are both 0.1."""
    short = value.normalize(_EXACT) if value else Decimal(0)
    return f"{short:f}" if -5 <= short.adjusted() <= 15 else f"{short:e}".lower().replace("e+", "e")


@lru_cache(maxsize=1024)  # every charge reads all earlier ones, and most of them are of the same few amounts
def parse(epsilon: str, delta: str) -> ExactAmount:
    """What `texts` wrote; ValueError for anything else."""
    try:
        amount = exact(Decimal(epsilon), Decimal(delta))
    except (ArithmeticError, ArgumentError) as error:
        raise ValueError("not an amount") from error
    if amount.texts() != (epsilon, delta):
        raise ValueError("not an amount as texts() spells it")
    return amount


def _positive_epsilon(value: Any) -> Decimal:
    if isinstance(value, Decimal) and value.is_finite() and value > 0:
        return _bounded("epsilon", value)
    return Decimal(repr(_validate.epsilon(_as_number(value))))


def _delta(value: Any) -> Decimal:
    if isinstance(value, Decimal) and value.is_finite() and 0 < value < 1:
        return _bounded("delta", value)
    number = _validate.finite("delta", _as_number(value), "Choose 0 <= delta < 1.")
    if number == 0 and math.copysign(1.0, number) > 0:
        return Decimal(0)  # a pure mechanism
    return Decimal(repr(_validate.delta(number)))


def _bounded(name: str, value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_MOST_DECIMALS or value.adjusted() > 308:
        raise ArgumentError(
            f"{name} must be below 1e309 with at most {_MOST_DECIMALS} decimals, got {len(str(value))} characters. "
            "Round it up."
        )
    return value


def _as_number(value: Any) -> Any:
    if not isinstance(value, Decimal):
        return value
    return math.nan if value.is_nan() else float(value)


def _beside(value: Decimal, side: float) -> float:
    number = float(value)
    while (wrong := Decimal(repr(number)).compare(value)) and (wrong > 0) == (side < 0):
        number = math.nextafter(number, side)
    return number
