"""The closed statement of FM, Theorem 1, against its printed formula and against the event accountant."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from privacy_oracles import assert_just_above, minimum_epsilon, phi, phi_bar

from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import FailureEvent, MixingEvent, epsilon_of, fastmix_epsilon

SETTINGS = [
    (gamma, k1, delta)
    for gamma in (3.13, 5.0, 60.0, 406.0, 1e5)
    for k1 in (1, 96, 600, 20_000)
    for delta in (1e-5, 1e-9, 1e-12, 1e-30, 2.9e-300)
]


def printed(omega: float, gamma: float, k1: int, delta: float, bound: str) -> mp.mpf:
    """2/omega + the printed minimum, with log(3/delta), by golden section in 50 digits."""
    top = mp.mpf(gamma) * (mp.mpf(4) / 5 if bound == "paper" else 1) - 1
    curve = phi_bar if bound == "paper" else phi
    with mp.workdps(50):
        least = minimum_epsilon(
            lambda a: k1 * curve(a, gamma) if a < gamma * (1 - mp.mpf("1e-40")) else mp.inf,
            mp.mpf(delta) / 3,
            top * mp.mpf("1e-9"),
            top,
        )
        return 2 / mp.mpf(omega) + max(least, mp.mpf(0))


@pytest.mark.parametrize("bound", ["paper", "tight"])
@pytest.mark.parametrize(("gamma", "k1", "delta"), SETTINGS)
def test_equals_the_printed_formula(gamma: float, k1: int, delta: float, bound: str) -> None:
    if delta < 3e-300:
        with pytest.raises(ArgumentError, match=r"^delta must"):
            fastmix_epsilon(6.0, gamma, k1, delta, bound)
        return
    assert_just_above(fastmix_epsilon(6.0, gamma, k1, delta, bound), printed(6.0, gamma, k1, delta, bound))


def test_tight_is_never_above_paper() -> None:
    for gamma in np.geomspace(3.2, 1e6, 15):
        for k1 in (1, 100, 10_000):
            for delta in (1e-5, 1e-12):
                paper = fastmix_epsilon(10.0, gamma, k1, delta)
                assert fastmix_epsilon(10.0, gamma, k1, delta, bound="tight") <= paper


def test_less_noise_never_costs_less() -> None:
    for bound in ("paper", "tight"):
        over_gamma = [fastmix_epsilon(10.0, gamma, 200, 1e-9, bound) for gamma in np.geomspace(3.2, 1e5, 60)]
        assert (np.diff(over_gamma) < 0).all()
        over_omega = [fastmix_epsilon(omega, 50.0, 200, 1e-9, bound) for omega in np.geomspace(0.1, 1e5, 30)]
        assert (np.diff(over_omega) < 0).all()
        over_rows = [fastmix_epsilon(10.0, 50.0, rows, 1e-9, bound) for rows in (1, 2, 10, 100, 1000)]
        assert (np.diff(over_rows) > 0).all()


@pytest.mark.parametrize("delta", [1e-4, 1e-9, 1e-15])
def test_the_split_of_delta_adds_up(delta: float) -> None:
    """Two one-sided Laplace tails at shift log(3/(2 delta)) and the conversion of the rows: exactly delta."""
    tau = math.log(3 / (2 * delta))
    tails = 2 * (0.5 * math.exp(-tau))  # P(Laplace(1) > tau) = exp(-tau)/2, for the coherence and the eigenvalue
    assert tails + delta / 3 == pytest.approx(delta, rel=1e-13)
    rows = MixingEvent(rows=300, gamma=80.0)
    events = [rows, FailureEvent(tails / 2, count=2)]
    assert 2 / 12.0 + epsilon_of(events, delta) == pytest.approx(
        fastmix_epsilon(12.0, 80.0, 300, delta, bound="tight"), rel=1e-9
    )


def test_refusals_name_the_argument() -> None:
    good = {"omega": 5.0, "gamma": 50.0, "k1": 100, "delta": 1e-6, "bound": "paper"}
    for name, values in {
        "omega": (0, -1.0, math.nan, math.inf, None),
        "gamma": (3.125, 0, math.nan, math.inf, None),
        "k1": (0, -3, 2.5, True, None),
        "delta": (0, 1, 1.5, math.nan, None),
        "bound": ("loose", None, 3),
    }.items():
        for value in values:
            with pytest.raises(ArgumentError, match=rf"^{name} must"):
                fastmix_epsilon(**(good | {name: value}))
