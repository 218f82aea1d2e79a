"""Without its noise every solver finds the solution that it stands for, to 1e-8."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from family_cases import FamilyRows, NoNoise, clipped_solution, joined_moments, plan_of, records, run

from fastdp_dask import SRHT, rng
from fastdp_dask.mechanisms import fast_mixing
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.solvers import gradient_descent, ihm_paper, not_private, pooled_plan
from fastdp_dask.solvers.pooled_plan import Switches

N, D, EPSILON, DELTA = 1500, 4, 1.0, 1e-6


@pytest.fixture(autouse=True)
def _silence(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(Z: np.ndarray, added: float, k1: int, noise: Any) -> np.ndarray:
        values, vectors = np.linalg.eigh(Z.T @ Z + added * np.eye(Z.shape[1]))
        return math.sqrt(k1) * (np.sqrt(values)[:, None] * vectors.T)

    monkeypatch.setattr(rng.NoiseSource, "stream", lambda self, name: NoNoise())
    monkeypatch.setattr(fast_mixing, "mixing", whole)  # rows whose moments are their mean


@pytest.fixture(scope="module")
def rows() -> FamilyRows:
    return FamilyRows(*records(N, outliers=True))


def least_squares(rows: FamilyRows, ridge: float = 0.0) -> np.ndarray:
    X = rows.rows
    return np.linalg.solve(X.T @ X + ridge * np.eye(D), X.T @ rows.target)


def test_the_cases_differ(rows: FamilyRows) -> None:
    """Residuals beyond the clip exist, so that the clipped solution is not least squares."""
    assert np.abs(clipped_solution(rows) - least_squares(rows)).max() > 1e-3
    assert np.abs(least_squares(rows, 10.0) - least_squares(rows)).max() > 1e-3


@pytest.mark.parametrize("preset", ["tight", "paper"])
def test_adassp_is_ridge_with_its_ridge(rows: FamilyRows, preset: str) -> None:
    plan = plan_of("adassp", preset, N, D, EPSILON, DELTA)
    found = run(plan, rows)
    assert found.released["ridge"] == pytest.approx(max(0.0, plan.ridge - found.released["lambda_tilde"]))
    smallest = np.linalg.eigvalsh(rows.rows.T @ rows.rows)[0]
    assert found.released["lambda_tilde"] == pytest.approx(max(0.0, smallest - plan.eigenvalue_shift), rel=1e-9)
    assert found.theta == pytest.approx(least_squares(rows, found.released["ridge"]), abs=1e-8)


@pytest.mark.parametrize("preset", ["tight", "paper"])
def test_linear_mixing_is_ridge_on_the_scaled_rows(rows: FamilyRows, preset: str) -> None:
    found = run(plan_of("linear_mixing", preset, N, D, EPSILON, DELTA), rows)
    moments = joined_moments(rows) + found.released["added_variance"] * np.eye(D + 1)
    assert found.released["added_variance"] > 0
    assert found.theta == pytest.approx(np.linalg.solve(moments[:D, :D], moments[:D, D]), abs=1e-8)


@pytest.mark.parametrize(("preset", "k2"), [("tight", 256), ("paper", 256), ("tight", 2048), ("paper", 2048)])
def test_fast_linear_mixing_is_ridge_on_the_sketched_rows(rows: FamilyRows, preset: str, k2: int) -> None:
    found = run(plan_of("fast_linear_mixing", preset, N, D, EPSILON, DELTA, k2=k2), rows)
    moments = joined_moments(rows)
    if k2 < 2048:
        sketch = SRHT(N, k2, seed=rng.derive_key(3, "round", 0)).to_dense()
        target = np.trunc(rows.target * 2**16).clip(1 - 2**16, 2**16 - 1) / 2**16
        B = sketch @ np.column_stack([rows.rows, target]) / math.sqrt(2)
        moments = B.T @ B
    added = found.released["added_variance"]
    assert added > 0
    moments = moments + added * np.eye(D + 1)
    assert found.theta == pytest.approx(np.linalg.solve(moments[:D, :D], moments[:D, D]), abs=1e-8)


@pytest.mark.parametrize("pull", [True, False])
def test_ihm_of_the_paper_converges_to_clipped_ridge_or_clipped_least_squares(rows: FamilyRows, pull: bool) -> None:
    plan = ihm_paper.make_plan(N, D, epsilon=4.0, delta=DELTA, n_iter=200, k1=100, pull=pull)
    found = run(plan, rows)
    added = found.released["added_variance"]
    assert added > 1
    assert found.theta == pytest.approx(clipped_solution(rows, added if pull else 0.0), abs=1e-8)


@pytest.mark.parametrize("solver", ["ihm", "fastihm"])
def test_tight_iterations_converge_to_the_clipped_solution(rows: FamilyRows, solver: str) -> None:
    """At constant steps; the adaptive ones average rounds against noise that is not there, and so converge slowly."""
    plan = pooled_plan.make_plan(
        N, D, solver=solver, epsilon=30.0, delta=DELTA, n_iter=150, switches=Switches(adaptive_steps=False)
    )
    found = run(plan, rows)
    assert found.theta == pytest.approx(clipped_solution(rows), abs=1e-8)


def test_fastihm_of_the_paper_converges_to_clipped_ridge(rows: FamilyRows) -> None:
    plan = plan_of("fastihm", "paper", N, D, 30.0, DELTA, n_iter=20, k1=100, k2=1024)
    found = run(plan, rows)
    assert found.theta == pytest.approx(clipped_solution(rows, found.released["added_variance"]), abs=1e-8)


def test_gradient_descent_converges_to_the_clipped_solution(rows: FamilyRows) -> None:
    plan = gradient_descent.make_plan(N, D, epsilon=EPSILON, delta=DELTA, n_iter=600, step=1.5)
    assert run(plan, rows).theta == pytest.approx(clipped_solution(rows), abs=1e-8)


def test_what_is_not_private_is_least_squares(rows: FamilyRows) -> None:
    expected = least_squares(rows)
    assert not_private.ols(rows) == pytest.approx(expected, abs=1e-10)
    before = rows.n_passes
    sketched = not_private.fastihs(rows, sketch_size=256, n_iter=20, seed=5)
    dense = not_private.ihs(rows, sketch_size=256, n_iter=20, seed=5)
    assert rows.n_passes == before + 40
    for iterates in (sketched, dense):
        errors = np.linalg.norm(iterates - expected, axis=1)
        assert errors[-1] < 1e-8
        assert errors[0] > 1e-4  # one sketch is not the solution


def test_dense_sketches_give_the_loop_of_ihm(rows: FamilyRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # real noise: only the passes and the size of the answer are looked at
    plan = ihm_paper.make_plan(N, D, epsilon=1e4, delta=0.1, k1=2000)
    log, before = ReleaseLog(), rows.n_passes
    with pytest.warns(UserWarning, match="reproducible"):
        noise = rng.NoiseSource(1)
    found = ihm_paper.solve_dense(rows, plan, noise=noise, releases=log)
    assert rows.n_passes - before == plan.n_iter + 1
    hessian = rows.rows.T @ rows.rows + found.released["added_variance"] * np.eye(D)
    scale = np.sqrt(np.outer(np.diag(hessian), np.diag(hessian)))
    for t in range(plan.n_iter):
        # Entries of W/k1 spread by at most sqrt(2/2000) = 0.032; six of them, false alarm below 1e-7 for all 48.
        assert (np.abs(log.stored(f"hessian_{t}") - hessian) / scale).max() < 6 * 0.032
    assert not np.array_equal(log.stored("hessian_0"), log.stored("hessian_1"))
