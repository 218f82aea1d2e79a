"""Agreement with dp_accounting's Rényi accountant, at its own orders and at the optimum."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from fastdp_dask.privacy import (
    GaussianEvent,
    LaplaceEvent,
    MixingEvent,
    compose,
    epsilon_of,
    gaussian_rdp,
    laplace_rdp,
    mixing_rdp,
)

ORDERS = (1.0 + np.geomspace(1e-2, 1e12, 2000)).tolist()
RELATION = dp_accounting.NeighboringRelation.REPLACE_SPECIAL


def their_epsilon(event: dp_accounting.DpEvent, delta: float) -> float:
    return rdp.RdpAccountant(ORDERS, RELATION).compose(event).get_epsilon(delta)


@pytest.mark.parametrize("noise", [0.3, 1.0, 8.0, 300.0])
def test_curves_order_by_order(noise: float) -> None:
    delta = 1e-15
    for order in 1.0 + np.geomspace(0.02, 500.0, 40):  # they ignore orders below 1.01
        tail = (np.log(1 / delta) - np.log(order)) / (order - 1) + np.log1p(-1 / order)
        for event, curve in (
            (dp_accounting.GaussianDpEvent(noise), gaussian_rdp),
            (dp_accounting.LaplaceDpEvent(noise), laplace_rdp),
        ):
            theirs = rdp.RdpAccountant([order], RELATION).compose(event).get_epsilon(delta)
            assert theirs == pytest.approx(curve(order, noise) + tail, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-4, 1e-9, 1e-15])
def test_conversion_of_the_mixing_curve(delta: float) -> None:
    orders = 1.0 + np.geomspace(0.02, 1000.0, 4000)
    for rows, gamma in ((1, 20.0), (600, 112.0), (600, 900.0)):
        curve = rows * mixing_rdp(orders, gamma)
        valid = np.isfinite(curve)
        theirs, _ = rdp.compute_epsilon(orders[valid], curve[valid], delta)
        ours = epsilon_of([MixingEvent(rows, gamma)], delta)
        # Ours is the minimum over all orders; theirs, over 4,000 of them, is at most 1e-3 larger.
        assert theirs * (1 - 1e-3) <= ours <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize("noise", [2.0, 15.0])
def test_composition(noise: float, delta: float) -> None:
    for count in (1, 10, 100):
        for event, ours in (
            (dp_accounting.GaussianDpEvent(noise), GaussianEvent(noise, count)),
            # Composed one by one: their shortcut for repeated events is not the subject here.
            (dp_accounting.LaplaceDpEvent(noise), LaplaceEvent(noise, count)),
        ):
            theirs = their_epsilon(dp_accounting.ComposedDpEvent([event] * count), delta)
            assert theirs * (1 - 1e-3) <= epsilon_of([ours], delta) <= theirs * (1 + 1e-9)
    mixed = [dp_accounting.GaussianDpEvent(noise)] * 3 + [dp_accounting.LaplaceDpEvent(2 * noise)] * 2
    ours_mixed = [LaplaceEvent(2 * noise), GaussianEvent(noise, 3), LaplaceEvent(2 * noise)]
    theirs = their_epsilon(dp_accounting.ComposedDpEvent(mixed), delta)
    assert theirs * (1 - 1e-3) <= epsilon_of(ours_mixed, delta) <= theirs * (1 + 1e-9)


def test_a_folded_sensitivity_is_a_smaller_multiplier() -> None:
    """Noise 6 on a query of sensitivity 2 costs what noise 3 costs on one of sensitivity 1."""
    orders = np.array(ORDERS)
    np.testing.assert_allclose(gaussian_rdp(orders, 6.0, 2.0), compose([GaussianEvent(3.0)])(orders), rtol=1e-14)
    np.testing.assert_allclose(laplace_rdp(orders, 6.0, 2.0), compose([LaplaceEvent(3.0)])(orders), rtol=1e-14)
