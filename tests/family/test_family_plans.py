"""Budgets, options and passes of every solver; degenerate data; equal results for every chunking."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from family_cases import CONTRACT, FamilyRows, plan_of, records, run
from helpers import chunked, fit, model
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings

from fastdp_dask import PrivacyLeakWarning, plan, privacy
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy import GaussianEvent, LaplaceEvent, MixingEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.solvers import adassp, gradient_descent, ihm_paper, linear_mixing

NEW = [name for name in CONTRACT if name not in [("fastihm", "tight"), ("fastihm", "paper"), ("ihm", "tight")]]


@pytest.mark.parametrize(("solver", "preset"), NEW)
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_events_are_within_the_budget(solver: str, preset: str, epsilon: float, delta: float) -> None:
    made: Any = plan_of(solver, preset, 50_000, 8, epsilon, delta)
    spent = privacy.epsilon_of(made.events, delta)
    assert spent <= epsilon
    # Nothing is left over; the papers' splits waste what composing parts one by one wastes, at small ε most of it.
    floor = 0.999 if preset == "tight" else 0.02
    if not any(isinstance(event, MixingEvent) and event.gamma < 3.2 for event in made.events):  # a limit of γ
        assert spent > floor * epsilon
    assert sum(line.epsilon for line in made.budget) == pytest.approx(epsilon, rel=1e-12)
    assert sum(line.delta for line in made.budget) == pytest.approx(delta, rel=1e-12)
    assert solver in made.describe()


def test_gradient_descent_is_within_the_budget() -> None:
    made = gradient_descent.make_plan(50_000, 8, epsilon=0.7, delta=1e-9, n_iter=13)
    assert made.events == (GaussianEvent(made.noise_multiplier, 13),)
    assert 0.999 * 0.7 < privacy.epsilon_of(made.events, 1e-9) <= 0.7


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_adassp_of_the_paper_to_the_letter(epsilon: float) -> None:
    d, delta = 7, 1e-8
    made = adassp.make_plan(10_000, d, epsilon=epsilon, delta=delta, preset="paper")
    scale = math.sqrt(math.log(6 / delta)) / (epsilon / 3)
    assert (made.eigenvalue_noise, made.gram_noise, made.off_diagonal_noise, made.moment_noise) == (scale,) * 4
    assert made.eigenvalue_shift == pytest.approx(math.log(6 / delta) / (epsilon / 3), rel=1e-12)
    ridge = math.sqrt(d * math.log(6 / delta) * math.log(2 * d**2 / 0.05)) / (epsilon / 3)
    assert made.ridge == pytest.approx(ridge, rel=1e-12)
    # One release at this noise is not (ε/3, δ/3)-private; the three together are (ε, δ)-private.
    assert privacy.epsilon_of([GaussianEvent(scale)], delta / 3) > epsilon / 3
    assert privacy.epsilon_of([GaussianEvent(scale, 3)], delta) <= epsilon


def test_adassp_of_the_paper_raises_its_noise_where_its_sum_would_not_hold() -> None:
    delta, epsilon = 1e-3, 50.0
    scale = math.sqrt(math.log(6 / delta)) / (epsilon / 3)
    assert privacy.epsilon_of([GaussianEvent(scale, 3)], delta) > epsilon
    assert adassp.make_plan(1000, 3, epsilon=epsilon, delta=delta, preset="paper").gram_noise > scale


def test_mixing_plans_of_the_papers_to_the_letter() -> None:
    n, d, epsilon, delta = 100_000, 9, 0.8, 1e-9
    made: Any = plan_of("linear_mixing", "paper", n, d, epsilon, delta)
    size = max(d + 1, math.log(20 / delta))
    assert made.k1 == math.ceil(2.5 * size)
    assert (made.omega, made.tau) == (2 / epsilon, math.log(1 / delta))
    assert made.gamma == privacy.calibrate_gamma(epsilon / 2, delta / 2, made.k1)
    fast: Any = plan_of("fast_linear_mixing", "paper", n, d, epsilon, delta)
    assert (fast.k1, fast.k2) == (made.k1, math.ceil(100 * size))
    assert (fast.omega, fast.tau) == (4 / epsilon, math.log(3 / (2 * delta)))
    assert fast.gamma == privacy.calibrate_gamma(epsilon / 2, delta / 3, fast.k1, bound="paper")
    # The parts add up to epsilon: two Laplace releases and the sketch (FM, Theorem 1).
    assert privacy.fastmix_epsilon(fast.omega, fast.gamma, fast.k1, delta) <= epsilon * (1 + 1e-9)
    assert fast.events[0] == LaplaceEvent(4 / epsilon, 2)


def test_ihm_of_the_paper_to_the_letter() -> None:
    n, d, epsilon, delta = 100_000, 9, 0.8, 1e-9
    made = ihm_paper.make_plan(n, d, epsilon=epsilon, delta=delta)
    assert (made.n_iter, made.k1) == (3, math.ceil(8 * max(d, math.log(120 / delta))))
    assert (made.omega, made.tau) == (3 / epsilon, math.log(3 / (2 * delta)))
    assert made.gamma == privacy.calibrate_gamma(epsilon / 3, delta / 3, made.k1, n_releases=3)
    assert made.noise_multiplier == privacy.calibrate_gaussian(epsilon / 3, delta / 3, n_releases=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "adassp", "n_iter": 3}, "n_iter must be left out for solver='adassp'"),
        ({"solver": "adassp", "preset": "paper", "k1": 9}, "k1 must be left out"),
        ({"solver": "linear_mixing", "coherence": "private"}, "coherence must be left out"),
        ({"solver": "linear_mixing", "k2": 64}, "k2 must be left out"),
        ({"solver": "fast_linear_mixing", "n_iter": 2}, "n_iter must be left out"),
        ({"solver": "ihm", "preset": "paper", "k2": 64}, "k2 must be left out"),
        ({"solver": "ihm", "preset": "paper", "k1": 4}, "k1 must be at least the number of columns, 5"),
        ({"solver": "linear_mixing", "k1": 6}, "k1 must be at least 7"),
        ({"solver": "fast_linear_mixing", "k2": 5}, "k2 must lie between 6"),
        ({"solver": "fast_linear_mixing", "preset": "paper", "k2": 2048}, "k2 must lie between 6"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{message}.*got .*\. (Leave it out|Use)"):
        plan(1000, 4, epsilon=1.0, delta=1e-6, **options)


@pytest.mark.parametrize(
    ("solver", "preset", "options", "passes"),
    [
        ("adassp", "tight", {}, 1),
        ("adassp", "paper", {}, 1),
        ("linear_mixing", "tight", {}, 1),
        ("linear_mixing", "paper", {}, 1),
        ("fast_linear_mixing", "tight", {"coherence": "public"}, 1),
        ("fast_linear_mixing", "tight", {"coherence": "free"}, 1),
        ("fast_linear_mixing", "tight", {"coherence": "private"}, 2),
        ("fast_linear_mixing", "tight", {"k2": 2048}, 1),
        ("fast_linear_mixing", "paper", {"k2": 500}, 2),
        ("fast_linear_mixing", "paper", {"k2": 2048}, 1),
        ("ihm", "paper", {}, 3),
        ("ihm", "paper", {"n_iter": 5}, 5),
        ("fastihm", "paper", {}, 4),
    ],
)
def test_passes_chunkings_and_resumption(solver: str, preset: str, options: dict[str, Any], passes: int) -> None:
    """Planned passes are the passes made; the bits are those of one chunk; a stored fit runs again without data."""
    X, y, scaling = records(1200)
    made = plan_of(solver, preset, 1200, 4, 1.0, 1e-6, **options)
    assert made.n_passes == passes
    found = []
    with dask.config.set(scheduler="synchronous"):
        for chunks in (1200, 100, (1, 700, 499)):
            rows, log = BlockedRows(*chunked(X, y, chunks), scaling), ReleaseLog()
            found.append(run(made, rows, log=log))
            assert rows.n_passes == passes
    again = run(made, FamilyRows(X, y, scaling), seed=99, log=log)
    for other in [*found[1:], again]:
        assert other.theta.tobytes() == found[0].theta.tobytes()
        assert other.released == found[0].released
    assert found[0].epsilon <= 1.0
    # The same from the definitions: the grid of residuals moves a sum by n·2^-16 at most, rounding the rest.
    dense = FamilyRows(X, y, scaling)
    close = run(made, dense)
    assert dense.n_passes == passes
    assert close.released == pytest.approx(found[0].released, rel=1e-6, abs=1e-6)
    assert close.theta == pytest.approx(found[0].theta, abs=2e-2)


@given(chunkings(300), st.sampled_from(NEW))
@settings(max_examples=15)
def test_any_chunking(rows: tuple[int, ...], name: tuple[str, str]) -> None:
    X, y, scaling = records(300)
    made = plan_of(*name, 300, 4, 1.0, 1e-6)
    with dask.config.set(scheduler="synchronous"):
        one = run(made, BlockedRows(*chunked(X, y, 300), scaling))
        other = run(made, BlockedRows(*chunked(X, y, rows), scaling))
    assert one.theta.tobytes() == other.theta.tobytes()


HARD: dict[str, np.ndarray] = {
    "one record": np.ones((1, 3)),
    "more columns than records": np.eye(3, 9),
    "constant": np.full((50, 2), 0.5),
    "duplicated column": np.repeat(np.linspace(-1, 1, 50)[:, None], 2, axis=1),
    "all blank": np.full((50, 2), np.nan),
    "all zero": np.zeros((50, 2)),
    "huge": np.full((50, 2), 1e308),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize(("solver", "preset"), NEW)
def test_hard_data_gives_finite_coefficients_in_silence(name: str, solver: str, preset: str) -> None:
    X = HARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        found = model(solver=solver, preset=preset, epsilon=1e4).fit(X, np.ones(len(X)))
    assert np.isfinite([*found.coef_, found.intercept_]).all()


@pytest.mark.parametrize(("solver", "preset"), NEW)
def test_with_a_vast_budget_each_is_least_squares(solver: str, preset: str) -> None:
    X, y, _ = records(4000)
    options = {} if solver == "adassp" else {"k1": 200_000}
    if solver == "fast_linear_mixing":
        options["k2"] = 4096  # N: sketch-and-solve keeps the error of a smaller SRHT however large the budget
    found = fit(model(solver=solver, preset=preset, epsilon=1e8, delta=0.5, **options), X, y)
    A = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    # 200,000 rows leave an error of about 0.05/sqrt(200,000) in each coefficient, 1e-4; the grid less.  The papers'
    # curve for fast mixing has γ > 25/8 at any ε: a ridge of that size moves coefficients by 6e-3.
    tolerance = 1e-2 if (solver, preset) == ("fast_linear_mixing", "paper") else 2e-3
    assert [*found.coef_, found.intercept_] == pytest.approx(expected, abs=tolerance)
    assert found.privacy_spent_[0] <= 1e8


@pytest.mark.parametrize(
    ("solver", "preset", "options"),
    [
        ("linear_mixing", "tight", {}),
        ("linear_mixing", "paper", {}),
        ("fast_linear_mixing", "tight", {"coherence": "private"}),
        ("fast_linear_mixing", "paper", {"k2": 500}),
        ("ihm", "paper", {}),
    ],
)
def test_an_estimate_is_kept_only_with_the_draw_that_relies_on_it(
    solver: str, preset: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash at the draw leaves no estimate that a restart could pair with corrected data."""
    X, y, scaling = records(1200)
    made = plan_of(solver, preset, 1200, 4, 50.0, 1e-3, **options)
    path = tmp_path / "releases.jsonl"

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    for module in (linear_mixing, ihm_paper):
        monkeypatch.setattr(module, "wishart", crash)
    with pytest.raises(KeyboardInterrupt):
        run(made, FamilyRows(X, y, scaling), log=ReleaseLog(path))
    assert list(ReleaseLog(path).names) == []
