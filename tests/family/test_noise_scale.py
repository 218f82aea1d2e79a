"""The law of every noise: Kolmogorov–Smirnov tests that accept the stated scale and reject 2/3 and 3/2 of it.

False alarms below 1e-6 for each statistic; with 2,000 draws, 2/3 and 3/2 are seen with certainty (the distance
of N(0, 1) and N(0, (2/3)²) is 0.098, that of the Laplace laws 0.074, against a threshold of 2.7/sqrt(2000) = 0.06).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from family_cases import FamilyRows, joined_moments, plan_of, records
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastdp_dask import PrivacyLeakWarning, privacy, rng
from fastdp_dask.linalg import one_blas_thread
from fastdp_dask.mechanisms import additive
from fastdp_dask.mechanisms.spectral import upward_shift
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers import adassp, fast_linear_mixing, gradient_descent, ihm_paper, linear_mixing

FALSE_ALARM = 1e-6
MODULES: dict[str, Any] = {
    "adassp": adassp, "linear_mixing": linear_mixing, "fast_linear_mixing": fast_linear_mixing, "ihm": ihm_paper,
    "gradient_descent": gradient_descent,
}  # fmt: skip
N, D, RUNS = 4000, 4, 2000


@pytest.fixture(scope="module")
def rows() -> FamilyRows:
    X, _, scaling = records(N)
    return FamilyRows(X, np.random.default_rng(1).uniform(-1, 1, N), scaling)  # λ_min far from 0 with the target too


@pytest.fixture(autouse=True)
def _accounted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of one plan is not computed again in every run."""
    monkeypatch.setattr(privacy, "epsilon_of", lambda events, delta: 0.0)


class Once:
    """Passes computed once, since every run sees the same data."""

    def __init__(self, rows: Any) -> None:
        self._rows, self._kept = rows, {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._rows, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            if name not in self._kept:
                self._kept[name] = Once(found()) if name == "with_target" else found(*arguments)
            return self._kept[name]

        return call


def logs(rows: FamilyRows, plan: Any) -> list[ReleaseLog]:
    """The releases of many fits, each under a seed of its own; the law of secure noise is `test_discrete`'s."""
    once, found = Once(rows), []
    solve: Any = MODULES[plan.solver].solve  # without the dispatcher, which sets the threads of BLAS every time
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        for seed in range(RUNS):
            found.append(ReleaseLog())
            solve(once, plan, public_seed=3, noise=rng.NoiseSource(seed), releases=found[-1])
    return found


def check(sample: Any, law: Any) -> None:
    """`law` is accepted at its own scale and rejected at 2/3 and 3/2 of it."""
    drawn = np.ravel(sample)
    assert drawn.size >= 2000
    assert stats.kstest(drawn, law.cdf).pvalue > FALSE_ALARM
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(drawn * factor, law.cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("preset", ["tight", "paper"])
def test_adassp(rows: FamilyRows, preset: str) -> None:
    plan: Any = plan_of("adassp", preset, N, D, 1.0, 1e-6)
    found = logs(rows, plan)
    gram = rows.rows.T @ rows.rows
    away = np.array([log.stored("gram") - gram for log in found])
    assert np.array_equal(away, away.transpose(0, 2, 1))
    check(away[:, range(D), range(D)] / plan.gram_noise, stats.norm)
    check(away[:, *np.triu_indices(D, 1)] / plan.off_diagonal_noise, stats.norm)
    assert plan.off_diagonal_noise == pytest.approx(plan.gram_noise * (0.5**0.5 if preset == "tight" else 1), rel=1e-12)
    moment = np.array([log.stored("moment") for log in found]) - rows.rows.T @ rows.target
    check(moment / plan.moment_noise, stats.norm)
    smallest = np.linalg.eigvalsh(gram)[0]
    estimate = np.array([float(log.stored("lambda_tilde")) for log in found])
    assert (estimate > 0).all()  # far from the clamp, so that the law is the Gaussian itself
    check((estimate - smallest + plan.eigenvalue_shift) / plan.eigenvalue_noise, stats.norm)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6))
def test_blanking_a_record_moves_what_is_released_by_at_most_one(entries: list[float]) -> None:
    """In units of the noise: entries of the upper triangle of xxᵀ over their deviations, for both kinds of noise."""
    x = np.array(entries)
    x = x / max(1.0, float(np.linalg.norm(x)))
    moved = np.outer(x, x)
    for off_diagonal in (1.0, 0.5**0.5):
        upper = np.triu(moved, 1) / off_diagonal
        assert np.hypot(np.linalg.norm(np.diag(moved)), np.linalg.norm(upper)) <= 1 + 1e-12
    d = len(x)
    noisy = additive.symmetric_gaussian(np.zeros((d, d)), 2.0, 3.0, Ones(), largest=1.0)  # type: ignore[arg-type]
    assert noisy == pytest.approx(3.0 - np.eye(d), rel=1e-11)  # rounded up on a grid of 2⁻⁴⁴ of the noise
    assert np.array_equal(noisy, noisy.T)


class Ones:
    """Noise of one standard deviation everywhere."""

    def discrete_gaussian(self, scale: int, size: int) -> np.ndarray:
        return np.full(size, scale)


@pytest.mark.parametrize("solver", ["linear_mixing", "fast_linear_mixing", "ihm"])
def test_laplace_estimates_of_the_papers(rows: FamilyRows, solver: str) -> None:
    options = {"k2": 512} if solver == "fast_linear_mixing" else {}
    plan: Any = plan_of(solver, "paper", N, D, 10.0, 1e-6, **options)
    found = logs(rows, plan)
    sensitivity = np.ones(len(found))
    value = np.linalg.eigvalsh(rows.rows.T @ rows.rows if solver == "ihm" else joined_moments(rows))[0]
    if solver == "fast_linear_mixing":
        joined = rows.with_target()
        sketch = SRHT(N, 512, seed=rng.derive_key(3, "round", 0))
        (sums,), _ = joined.sketch([sketch], 1.0)
        (deviation,) = joined.deviation([sketch], [sums])
        m_tilde = np.array([float(log.stored("m_tilde")) for log in found])
        check(
            plan.tau - (m_tilde - deviation / 2**0.5) / (plan.omega * sketch.coherence()),
            stats.laplace,
        )
        Z = sums / (2**16 * (2 * 512) ** 0.5)
        value, sensitivity = np.linalg.eigvalsh(Z.T @ Z)[0], 1 + 2 * m_tilde
    estimate = np.array([float(log.stored("lambda_tilde")) for log in found])
    assert (estimate > 0).all()  # far from the clamp
    check(plan.tau - (value - estimate) / (plan.omega * sensitivity), stats.laplace)


def test_tight_estimate_of_linear_mixing(rows: FamilyRows) -> None:
    plan: Any = plan_of("linear_mixing", "tight", N, D, 5.0, 1e-6)
    assert plan.eigenvalue_kind == "eigenvalue"
    value = np.linalg.eigvalsh(joined_moments(rows))[0]
    estimate = np.array([float(log.stored("lambda_tilde")) for log in logs(rows, plan)])
    shift = upward_shift(plan.eigenvalue_noise, plan.estimate_failure)
    assert (estimate > 0).all()
    check((estimate - value + shift) / plan.eigenvalue_noise, stats.norm)


@pytest.mark.parametrize(("solver", "preset"), [("linear_mixing", "tight"), ("ihm", "paper")])
def test_moments_are_wishart(rows: FamilyRows, solver: str, preset: str) -> None:
    """aᵀ(k1·W)a / aᵀΣa is χ² with k1 degrees: standardised, its scale is that of the noise."""
    plan: Any = plan_of(solver, preset, N, D, 1.0, 1e-6)
    name, base = "moments", joined_moments(rows)
    if solver == "ihm":
        name, base = "hessian_1", rows.rows.T @ rows.rows
    direction = np.arange(1.0, len(base) + 1)
    ratios = []
    for log in logs(rows, plan):
        scale = direction @ base @ direction + float(log.stored("added_variance")) * direction @ direction
        ratios.append(direction @ log.stored(name) @ direction / scale)
    degrees = plan.k1
    law = stats.chi2(degrees, -((degrees / 2) ** 0.5), (2 * degrees) ** -0.5)
    check((np.array(ratios) - 1) * (degrees / 2) ** 0.5, law)


@pytest.mark.parametrize("solver", ["ihm", "gradient_descent"])
def test_gradients(rows: FamilyRows, solver: str) -> None:
    if solver == "ihm":
        plan: Any = plan_of("ihm", "paper", N, D, 1.0, 1e-6, n_iter=1)
    else:
        plan = gradient_descent.make_plan(N, D, epsilon=1.0, delta=1e-6, n_iter=1)
    first = np.array([log.stored("gradient_0") for log in logs(rows, plan)])
    check((first - rows.rows.T @ rows.target) / plan.noise_multiplier, stats.norm)
