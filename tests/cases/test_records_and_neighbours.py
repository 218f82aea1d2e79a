"""What one record can do, and which neighbours the guarantee is about."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant
from helpers import bits, fit, model, small_data
from scipy.stats import norm

from fastdp_dask import LinearRegression, privacy
from fastdp_dask.privacy import GaussianEvent
from fastdp_dask.solvers import dispatch


@pytest.mark.parametrize("solver", ["ihm", "fastihm", "adassp", "linear_mixing"])
def test_a_record_beyond_the_bounds_counts_as_its_clipped_self(solver: str) -> None:
    """The statistic before the noise is that of the data clipped by hand, bit for bit: nothing uses the raw values."""
    X, y = small_data(200, 3)
    X[17], y[17] = [1e6, -1e6, 0.5], 1e9
    options = {"solver": solver, "preset": "tight"}
    expected = bits(fit(model(**options), np.clip(X, -1, 1), np.clip(y, -1, 1)))
    assert bits(fit(model(**options), X, y)) == expected


def test_exchanging_a_record_is_two_steps() -> None:
    """Twice the sensitivity in the multiplier covers replacement: never below the exact curve of either relation."""
    sigma, delta = 2.0, 1e-6
    for steps, relation in ((1, NeighboringRelation.ADD_OR_REMOVE_ONE), (2, NeighboringRelation.REPLACE_ONE)):
        ours = privacy.epsilon_of([GaussianEvent(sigma / steps)], delta)
        mu = steps / sigma
        exceeded = norm.cdf(mu / 2 - ours / mu) - math.exp(ours) * norm.cdf(-mu / 2 - ours / mu)
        assert exceeded <= delta  # the exact trade-off of a Gaussian release
        theirs = PLDAccountant(relation).compose(GaussianDpEvent(sigma)).get_epsilon(delta)
        assert theirs <= ours * (1 + 1e-6)  # what their lattice rounds up
        assert ours < 1.15 * theirs


def test_the_relation_is_written_down_and_no_other_can_be_asked_for(tmp_path: Path) -> None:
    """The model says which neighbours it is about, and that the number of records is public."""
    X, y = small_data(60, 2)
    fit(model(run_dir=tmp_path / "run"), X, y)
    said = json.loads((tmp_path / "run" / "model.json").read_text())["neighboring_relation"]
    assert "one record" in said
    assert "n public" in said
    with pytest.raises(TypeError, match="neighboring_relation"):
        LinearRegression(epsilon=1, delta=1e-6, neighboring_relation="add_or_remove_one")  # type: ignore[call-arg]


def test_a_counted_number_of_records_is_public_and_recorded() -> None:
    """Unknown chunk sizes: n is counted once and stands in the plan, as if it had been known."""
    X, y = small_data(300, 2)
    lazy = da.from_array(X, chunks=(100, 2))
    unknown = lazy[lazy[:, 0] > -2]
    found = fit(model(), unknown, da.from_array(y, chunks=100))
    assert found.plan_.n_samples == 300
    assert bits(found) == bits(fit(model(), X, y))


@pytest.mark.parametrize("solver", ["adassp", "ihm"])
def test_noise_is_on_sums_and_does_not_fall_with_the_number_of_records(solver: str) -> None:
    """Calibrated to the sensitivity of a sum: the same for ten records as for a million, in the paper's plans."""
    noises = []
    for n in (10, 1_000_000):
        request = dispatch.check_request(epsilon=1.0, delta=1e-9, solver=solver, preset="paper")
        plan: Any = dispatch.make_plan(request, n, 4)
        noises.append((plan.noise_multiplier * plan.clip, getattr(plan, "gram_noise", None)))
    assert noises[0] == noises[1]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_bounds_may_be_of_any_kind(kind: Any) -> None:
    """A list, a tuple or an array of lower and of upper bounds give the same fit."""
    X, y = small_data(50, 2)
    expected = bits(fit(model(bounds_X=(-1.0, 1.0)), X, y))
    assert bits(fit(model(bounds_X=kind([-1.0, 1.0]), bounds_y=kind([-1.0, 1.0])), X, y)) == expected
    assert bits(fit(model(bounds_X=(kind([-1.0, -1.0]), kind([1.0, 1.0]))), X, y)) == expected


def test_raw_row_numbers_are_rescaled_by_their_bounds() -> None:
    """A feature that runs to 1e7, as in dask-ml#948: the public bounds bring it to scale, and the slope is found."""
    n = 100_000
    X = da.arange(n, chunks=20_000)[:, None] * 100.0
    y = 3.0 + 2e-7 * X[:, 0]
    found = fit(model(solver="ihm", preset="tight", epsilon=50.0, bounds_X=(0, 1e7), bounds_y=(0, 10)), X, y)
    # Noise of order 1 on sums over 1e5 records, the range of y is 10: 1e-3 of it is far beyond the noise.
    assert found.coef_[0] * 1e7 == pytest.approx(2.0, abs=1e-2)
    assert found.intercept_ == pytest.approx(3.0, abs=1e-2)


def test_what_a_fit_learned_is_no_lazy_value() -> None:
    """Noise is added once: attributes are numbers, and predictions computed twice, or by two schedulers, are equal."""
    X, y = small_data(80, 2)
    found = fit(model(), da.from_array(X, chunks=(20, 2)), da.from_array(y, chunks=20))
    assert type(found.coef_) is np.ndarray
    assert type(found.intercept_) is float
    assert all(type(value) is float for value in found.release_.values())
    lazy = found.predict(da.from_array(X, chunks=(30, 2)))
    first = lazy.compute()
    with dask.config.set(scheduler="synchronous"):
        assert np.array_equal(lazy.compute(), first)
    assert np.array_equal(lazy.compute(), first)
