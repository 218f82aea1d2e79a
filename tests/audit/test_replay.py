"""A replayed run is the run: bit for bit what `fastmix` and `LinearRegression.fit` give for the same seeds."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fastdp_dask import LinearRegression, PrivacyLeakWarning, fastmix, rng
from fastdp_dask.audit import pairs, scores
from fastdp_dask.audit.fastmix_step import fastmix_step
from fastdp_dask.audit.replay import ReplayedRows, without_pools
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.source import as_blocks
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers import dispatch

PAIR = pairs.aligned_with(SRHT(64, 8, seed=5), 2.0)
DECLARED: dict[str, Any] = {"data_norm": 1.0, "bounds_y": (-1.0, 1.0), "fit_intercept": False}


@pytest.fixture(autouse=True)
def _no_seed_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        yield


@pytest.mark.parametrize(
    ("solver", "preset", "k2"), [("ihm", "tight", None), ("fastihm", "tight", 8), ("fastihm", "paper", 8)]
)
def test_fit(solver: str, preset: str, k2: int | None) -> None:
    options: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "solver": solver,
        "preset": preset,
        "n_iter": 2,
        "k1": 16,
        "k2": k2,
    }
    model = LinearRegression(**options, **DECLARED, public_seed=3, random_state=4).fit(PAIR.X, PAIR.y)
    plan = dispatch.make_plan(dispatch.check_request(**options), 64, 1)
    rows = ReplayedRows(PAIR.X, PAIR.y, PAIR.scaling)
    for _ in range(2):  # the second run finds every pass remembered
        with without_pools():
            solution = dispatch.solve(rows, plan, public_seed=3, noise=rng.NoiseSource(4), releases=ReleaseLog())
        coefficients, _ = rows.scaling.to_user(solution.theta)
        np.testing.assert_array_equal(coefficients, model.coef_)
        assert solution.released == model.release_


@pytest.mark.parametrize("preset", ["paper", "tight"])
@pytest.mark.parametrize("k2", [64, 8])
def test_fastmix(preset: str, k2: int) -> None:
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "k1": 16, "k2": k2, "preset": preset, "public_seed": 3}
    released = fastmix(PAIR.X, random_state=4, **options)
    step = fastmix_step(np.zeros_like(PAIR.X), **options)
    rows = ReplayedRows(PAIR.X, PAIR.y, PAIR.scaling)
    for _ in range(2):
        with without_pools():
            again = step(rows, rng.NoiseSource(4))
        np.testing.assert_array_equal(again.sketch, released.sketch)
        assert (again.eta, again.m_tilde, again.lambda_tilde) == (released.eta, released.m_tilde, released.lambda_tilde)
    # What the attacker takes for ZᵀZ is what the release used.
    Z = step.sketch.apply(PAIR.X)
    np.testing.assert_allclose(rows.grams[0], Z.T @ Z, rtol=1e-3)


def test_gradient_is_the_pass() -> None:
    features, target, _ = as_blocks(PAIR.X, PAIR.y)
    assert target is not None
    blocked, rows = BlockedRows(features, target, PAIR.scaling), ReplayedRows(PAIR.X, PAIR.y, PAIR.scaling)
    for theta in (0.0, 0.3, -7.0):
        np.testing.assert_array_equal(rows.gradient(np.array([theta]), 1.0), blocked.gradient(np.array([theta]), 1.0))
    assert rows.n_passes == 3


def test_likelihood_ratios_against_densities() -> None:
    random = np.random.default_rng(0)
    first, second = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 0.2], [0.2, 4.0]])
    W = np.array([stats.wishart.rvs(6, first, random_state=random) for _ in range(5)])
    added = random.uniform(0.1, 2.0, 5)
    expected = [
        stats.wishart.logpdf(w, 6, first + a * np.eye(2)) - stats.wishart.logpdf(w, 6, second + a * np.eye(2))
        for w, a in zip(W, added, strict=True)
    ]
    np.testing.assert_allclose(scores.wishart_ratio(W, 6, first, second, added), expected, rtol=1e-9)
    v, mean = random.standard_normal((2, 5, 3))
    here = stats.norm.logpdf(v, mean, 1.7).sum(axis=1) - stats.norm.logpdf(v, 0.0, 1.7).sum(axis=1)
    np.testing.assert_allclose(scores.gaussian_ratio(v, mean, np.zeros(3), 1.7), here, rtol=1e-9)
    steps = scores.change(np.arange(12.0).reshape(2, 3, 2) ** 2)
    np.testing.assert_array_equal(steps, [[4 + 8, 12 + 16], [28 + 32, 36 + 40]])
    exact = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_allclose(
        scores.change_ratio(exact + v[:2, None, :2], exact, exact * 2), np.log(4 / 1e-12), atol=0.01
    )
    np.testing.assert_allclose(scores.change_ratio(exact, exact * 2, exact * 3), np.log(2), atol=1e-6)
    assert math.isfinite(scores.wishart_ratio(W, 6, first, np.zeros((2, 2)), 0.0).sum())
