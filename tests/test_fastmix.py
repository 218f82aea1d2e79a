"""`fastmix`: the law of what it releases, its formulas, its cost, and what it refuses."""

from __future__ import annotations

import math
import warnings
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers import untouchable
from scipy import stats

from fastdp_dask import SRHT, FastMixRelease, PrivacyLeakWarning, fastmix, privacy, rng
from fastdp_dask.errors import ArgumentError
from fastdp_dask.rows.scaling import declare

FALSE_ALARM = 1e-6


def data(n: int = 200, d: int = 3) -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((n, d)) * np.array([1.0, 0.5, 0.25])[:d]
    return X / np.linalg.norm(X, axis=1).max()


def released(X: Any, **options: Any) -> FastMixRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        defaults = {"epsilon": 4.0, "delta": 1e-5, "k1": 8, "k2": 32, "public_seed": 3, "random_state": 5}
        return fastmix(X, **{**defaults, **options})


def sketched(X: np.ndarray, k2: int, preset: str) -> np.ndarray:
    """S X by the definition, for uniform rows and for those that the release may have used."""
    scaled = declare(X.shape[1], data_norm=1.0, bounds_y=(-1, 1), fit_intercept=False)
    rows = scaled.rows(np.ascontiguousarray(X), np.zeros(len(X)))[0] / 2.0**16
    key = rng.derive_key(3, "round", 0)
    found = released(X, k2=k2, preset=preset)
    for design in ("uniform", "low_coherence"):
        if design == "low_coherence" and k2 not in (16, 32, 64, 128):
            continue
        sketch = SRHT(len(X), k2, seed=key, design=design)
        if found.coherence in (sketch.coherence_bound(), 0.0):
            return sketch.to_dense() @ rows
    raise AssertionError("the coherence is that of neither design")


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("k2", [32, 50, 256])
def test_rows_have_the_law_that_is_claimed(preset: str, k2: int) -> None:
    """Given η: rows N(0, ZᵀZ + η²I); whitened by it every number is standard normal, and 2/3 and 3/2 of it are not."""
    X = data()
    Z = sketched(X, k2, preset)
    numbers = []
    for seed in range(10):
        found = released(X, k1=100, k2=k2, preset=preset, random_state=seed)
        assert found.sketch.shape == (100, 3)
        root = np.linalg.cholesky(Z.T @ Z + found.eta**2 * np.eye(3))
        numbers.append(np.linalg.solve(root, found.sketch.T).ravel())
    sample = np.concatenate(numbers)
    assert stats.kstest(sample, stats.norm.cdf).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(wrong * sample, stats.norm.cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("k2", [32, 256])
def test_paper_preset_follows_algorithm_one(k2: int) -> None:
    epsilon, delta = 2.0, 1e-6
    found = released(data(), epsilon=epsilon, delta=delta, k2=k2, preset="paper")
    omega = 4 / epsilon
    assert found.eta**2 == pytest.approx(
        max(0.0, found.gamma * (1 + 2 * found.m_tilde) - found.lambda_tilde), rel=1e-12
    )
    claimed = privacy.fastmix_epsilon(omega, found.gamma, 8, delta, bound="paper")
    assert 0.99 * epsilon < claimed <= epsilon
    assert (found.epsilon, found.delta) == (claimed, delta)
    if k2 == 256:
        assert (found.coherence, found.m_tilde) == (0.0, 0.0)  # orthonormal, by case
    else:
        assert found.m_tilde > 0


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 20.0])
@pytest.mark.parametrize("k2", [32, 128, 256])
def test_tight_preset_spends_at_most_its_budget_and_adds_less(epsilon: float, k2: int) -> None:
    tight = released(data(), epsilon=epsilon, k2=k2)
    paper = released(data(), epsilon=epsilon, k2=k2, preset="paper")
    assert 0.99 * epsilon < tight.epsilon <= epsilon
    assert tight.delta == 1e-5
    assert tight.gamma < paper.gamma
    assert tight.eta < paper.eta or paper.eta == 0
    if k2 == 256:
        assert tight.m_tilde == 0.0


def test_units_follow_the_declared_norm() -> None:
    X = data()
    one, other = released(X), released(X * 8, data_norm=8.0)
    assert other.sketch == pytest.approx(one.sketch * 8, rel=1e-12)
    assert other.eta == pytest.approx(8 * one.eta, rel=1e-12)
    # Rows beyond the bound count with it; non-finite ones not at all.
    X[0] = [3.0, 0.0, 0.0]
    X[1] = [np.nan, 1.0, 1.0]
    bounded = X.copy()
    bounded[0], bounded[1] = [1.0, 0.0, 0.0], 0.0
    np.testing.assert_array_equal(released(X).sketch, released(bounded).sketch)


def test_the_container_and_its_chunks_do_not_matter() -> None:
    X = data()
    forms = [X, da.from_array(X, chunks=(33, 3)), da.from_array(X, chunks=(200, 2)), pd.DataFrame(X)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns in two chunks are joined with a warning
        found = [released(form).sketch for form in forms]
    for sketch in found[1:]:
        np.testing.assert_array_equal(sketch, found[0])


def test_each_call_draws_its_own_sketch_and_noise() -> None:
    first, second = (fastmix(data(), epsilon=1.0, delta=1e-5, k1=8, k2=50) for _ in range(2))
    assert not np.array_equal(first.sketch, second.sketch)
    with pytest.warns(PrivacyLeakWarning, match="public_seed"):
        fastmix(data(), epsilon=1.0, delta=1e-5, k1=8, k2=32, public_seed=1)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        fastmix(data(), epsilon=1.0, delta=1e-5, k1=8, k2=32, random_state=1)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"epsilon": 0.0}, ArgumentError, "^epsilon"),
        ({"epsilon": math.inf}, ArgumentError, "^epsilon"),
        ({"delta": 1.0}, ArgumentError, "^delta"),
        ({"k1": 0}, ArgumentError, "^k1"),
        ({"k2": 2}, ArgumentError, "^k2 must lie between n_features=3 and 256"),
        ({"k2": 257}, ArgumentError, "^k2 must lie between n_features=3 and 256"),
        ({"preset": "loose"}, ArgumentError, "^preset"),
        ({"data_norm": -1.0}, ArgumentError, "^data_norm"),
        ({"public_seed": -1}, ArgumentError, "^public_seed"),
        ({"random_state": "a"}, ArgumentError, "^random_state"),
    ],
)
def test_refusals_come_before_any_reading(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        released(untouchable((200, 3), chunks=50), **options)


@pytest.mark.parametrize("preset", ["tight", "paper"])
@pytest.mark.parametrize("X", [np.zeros((40, 3)), np.full((40, 3), np.nan), np.ones((1, 1)), np.full((9, 2), 1e308)])
def test_degenerate_data_is_released_like_any_other(preset: str, X: np.ndarray) -> None:
    padded = 1 << (len(X) - 1).bit_length()
    for k2 in {X.shape[1], padded}:
        found = released(X, k2=k2, preset=preset)
        assert np.isfinite(found.sketch).all()
        assert math.isfinite(found.eta)
