"""Checks of arguments: each names the argument, what was expected, what came and the next step."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

from fastdp_dask.errors import ArgumentError, LargeDeltaWarning


def _number(name: str, value: Any, expected: str, hint: str) -> float:
    if value is None:
        raise ArgumentError(f"{name} must be given: expected {expected}, got None. {hint}")
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentError(f"{name} must be {expected}, got {type(value).__name__}. {hint}")
    try:
        return float(value)
    except OverflowError:
        return math.inf  # no argument takes it


def epsilon(value: Any) -> float:
    """Return `value` as a float if it is a usable epsilon: finite and > 0."""
    hint = "Typical values lie between 0.1 and 10."
    number = _number("epsilon", value, "a finite number > 0", hint)
    if not (math.isfinite(number) and number > 0):
        raise ArgumentError(f"epsilon must be a finite number > 0, got epsilon={number!r}. {hint}")
    return number


def delta(value: Any) -> float:
    """Return `value` as a float if it is a usable delta: 0 < delta < 1."""
    hint = "Choose it well below 1 / n_samples, for example 1 / n_samples**2."
    number = _number("delta", value, "a number with 0 < delta < 1", hint)
    if not 0 < number < 1:  # also false for nan
        raise ArgumentError(f"delta must satisfy 0 < delta < 1, got delta={number!r}. {hint}")
    return number


def warn_of_large_delta(delta: float, n_samples: int) -> None:
    """Warn where delta ≥ 1/n: a mechanism that publishes one record picked at random satisfies (0, 1/n)."""
    if delta * n_samples >= 1:
        warnings.warn(
            f"delta={delta!r} is at least 1/n_samples, with n_samples={n_samples}: it would allow one whole record to "
            "be published. Expected well below that; choose for example 1 / n_samples**2.",
            LargeDeltaWarning,
            stacklevel=3,
        )


def finite(name: str, value: Any, hint: str = "Pass an ordinary finite number.") -> float:
    """Return `value` as a finite float."""
    number = _number(name, value, "a finite number", hint)
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, got {name}={number!r}. {hint}")
    return number


def positive(name: str, value: Any, hint: str = "Pass a finite number above zero.") -> float:
    """Return `value` as a finite float > 0."""
    number = _number(name, value, "a finite number > 0", hint)
    if not (math.isfinite(number) and number > 0):
        raise ArgumentError(f"{name} must be a finite number > 0, got {name}={number!r}. {hint}")
    return number


def not_negative(name: str, value: Any, hint: str = "Pass a finite number, zero or above.") -> float:
    """Return `value` as a finite float >= 0."""
    number = _number(name, value, "a finite number >= 0", hint)
    if not (math.isfinite(number) and number >= 0):
        raise ArgumentError(f"{name} must be a finite number >= 0, got {name}={number!r}. {hint}")
    return number


def count(
    name: str, value: Any, *, minimum: int = 1, maximum: int | None = None, hint: str = "Pass a whole number."
) -> int:
    """Return `value` as an int from `minimum` to `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        got = "None" if value is None else type(value).__name__
        raise ArgumentError(f"{name} must be a whole number >= {minimum}, got {got}. {hint}")
    number = int(value)
    if number < minimum:
        raise ArgumentError(f"{name} must be a whole number >= {minimum}, got {name}={number}. {hint}")
    if maximum is not None and number > maximum:
        raise ArgumentError(f"{name} must be a whole number <= {maximum}, got {name}={number}. {hint}")
    return number


def choice(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        got = repr(value) if isinstance(value, str) else type(value).__name__
        raise ArgumentError(f"{name} must be one of {listed}, got {got}. Check the spelling.")
    return value


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False (NumPy's too): a text such as "no" would count as True."""
    if not isinstance(value, bool) and type(value).__name__ != "bool":  # numpy.bool
        raise ArgumentError(f"{name} must be True or False, got {type(value).__name__}. Give one of the two.")
    return bool(value)
