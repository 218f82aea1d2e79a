"""Attacks on what is released together: pooled Wishart draws, one Rényi sum, and the noise that a run really adds.

The conversion of the sum is attacked with exact hockey-stick curves in `tests/privacy/test_hockey_stick.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from helpers import chunked, small_data
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastdp_dask import SRHT, PrivacyLeakWarning, linalg, privacy, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import declare
from fastdp_dask.solvers import pooled, pooled_plan
from fastdp_dask.solvers.calibrate import calibrated, events_of
from fastdp_dask.solvers.pooled_choice import Choice
from fastdp_dask.solvers.steps import damping

FALSE_ALARM = 1e-6
DRAWS = 3000
SCALE = np.array([[5.0, 1.0, 0.2], [1.0, 2.0, -0.3], [0.2, -0.3, 0.7]])


def same_law(a: np.ndarray, b: np.ndarray) -> bool:
    return float(stats.ks_2samp(a, b).pvalue) > FALSE_ALARM / 20


@pytest.mark.parametrize("degrees", [3, 4, 40])
def test_wishart_draws_are_the_gram_matrices_of_gaussian_rows(degrees: int) -> None:
    """Every entry, the determinant and the smallest eigenvalue; and T draws of K/T rows sum to one of K."""
    generator = np.random.default_rng(degrees)
    root = np.linalg.cholesky(SCALE)
    drawn = np.array([wishart(degrees, SCALE, generator) for _ in range(DRAWS)])
    rows = generator.standard_normal((DRAWS, degrees, 3)) @ root.T
    dense = rows.transpose(0, 2, 1) @ rows
    views: list[Callable[[np.ndarray], np.ndarray]] = [
        *(lambda m, i=i, j=j: m[:, i, j] for i in range(3) for j in range(i + 1)),
        lambda m: np.linalg.slogdet(m)[1],
        lambda m: np.log(np.maximum(np.linalg.eigvalsh(m)[:, 0], 1e-12)),
    ]
    for view in views:
        assert same_law(view(drawn), view(dense))
        assert not same_law(view(drawn * 1.5), view(dense)) or degrees < 40
    split = np.array([sum(wishart(3, SCALE, generator) for _ in range(4)) for _ in range(DRAWS)])
    pooled_draws = np.array([wishart(12, SCALE, generator) for _ in range(DRAWS)])
    for view in views:
        assert same_law(view(split), view(pooled_draws))


def test_the_gram_matrix_is_sufficient() -> None:
    """X̃ whitened by its own Gram matrix has a law without Σ: a row's leverage is Beta(d/2, (K − d)/2) for any Σ."""
    generator = np.random.default_rng(4)
    for scale in (np.eye(3), SCALE, np.diag([1e6, 1.0, 1e-6])):
        rows = generator.standard_normal((DRAWS, 10, 3)) @ np.linalg.cholesky(scale).T
        gram = rows.transpose(0, 2, 1) @ rows
        leverage = np.einsum("ri,rij,rj->r", rows[:, 0], np.linalg.inv(gram), rows[:, 0])
        assert stats.kstest(leverage, stats.beta(1.5, 3.5).cdf).pvalue > FALSE_ALARM


def test_fewer_rows_than_columns_have_no_triangle() -> None:
    with pytest.raises(ValueError, match="df"):
        wishart(2, SCALE, np.random.default_rng(0))
    for columns, k1, n_iter in ((5, 8, 1), (40, 43, 1)):
        with pytest.raises(ArgumentError, match=r"^k1 must give"):
            pooled_plan.make_plan(900, columns, solver="ihm", epsilon=1.0, delta=1e-6, k1=k1, n_iter=n_iter)


@pytest.mark.parametrize(("degrees", "d"), [(64, 16), (200, 5)])
def test_no_constant_step_beats_the_damping(degrees: int, d: int) -> None:
    """c minimises E‖I − cV‖²_F, V = K W⁻¹: c = E tr V / E tr V²; 4,000 draws, five standard errors."""
    generator = np.random.default_rng(d)
    inverses = [degrees * np.linalg.inv(wishart(degrees, np.eye(d), generator)) for _ in range(4000)]
    traces = np.array([[np.trace(V), np.sum(V * V)] for V in inverses])
    c = damping(degrees, d)
    slope = traces[:, 0] - c * traces[:, 1]  # of −E‖I − cV‖²/2 in c: zero at the minimum
    error = slope.std() / math.sqrt(len(slope))
    assert abs(slope.mean()) < 5 * error
    for wrong in (1.0, (degrees - d - 1) / degrees):  # the plain and the unbiased step are told apart
        assert abs((traces[:, 0] - wrong * traces[:, 1]).mean()) > 5 * error


@given(
    st.floats(0.05, 20.0),
    st.sampled_from([1e-5, 1e-12]),
    st.integers(1, 40),
    st.integers(8, 3000),
    st.tuples(*[st.floats(0.02, 1.0)] * 4),
    st.booleans(),
    st.sampled_from(["separate", "renyi", "exact"]),
    st.integers(0, 3),
)
def test_no_choice_of_shares_costs_more_than_the_budget(
    epsilon: float,
    delta: float,
    T: int,
    K: int,
    weights: tuple[float, float, float, float],
    tight: bool,
    account: str,
    estimates: int,
) -> None:
    """The search for parameters cannot touch the privacy: whatever it picks is calibrated to (ε, δ)."""
    used = np.array(weights) * [1, 1, estimates & 1, estimates >> 1]
    shares = used / used.sum()
    choice = Choice(T, K, *(float(share) for share in shares[1:]))
    uses = (K, T, estimates & 1, estimates >> 1)
    failures = 0.15 * delta
    exact, joint = account == "exact" and tight, account != "separate"
    gamma, *noises = calibrated(
        choice, uses, epsilon, delta - failures,
        tight_curve=tight, joint=joint, accounting="exact" if exact else "renyi",
    )  # fmt: skip
    events = events_of(gamma, tuple(noises), uses, failures, tight_curve=tight)
    spent = privacy.certified_epsilon(events, delta) if exact else privacy.epsilon_of(events, delta)
    assert spent <= epsilon
    if joint and gamma > 4:  # the paper's bound starts at γ = 25/8: there, more noise than asked for is the least
        assert spent > 0.99 * epsilon


SEEDS = 2000


def releases(plan: pooled_plan.PooledPlan, rows: Any, seeds: int) -> list[ReleaseLog]:
    logs = []
    for seed in range(seeds):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            noise = rng.NoiseSource(seed)
        log = ReleaseLog()
        pooled._release_hessian(rows, plan, 3, noise, log)
        logs.append(log)
    return logs


class OnePass:
    """A row operator that answers from memory, so that thousands of releases are cheap."""

    def __init__(self, rows: BlockedRows) -> None:
        self._rows, self._kept = rows, {}

    def __getattr__(self, name: str) -> Any:
        def answer(*arguments: Any) -> Any:
            if name not in self._kept:
                self._kept[name] = getattr(self._rows, name)(*arguments)
            return self._kept[name]

        return answer


@pytest.mark.parametrize(("solver", "coherence"), [("ihm", "auto"), ("fastihm", "public"), ("fastihm", "private")])
def test_noise_of_every_release_is_what_the_plan_pays_for(
    solver: str, coherence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 seeded releases: law and scale of g̃, W/K, λ̃ and m̃ against the events, and not 2/3 or 3/2 of them."""
    X, y = small_data(256, 2)
    scaling = declare(2, bounds_X=(-1, 1), bounds_y=(-1, 1))
    scaled = scaling.rows(X, y)[0] / GRID
    rows = OnePass(BlockedRows(*chunked(X, y, 100), scaling))
    always = pooled_plan.Switches(skip_estimate=False)
    plan = pooled_plan.make_plan(
        256, 3, solver=solver, epsilon=30.0, delta=1e-3, n_iter=2, coherence=coherence, k2=128, switches=always
    )
    mixing, *gaussians, failure = plan.events
    assert isinstance(mixing, privacy.MixingEvent)
    assert isinstance(failure, privacy.FailureEvent)
    kept_gram = lru_cache(lambda size, scale: linalg.gram_of(last[0], scale))
    last: list[np.ndarray] = []

    def gram_once(sums: np.ndarray, scale: float) -> np.ndarray:
        last[:] = [sums]  # the same sums each time: only the noise differs
        return kept_gram(sums.shape, scale)

    monkeypatch.setattr(pooled, "gram_of", gram_once)
    logs = releases(plan, rows, SEEDS)
    gradient = np.array([log.stored("gradient_0") for log in logs]) - rows.gradient(np.zeros(3), 1.0)
    law(gradient.ravel() / gaussians[0].noise_multiplier, stats.norm.cdf)
    # Given η², K·W/K = Wishart: whitened trace is chi-square with K·d degrees.
    gram = scaled.T @ scaled
    if plan.k2:
        sketch = SRHT(256, plan.k2, seed=rng.derive_key(3, "round", 0), design=plan.row_design)
        Z = sketch.to_dense() @ scaled
        gram = Z.T @ Z
    traces, whitened = [], []
    for log in logs:
        covariance = gram + float(log.stored("added_variance")) * np.eye(3)
        white = np.linalg.solve(np.linalg.cholesky(covariance), log.stored("hessian_0"))
        white = np.linalg.solve(np.linalg.cholesky(covariance), white.T)
        whitened.append(white)
        traces.append(mixing.rows * np.trace(white))
    law(np.array(traces), stats.chi2(3 * mixing.rows).cdf)
    # Its mean is the identity: entries have standard deviation at most sqrt(2/K); 6 of them, and one for the error of
    # the central limit theorem.
    mean = np.mean(whitened, axis=0)
    limit = (stats.norm.isf(FALSE_ALARM / 12) + 1) * math.sqrt(2 / mixing.rows / SEEDS)
    assert np.abs(mean - np.eye(3)).max() < limit
    for wrong in (2 / 3, 3 / 2):
        assert np.abs(mean * wrong - np.eye(3)).max() > limit
    # λ̃, in units of what the plan pays for (unclamped here: λ is far above its shift).
    m_tilde = np.array([float(log.stored("m_tilde_0")) if coherence == "private" else plan.m_bound for log in logs])
    found = np.array([float(log.stored("lambda_tilde_0")) for log in logs])
    smallest = float(np.linalg.eigvalsh(gram)[0])
    w = plan.eigenvalue_noise
    assert privacy.GaussianEvent(w, 1) in plan.events
    shift = w * stats.norm.isf(plan.estimate_failure)
    if plan.eigenvalue_kind == "singular":
        unit = (np.sqrt(found) - math.sqrt(smallest) + shift) / w
    else:
        unit = ((found - smallest) / (1 + 2 * m_tilde) + shift) / w
    assert (found > 0).all()  # never clamped, so that the law is the whole normal one
    law(unit, stats.norm.cdf)
    if coherence == "private":
        w = plan.deviation_noise
        assert privacy.GaussianEvent(w, 1) in plan.events
        deviation = rows.deviation()[0]
        scale = sketch.coherence_bound() + 2.0**-20
        law((m_tilde - deviation) / scale / w - stats.norm.isf(plan.estimate_failure), stats.norm.cdf)
    assert failure.delta == pytest.approx(paid(plan), rel=1e-12)


def law(sample: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> None:
    assert stats.kstest(sample, cdf).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(sample * wrong, cdf).pvalue < FALSE_ALARM


def paid(plan: pooled_plan.PooledPlan) -> float:
    """Failure probabilities by hand: each estimate, and the bound on the deviation where one is used."""
    estimates = (plan.eigenvalue_noise > 0) + (plan.deviation_noise > 0)
    bound = 0.05 * plan.delta if plan.route == "public" else 0.0
    return estimates * 0.05 * plan.delta + bound
