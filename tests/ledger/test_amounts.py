"""Budgets add up as decimals do."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.errors import ArgumentError
from fastdp_dask.ledger.amounts import NOTHING, ExactAmount, exact, parse, text, total

EPSILONS = st.floats(1e-12, 1.7e308)
DELTAS = st.floats(0, 1, exclude_max=True).filter(lambda x: str(x) != "-0.0")


@given(st.lists(st.tuples(EPSILONS, DELTAS), max_size=8))
def test_sums_are_those_of_fractions(pairs: list[tuple[float, float]]) -> None:
    summed = total(exact(*pair) for pair in pairs)
    for got, column in zip(summed, (0, 1), strict=True):
        assert Fraction(got) == sum((Fraction(repr(pair[column])) for pair in pairs), Fraction(0))
    assert summed.minus(summed) == NOTHING


@given(EPSILONS, DELTAS)
def test_text_comes_back(epsilon: float, delta: float) -> None:
    amount = exact(epsilon, delta)
    assert parse(*amount.texts()) == amount
    assert float(text(amount.epsilon)) == epsilon


@given(st.lists(EPSILONS, min_size=1, max_size=5))
def test_roundings_stay_on_their_side_and_next_to_the_value(parts: list[float]) -> None:
    value = total(exact(part, 0) for part in parts).epsilon
    if value > Decimal("1.7e308"):
        return
    below, above = ExactAmount(value, Decimal(0)).rounded_down(), ExactAmount(value, Decimal(0)).rounded_up()
    assert Decimal(repr(below.epsilon)) <= value <= Decimal(repr(above.epsilon))
    assert np.nextafter(below.epsilon, np.inf) >= above.epsilon


def test_floats_that_decimals_denote_are_not_rounded() -> None:
    third = total([exact(0.1, 0.1), exact(0.1, 0.1), exact(0.1, 0.1)])
    assert third.rounded_up() == third.rounded_down() == (0.3, 0.3)  # 0.1 + 0.1 + 0.1 as floats is more


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.1, "0.1"), (Decimal("0.100"), "0.1"), (1, "1"), (np.float64(0.25), "0.25"), (np.int64(3), "3"),
     (Fraction(1, 4), "0.25"), (1e-9, "1e-9"), (2.5e20, "2.5e20"), (1e300, "1e300"), (100.0, "100")],
)  # fmt: skip
def test_spelling(value: Any, expected: str) -> None:
    assert exact(value, 0).texts() == (expected, "0")


BAD = [float("nan"), float("inf"), -float("inf"), -1, -0.0, "0.1", True, None, 1j, [0.1], Decimal("NaN"),
       Decimal("sNaN"), Decimal("Infinity"), Decimal(-1), Decimal("-0")]  # fmt: skip


@pytest.mark.parametrize("bad", [*BAD, 0, 0.0, Decimal(0), Decimal("1e309"), Decimal("0." + "1" * 361)])
def test_epsilons_that_are_none(bad: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^epsilon must .*\. [A-Z]"):
        exact(bad, 0)


@pytest.mark.parametrize("bad", [*BAD, 1, 1.0, 1.5, Decimal(1), Decimal("0." + "1" * 361)])
def test_deltas_that_are_none(bad: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^delta must .*\. [A-Z]"):
        exact(1, bad)


@pytest.mark.parametrize("tiny", [1e-17, 9.99e-13, Decimal("1e-300"), 5e-324])
def test_an_epsilon_that_can_only_be_a_slip_is_refused(tiny: Any) -> None:
    with pytest.raises(ArgumentError, match="epsilon must be at least 1e-12"):
        exact(tiny, 0)
    assert exact(1e-12, 5e-324).texts() == ("1e-12", "5e-324")


@pytest.mark.parametrize("bad", ["", "1.0", "0.10", "nan", "Infinity", "-1", "0", "1e-13", "x", "1_0"])
def test_texts_of_another_hand_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        parse(bad, "0")
