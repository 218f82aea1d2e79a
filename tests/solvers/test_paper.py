"""The paper preset: its plan to the letter, its passes, its loop against a dense twin."""

from __future__ import annotations

import math
import warnings
from typing import Any

import dask
import numpy as np
import pytest
from helpers import PAPER, ReadCounter, chunked, fit, model, small_data
from naive import DenseRows, coherence, deviation

from fastdp_dask import SRHT, PrivacyLeakWarning, privacy, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms.fast_mixing import private_deviation
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.scaling import declare
from fastdp_dask.solvers import fast_ihm_paper


def test_plan_is_the_papers() -> None:
    n, d, epsilon, delta, T = 100_000, 30, 0.7, 1e-10, 4
    plan = fast_ihm_paper.make_plan(n, d, epsilon=epsilon, delta=delta, n_iter=T)
    rho = delta / 10
    L = max(d, math.log(4 * T / rho))
    assert (plan.k1, plan.k2) == (math.ceil(6 * L), math.ceil(100 * L))
    assert plan.omega == 6 * T / epsilon
    assert plan.tau == max(math.log(3 * T / delta), math.log(16 * T / rho))
    assert plan.clip == 1.0
    assert plan.n_passes == T + 1
    # What it says it spends on each kind, and in all.
    third = (epsilon / 3, delta / 3)
    sketches = privacy.rdp_to_epsilon(
        lambda a: T * plan.k1 * privacy.fast_mixing_rdp_paper(a, plan.gamma),
        third[1],
        alpha_max=4 * plan.gamma / 5,
    )
    gradients = privacy.rdp_to_epsilon(lambda a: T * privacy.gaussian_rdp(a, plan.noise_multiplier), third[1])
    assert 0.99 * third[0] < sketches <= third[0]
    assert 0.99 * third[0] < gradients <= third[0]
    assert 2 * T / plan.omega == pytest.approx(third[0], rel=1e-15)
    assert sum(line.epsilon for line in plan.budget) == pytest.approx(epsilon, rel=1e-15)
    assert sum(line.delta for line in plan.budget) == pytest.approx(delta, rel=1e-15)


def test_defaults_never_leave_their_range() -> None:
    plan = fast_ihm_paper.make_plan(10, 3, epsilon=1.0, delta=1e-6)
    assert plan.n_iter == 3
    assert plan.k2 == 16  # N
    assert plan.k1 >= 3


@pytest.mark.parametrize(
    ("sizes", "named"), [({"k1": 4}, "k1 must be at least"), ({"k2": 129}, "k2 must be at most 128")]
)
def test_sizes_out_of_range(sizes: dict[str, int], named: str) -> None:
    with pytest.raises(ArgumentError, match=rf"^{named}.*got .*\. Leave it out"):
        fast_ihm_paper.make_plan(100, 5, epsilon=1.0, delta=1e-6, **sizes)


@pytest.mark.parametrize("k2", [40, 256])
def test_loop_equals_its_dense_twin(k2: int) -> None:
    X, y = small_data(200, 3)
    scaling = declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1))
    plan = fast_ihm_paper.make_plan(200, 4, epsilon=1e6, delta=1e-3, n_iter=3, k1=5000, k2=k2)
    solutions, logs = [], []
    for rows in (BlockedRows(*chunked(X, y, 37), scaling), DenseRows(X, y, scaling)):
        with pytest.warns(PrivacyLeakWarning):
            noise = rng.NoiseSource(1)
        log = ReleaseLog()
        solutions.append(fast_ihm_paper.solve(rows, plan, public_seed=3, noise=noise, releases=log))
        logs.append(log)
        assert rows.n_passes == plan.n_passes == 4
    blocked, dense = solutions
    # The residual grid moves a gradient by at most n·2^-16 in each column; all else differs by rounding only.
    assert blocked.released == pytest.approx(dense.released, rel=1e-9)
    for t in range(3):
        assert logs[0].stored(f"hessian_{t}") == pytest.approx(logs[1].stored(f"hessian_{t}"), rel=1e-9)
    assert blocked.iterates == pytest.approx(dense.iterates, abs=200 / 2**16)
    # The update by its formula, from what was released.
    log, theta = logs[0], np.zeros(4)
    for t in range(3):
        step = log.stored(f"gradient_{t}") - blocked.released["added_variance"] * theta
        theta = theta + np.linalg.solve(log.stored(f"hessian_{t}"), step)
        assert blocked.iterates[t] == pytest.approx(theta, rel=1e-9)
    # η² covers γ(1 + 2 m̃_t) − λ̃_t of every round.
    released = blocked.released
    needed = [plan.gamma * (1 + 2 * released[f"m_tilde_{t}"]) - released[f"lambda_tilde_{t}"] for t in range(3)]
    assert released["added_variance"] == max(0.0, *needed)


def test_each_round_has_its_own_sketch_and_its_own_releases() -> None:
    """Every release of the sketch steps, recomputed from the definitions and the seeded noise."""
    X, y = small_data(200, 3)
    rows = DenseRows(X, y, declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1)))
    # So little noise that X̃ᵀX̃/k1 shows which ZᵀZ it was made from.
    plan = fast_ihm_paper.make_plan(200, 4, epsilon=1e6, delta=1e-3, n_iter=3, k1=40_000, k2=40)
    with pytest.warns(PrivacyLeakWarning):
        noise = rng.NoiseSource(1)
    log = ReleaseLog()
    fast_ihm_paper.solve(rows, plan, public_seed=3, noise=noise, releases=log)
    sketches = [SRHT(200, 40, seed=rng.derive_key(3, "round", t)) for t in range(3)]
    added = float(log.stored("added_variance"))
    assert added > 0
    for t, sketch in enumerate(sketches):
        Z = sketch.to_dense() @ rows.rows
        # Δ, with 2^-20 for the rounding of the deviation.
        sensitivity = coherence(sketch) + 2.0**-20
        expected = private_deviation(
            deviation(sketch, rows.rows), sensitivity, plan.omega, plan.tau, noise.stream(f"m_tilde_{t}")
        )
        assert float(log.stored(f"m_tilde_{t}")) == pytest.approx(expected, rel=1e-9)
        covariance = Z.T @ Z + added * np.eye(4)
        # k1 rows: the relative spread of an entry is below sqrt(2/40,000) = 0.0071; six of them.
        scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        assert (np.abs(log.stored(f"hessian_{t}") - covariance) / scale).max() < 6 * 0.0071
        other = sketches[t - 1].to_dense() @ rows.rows
        assert (np.abs(other.T @ other + added * np.eye(4) - covariance) / scale).max() > 12 * 0.0071
    assert len({sketch.seed for sketch in sketches}) == 3


def test_with_a_vast_budget_it_is_least_squares() -> None:
    X, y = small_data(5000, 3)
    found = fit(model(epsilon=1e7, delta=0.5, k1=5000, n_iter=6), X, y)
    A = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(A, y, rcond=None)[0]
    assert found.coef_ == pytest.approx(expected[:-1], abs=1e-3)
    assert found.intercept_ == pytest.approx(expected[-1], abs=1e-3)


@pytest.mark.parametrize("n_iter", [1, 2, 5])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_every_chunk_is_read_once_in_each_of_T_plus_1_passes(n_iter: int, scheduler: str) -> None:
    X, y = small_data(1000, 3)
    source, target = ReadCounter(X, 100), ReadCounter(y[:, None], 100)
    with dask.config.set(scheduler=scheduler):
        found = fit(model(n_iter=n_iter, persist=False), source.array, target.array[:, 0])
    assert source.reads == dict.fromkeys(range(10), n_iter + 1)
    assert target.reads == dict.fromkeys(range(10), n_iter + 1)
    assert found.n_passes_ == found.plan_.n_passes == n_iter + 1
    assert found.n_iter_ == n_iter


HARD: dict[str, Any] = {
    "one record": np.ones((1, 3)),
    "two records": np.array([[1.0, 0, 0], [0, 1, 0]]),
    "more columns than records": np.eye(3, 9),
    "constant": np.full((50, 2), 0.5),
    "duplicated column": np.repeat(np.linspace(-1, 1, 50)[:, None], 2, axis=1),
    "all blank": np.full((50, 2), np.nan),
    "all zero": np.zeros((50, 2)),
    "one column": np.linspace(-1, 1, 50)[:, None],
    "huge": np.full((50, 2), 1e308),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_data_gives_finite_coefficients_in_silence(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    X = HARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        found = model(**PAPER).fit(X, np.ones(len(X)))
    assert np.isfinite(found.coef_).all()
    assert math.isfinite(found.intercept_)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("k2", [64, 512])
def test_coarsened_sums_are_covered(monkeypatch: pytest.MonkeyPatch, k2: int) -> None:
    """Where int64 would overflow, sums are coarsened: m̃'s sensitivity grows by that, and with k2 = N m is 0 by case."""
    unit = 256.0
    for place in ("fastdp_dask.blocked.passes", "fastdp_dask.mechanisms.spectral"):
        monkeypatch.setattr(f"{place}.deviation_unit", lambda n, k: unit)
    seen: list[tuple[float, float]] = []

    def watched(deviation: float, coherence: float, *rest: Any) -> float:
        seen.append((deviation, coherence))
        return 0.0

    monkeypatch.setattr("fastdp_dask.mechanisms.fast_mixing.private_deviation", watched)
    X, y = small_data(400, 3)
    fit(model(**PAPER, k2=k2, n_iter=2), X, y)
    assert len(seen) == 2
    for value, sensitivity in seen:
        if k2 == 512:
            assert (value, sensitivity) == (0.0, 0.0)
        else:
            assert value > 0
            assert sensitivity >= 2 * math.sqrt(4) * unit / 2**16
