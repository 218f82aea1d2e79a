"""Every identity of accounting, over every class of event."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import (
    Event,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    MixingEvent,
    calibrate_gamma,
    calibrate_gaussian,
    compose,
    epsilon_of,
    event_from_dict,
    rdp_to_epsilon,
    smallest_noise,
)
from fastdp_dask.privacy.events import EVENT_KINDS

ORDERS = 1.0 + np.geomspace(1e-9, 100.0, 40)
NOISY = [
    MixingEvent(1, 120.0),
    MixingEvent(1, 120.0, "paper"),
    GaussianEvent(7.0),
    LaplaceEvent(9.0),
]
ALL: list[Event] = [*NOISY, FailureEvent(1e-8)]
NOISE_FIELD = {"mixing": "gamma", "gaussian": "noise_multiplier", "laplace": "scale_over_sensitivity"}

any_event = st.one_of(
    st.builds(MixingEvent, st.integers(0, 10**6), st.floats(1.0001, 1e12), st.just("tight")),
    st.builds(MixingEvent, st.integers(0, 10**6), st.floats(3.2, 1e12), st.just("paper")),
    st.builds(GaussianEvent, st.floats(1e-3, 1e9), st.integers(0, 1000)),
    st.builds(LaplaceEvent, st.floats(1e-3, 1e9), st.integers(0, 1000)),
    st.builds(FailureEvent, st.floats(0.0, 1e-9), st.integers(0, 100)),
)


def times(event: Event, count: int) -> Event:
    return dataclasses.replace(event, **{event.multiplier: count})


def test_every_class_is_tested_here() -> None:
    assert {type(event) for event in ALL} == set(Event.__subclasses__()) == set(EVENT_KINDS.values())


@pytest.mark.parametrize("event", ALL, ids=repr)
class TestEveryEvent:
    def test_no_use_costs_nothing(self, event: Event) -> None:
        assert (times(event, 0).rdp(np.append(ORDERS, [np.inf, 1e300])) == 0.0).all()
        assert epsilon_of([times(event, 0)], 1e-9) == 0.0
        assert times(event, 0).rdp(2.0) == 0.0

    def test_copies_add_up(self, event: Event) -> None:
        for count in (2, 7, 1000):
            # Two roundings: one of the product, one of the sum.
            np.testing.assert_allclose(times(event, count).rdp(ORDERS), count * event.rdp(ORDERS), rtol=4e-16)
            copies, counted = [event] * count, [times(event, count)]
            assert epsilon_of(copies, 1e-4) == epsilon_of(counted, 1e-4)

    def test_costs_are_paid_at_all(self, event: Event) -> None:
        background = GaussianEvent(5.0)
        assert epsilon_of([background, times(event, 50)], 1e-6) > epsilon_of([background], 1e-6)

    def test_json_round_trip(self, event: Event) -> None:
        text = times(event, 3).to_json()
        record = json.loads(text)
        assert record["schema"] == 1
        assert record["kind"] == event.kind
        again = event_from_dict(record)
        assert again == times(event, 3)
        assert type(again) is type(event)
        assert again.to_json() == text
        assert type(event).from_dict(record) == again

    def test_is_immutable_and_hashable(self, event: Event) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(event, event.multiplier, 5)
        assert len({event, times(event, 1)}) == 1

    def test_damaged_records_are_refused(self, event: Event) -> None:
        record = event.to_dict()
        damaged = [
            record | {"schema": 2},
            record | {"extra": 1},
            record | {"kind": "other"},
            record | {event.multiplier: -1},
            record | {event.multiplier: 1.5},
            {key: value for key, value in record.items() if key != event.multiplier},
        ]
        for bad in damaged:
            with pytest.raises(ArgumentError):
                event_from_dict(bad)

    def test_scalars_and_arrays_agree(self, event: Event) -> None:
        assert isinstance(event.rdp(1.5), float)
        assert isinstance(compose([event])(1.5), float)
        assert event.rdp(np.array([1.5]))[0] == event.rdp(1.5)


@pytest.mark.parametrize("event", NOISY, ids=repr)
def test_less_noise_never_costs_less(event: Event) -> None:
    field = NOISE_FIELD[event.kind]
    costs = [
        epsilon_of([dataclasses.replace(times(event, 40), **{field: noise})], 1e-7)
        for noise in np.geomspace(3.2, 2000.0, 60)
    ]
    assert (np.diff(costs) < 0).all()


def test_rarer_failures_never_cost_more() -> None:
    costs = [epsilon_of([GaussianEvent(5.0), FailureEvent(p, 2)], 1e-6) for p in np.geomspace(4.9e-7, 1e-12, 30)]
    assert (np.diff(costs) <= 0).all()
    assert costs[0] > costs[-1]


@given(events=st.lists(any_event, max_size=8), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_order_never_matters(events: list[Event], seed: int) -> None:
    shuffled = random.Random(seed).sample(events, len(events))
    np.testing.assert_array_equal(compose(events)(ORDERS), compose(shuffled)(ORDERS))
    assert epsilon_of(events, 1e-5) == epsilon_of(shuffled, 1e-5)


@given(event=any_event)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_json_round_trip_is_exact(event: Event) -> None:
    assert event_from_dict(json.loads(event.to_json())) == event


@given(events=st.lists(any_event, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_composition_is_the_sum_of_the_curves(events: list[Event]) -> None:
    total = np.sum([event.rdp(ORDERS) for event in events], axis=0)
    curve = compose(events)(ORDERS)
    np.testing.assert_allclose(curve, total, rtol=1e-14)
    assert epsilon_of(events, 1e-5) >= max(epsilon_of([event], 1e-5) for event in events) * (1 - 1e-14)


def test_the_sum_is_not_rounded_below_its_terms() -> None:
    events = [GaussianEvent(noise) for noise in (1.1, 2.3, 3.7, 5.9, 7.7, 11.3)] + [LaplaceEvent(3.3, 7)]
    curve = compose(events)
    for order in ORDERS:
        assert Fraction(curve(order)) >= sum(Fraction(event.rdp(order)) for event in events)


def test_nothing_costs_nothing() -> None:
    assert epsilon_of([], 1e-9) == 0.0
    assert compose([])(2.0) == 0.0


def test_failures_are_taken_from_delta_exactly() -> None:
    rows = MixingEvent(600, 200.0)
    paid = epsilon_of([rows, FailureEvent(2.0**-30), FailureEvent(2.0**-31, 2)], 2.0**-28)
    assert paid == rdp_to_epsilon(compose([rows, FailureEvent(0.0)]), 2.0**-29)
    for spent in (
        [FailureEvent(2.0**-30)],
        [FailureEvent(2.0**-33, 8)],
        [FailureEvent(0.5), FailureEvent(1e-12)],
    ):
        with pytest.raises(ArgumentError, match=r"^delta must"):
            epsilon_of([rows, *spent], 2.0**-30)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_calibrate_then_account_stays_within_the_target(epsilon: float) -> None:
    delta = 1e-9
    left = delta - delta / 4
    laplace = smallest_noise(lambda scale: LaplaceEvent(scale, 2).rdp, epsilon, left)
    for event in (
        MixingEvent(300, calibrate_gamma(epsilon, left, 300)),
        MixingEvent(300, calibrate_gamma(epsilon, left, 100, 3, "paper"), "paper"),
        GaussianEvent(calibrate_gaussian(epsilon, left, 5), 5),
        LaplaceEvent(laplace, 2),
    ):
        achieved = epsilon_of([event, FailureEvent(delta / 4)], delta)
        assert achieved <= epsilon * (1 + 2e-15)  # delta - delta/4 is itself rounded, by one part in 2**53
        assert achieved > 0.999 * epsilon or event.kind == "mixing"


def test_bad_parameters_are_refused_by_name() -> None:
    for build, name in (
        (lambda value: MixingEvent(5, value), "gamma"),
        (lambda value: GaussianEvent(value), "noise_multiplier"),
        (lambda value: LaplaceEvent(value), "scale_over_sensitivity"),
        (lambda value: FailureEvent(value), "delta"),
    ):
        for bad in (math.nan, math.inf, -1.0, None, "1", True):
            with pytest.raises(ArgumentError, match=rf"^{name} must"):
                build(bad)
    with pytest.raises(ArgumentError, match=r"^gamma must be > 3.125"):
        MixingEvent(5, 3.0, "paper")
    with pytest.raises(ArgumentError, match=r"^bound must"):
        MixingEvent(5, 30.0, "loose")
    with pytest.raises(ArgumentError, match=r"^events must"):
        compose(["gaussian"])
