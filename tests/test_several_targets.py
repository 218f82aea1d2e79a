"""Several targets in one release: each by its own bounds, X paid for once, noise for the joint sensitivity."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers import fit, model, small_data, untouchable
from sklearn.metrics import r2_score

from fastdp_dask import Ledger, LinearRegression
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.several_targets import SeveralTargets
from fastdp_dask.commands.app import main
from fastdp_dask.data import Declaration, write_store
from fastdp_dask.errors import ArgumentError, BoundsError, DataShapeError
from fastdp_dask.mechanisms import additive
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource
from fastdp_dask.rows.scaling import declare
from fastdp_dask.rows.targets import declare_each
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers import adassp, pooled, pooled_plan

N, D = 3000, 4
X, _ = small_data(N, D)
THETA = np.array([[0.5, -0.2, 0.1, 0.0], [0.0, 4.0, -3.0, 1.0], [20.0, 10.0, 0.0, -30.0]])
SHIFT = np.array([0.1, 5.0, 50.0])
Y = X @ THETA.T + SHIFT + np.random.default_rng(3).normal(0, [0.05, 0.5, 5.0], (N, 3))
BOUNDS_Y = ([-1.0, -5.0, -20.0], [1.0, 15.0, 120.0])
SOLVERS: list[dict[str, Any]] = [
    {"solver": "ihm", "preset": "tight"},
    {"solver": "fastihm", "preset": "tight", "k2": 256},
    {"solver": "fastihm", "preset": "tight", "k2": 256, "coherence": "private"},
    {"solver": "adassp", "preset": "tight"},
    {"solver": "adassp", "preset": "paper"},
]


def several(**options: Any) -> LinearRegression:
    return model(**{"bounds_y": BOUNDS_Y, "epsilon": 100.0, "solver": "ihm", "preset": "tight", **options})


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a millionth of its size; sketches and Wishart draws stay what they are."""
    whole = additive.gaussian

    def gaussian(value: np.ndarray, scale: float, *rest: Any, **named: Any) -> np.ndarray:
        return whole(value, scale * 1e-6, *rest, **named)

    monkeypatch.setattr(additive, "gaussian", gaussian)


@pytest.mark.parametrize("options", SOLVERS, ids=str)
def test_columns_permuted_permute_the_outputs(options: dict[str, Any], without_noise: None) -> None:
    found = fit(several(**options), X, Y)
    order = [2, 0, 1]
    bounds = tuple(np.array(side)[order] for side in BOUNDS_Y)
    permuted = fit(several(**{**options, "bounds_y": bounds}), X, Y[:, order])
    assert found.coef_.shape == (3, D)
    assert found.intercept_.shape == (3,)
    # What is left of the noise, a millionth of it, is far below a thousandth of a target's half-width.
    half = (np.array(BOUNDS_Y[1]) - BOUNDS_Y[0]) / 2
    assert np.abs((permuted.coef_ - found.coef_[order]) / half[order, None]).max() < 1e-3
    assert np.abs((permuted.intercept_ - found.intercept_[order]) / half[order]).max() < 1e-3
    assert np.abs((found.coef_ - THETA) / half[:, None]).max() < 0.2  # and each is its own regression


def test_each_target_is_clipped_and_scaled_by_its_own_bound() -> None:
    """A value beyond its bound counts as the bound: the exact sums, not only their noisy forms."""
    wild = Y.copy()
    wild[::7, 1], wild[::5, 2], wild[3] = 1e6, -1e6, [9, 99, 999]
    cut = np.clip(wild, *BOUNDS_Y)
    scalings = declare_each(D, 3, bounds_X=(-1, 1), bounds_y=BOUNDS_Y, fit_intercept=True)
    theta = np.random.default_rng(0).uniform(-0.5, 0.5, (D + 1, 3))
    lazy = da.from_array(X, chunks=(700, D))
    rows = [SeveralTargets(lazy, da.from_array(y, chunks=(700, 3)), scalings) for y in (wild, cut)]
    for one, other in zip(rows[0].gram(1.0), rows[1].gram(1.0), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(rows[0].gradient(theta, 0.3), rows[1].gradient(theta, 0.3))


@pytest.mark.parametrize("clip", [1.0, 0.2])
def test_every_column_is_what_one_target_gives(clip: float) -> None:
    scalings = declare_each(D, 3, bounds_X=(-1, 1), bounds_y=BOUNDS_Y, fit_intercept=True)
    theta = np.random.default_rng(0).uniform(-0.5, 0.5, (D + 1, 3))
    sketches = [SRHT(N, 256, seed=1)]
    lazy = da.from_array(X, chunks=(700, D))
    together = SeveralTargets(lazy, da.from_array(Y, chunks=(700, 3)), scalings)
    gram, first = together.gram(clip)
    sums, also_first = together.sketch(sketches, clip)
    deviation = together.deviation(sketches, sums)
    gradient = together.gradient(theta, clip)
    assert together.n_passes == 4  # one for each of these, whatever the number of targets
    for j in range(3):
        alone_scaling = declare(D, bounds_X=(-1, 1), bounds_y=(BOUNDS_Y[0][j], BOUNDS_Y[1][j]))
        alone = BlockedRows(lazy, da.from_array(Y[:, j], chunks=700), alone_scaling)
        assert np.array_equal(alone.gram(clip)[0], gram)
        assert np.array_equal(alone.gram(clip)[1], first[:, j])
        alone_sums, alone_first = alone.sketch(sketches, clip)
        assert np.array_equal(alone_sums[0], sums[0])
        assert np.array_equal(alone_first, also_first[:, j])
        assert alone.deviation(sketches, alone_sums) == deviation
        assert np.array_equal(alone.gradient(theta[:, j], clip), gradient[:, j])


def test_a_record_without_one_target_is_blank_for_all() -> None:
    gaps, blank = Y.copy(), X.copy()
    gaps[5, 1], gaps[6, 2], blank[[5, 6]] = np.nan, np.inf, np.nan
    assert np.array_equal(fit(several(), X, gaps).coef_, fit(several(), blank, Y).coef_)


def test_one_record_moves_the_gradients_by_the_joint_sensitivity_at_most() -> None:
    """‖x rᵀ‖_F ≤ C sqrt(t), and a record at the corner of its bounds all but reaches it."""
    t, clip = 5, 0.5
    scalings = declare_each(1, t, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    one, ends = np.ones((1, 1)), np.ones((1, t))
    blank = np.full((1, 1), np.nan)

    def gradient(x: np.ndarray) -> np.ndarray:
        return SeveralTargets(da.from_array(x), da.from_array(ends), scalings).gradient(np.zeros((1, t)), clip)

    moved = float(np.linalg.norm(gradient(one) - gradient(blank)))
    assert 0.999 * clip * math.sqrt(t) < moved <= clip * math.sqrt(t)


@pytest.mark.parametrize("solver", ["ihm", "fastihm", "adassp"])
def test_the_noise_is_that_of_the_joint_sensitivity(solver: str) -> None:
    """d t draws of N(0, σ² t C²) at a known gradient; 6,000 of them tell sqrt(t) from 1 and from t.

    Mean square over its expectation is 1 ± 0.09 but for 1e-6 of the time (χ² of 6,000 degrees, five standard errors
    of sqrt(2/6000)); for sensitivity C or t C it would be 1/t or t, t = 3.
    """
    t, n, d = 3, 2000, 100
    scalings = declare_each(d, t, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    if solver == "adassp":
        plan: Any = adassp.make_plan(n, d, epsilon=1.0, delta=1e-6, preset="tight")
        scale, name, solve = plan.moment_noise, "moment", adassp.solve
    else:
        options = {"k2": 1024} if solver == "fastihm" else {}
        plan = pooled_plan.make_plan(n, d, solver=solver, epsilon=1.0, delta=1e-6, n_iter=1, **options)
        scale, name, solve = plan.noise_multiplier * plan.clip, "gradient_0", pooled.solve
    plan = replace(plan, n_targets=t)
    squares = []
    for seed in range(20):
        releases = ReleaseLog()
        with pytest.warns(UserWarning, match="random_state"):
            noise = NoiseSource(seed)
        rows: Any = _Zeros(d, t, scalings[0], plan.k2)
        solve(rows, plan, public_seed=1, noise=noise, releases=releases)
        assert releases.stored(name).shape == (d, t)
        squares.append(releases.stored(name) ** 2)
    assert np.mean(squares) / (scale**2 * t) == pytest.approx(1.0, abs=0.09)


class _Zeros:
    """Rows of zeros, without a pass."""

    def __init__(self, d: int, t: int, scaling: Any, k2: int) -> None:
        self.scaling, self.n_rows, self.n_passes, self._shape, self._k2 = scaling, 2000, 0, (d, t), k2

    def gram(self, clip: float) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((self._shape[0],) * 2), np.zeros(self._shape)

    def sketch(self, sketches: Any, clip: float) -> tuple[list[np.ndarray], np.ndarray]:
        return [np.zeros((self._k2, self._shape[0]), dtype=np.int64)], np.zeros(self._shape)


def test_the_budget_is_charged_once(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "budget.db", epsilon=1, delta=1e-6)
    found = fit(several(epsilon=1.0, delta=1e-6, ledger=ledger), X, Y)
    assert len(ledger.charges()) == 1
    assert found.privacy_spent_[0] <= 1.0
    assert found.plan_.n_targets == 3
    assert "3 targets in one release" in found.plan_.describe()


def test_frames_chunks_predictions_scores_and_folders(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = fit(several(run_dir=tmp_path), frame, pd.DataFrame(Y), source="all")
    lazy = dd.from_pandas(pd.DataFrame(Y), npartitions=2)
    for features, target in (
        (da.from_array(X, chunks=(700, D)), da.from_array(Y, chunks=(500, 1))),
        (dd.from_pandas(frame, npartitions=3), lazy),
    ):
        assert np.array_equal(fit(several(), features, target).coef_, found.coef_)
    predicted = found.predict(frame)
    assert predicted.shape == (N, 3)
    assert np.allclose(predicted, X @ found.coef_.T + found.intercept_)
    assert isinstance(found.predict(da.from_array(X)), da.Array)
    assert found.score(X, Y) == pytest.approx(r2_score(Y, predicted))
    again = fit(several(run_dir=tmp_path), frame, pd.DataFrame(Y), source="all")
    loaded = LinearRegression.from_run(tmp_path)
    for other in (again, loaded):
        assert np.array_equal(other.coef_, found.coef_)
        assert np.array_equal(other.intercept_, found.intercept_)
    (tmp_path / "model.json").unlink()  # as if it had been stopped just before: the releases suffice
    unread = untouchable((N, D)), untouchable((N, 3))
    replayed = fit(several(run_dir=tmp_path), *unread, source="all", feature_names=list("abcd"))
    assert np.array_equal(replayed.coef_, found.coef_)


def test_one_column_is_one_target() -> None:
    options = {"bounds_y": (-1, 1)}
    flat, column = (fit(several(**options), X, y) for y in (Y[:, 0], Y[:, :1]))
    assert flat.coef_.shape == column.coef_.shape == (D,)
    assert np.array_equal(flat.coef_, column.coef_)
    assert isinstance(column.intercept_, float)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "linear_mixing"}, r"y must have one column for solver='linear_mixing'.*got 3\. Use solver='ihm'"),
        ({"solver": "fast_linear_mixing"}, "y must have one column for solver='fast_linear_mixing'"),
        ({"solver": "ihm", "preset": "paper"}, "y must have one column for solver='ihm' with preset='paper'"),
        ({"solver": "fastihm", "preset": "paper"}, "y must have one column for solver='fastihm' with preset='paper'"),
        ({"solver": "auto", "preset": "paper"}, "y must have one column"),
        ({"uncertainty": True}, "uncertainty must be False here.*y has several"),
    ],
)
def test_what_has_no_joint_release_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fit(several(**options), untouchable((N, D)), untouchable((N, 3)))


def test_bounds_and_shapes_that_do_not_fit() -> None:
    for bounds in (([0, 0], [1, 1]), ([0, 0, 1], [1, 1, 1]), (0, [1, 2])):
        with pytest.raises(BoundsError, match="bounds_y"):
            fit(several(bounds_y=bounds), untouchable((N, D)), untouchable((N, 3)))
    for target in (np.ones((N, 3, 1)), np.ones((N, 0))):
        with pytest.raises(DataShapeError, match=r"y must be \(n_samples,\) or \(n_samples, n_targets\)"):
            fit(several(bounds_y=(0, 1)), untouchable((N, D)), target)
    found = fit(several(solver="auto", bounds_y=(-20, 120)), X, Y)  # one pair serves all
    assert found.coef_.shape == (3, D)
    with pytest.raises(ArgumentError, match="summary must be of one target"):
        found.summary()


def test_a_run_of_several_targets_has_a_report_and_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = fit(several(run_dir=tmp_path / "run"), X, Y, source="all", feature_names=list("abcd"))
    assert main(["report", str(tmp_path / "run")]) == 0, capsys.readouterr().err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "(target 2)" in page
    assert "-20 to 120" in page
    declared = Declaration(list("abcd"), [(-1, 1)] * D, [], "y", (-1, 1))
    write_store(tmp_path / "s", [(X, Y[:, 0])], declared, chunk_rows=1024)
    arguments = ["predict", str(tmp_path / "run"), str(tmp_path / "s"), "--out"]
    assert main([*arguments, str(tmp_path / "p.csv")]) == 1
    assert "npy or .zarr for a model of several targets" in " ".join(capsys.readouterr().err.split())
    assert main([*arguments, str(tmp_path / "p.npy")]) == 0
    # Stored rows are float32: 6e-8 of entries below 1, times coefficients below 40.
    assert np.abs(np.load(tmp_path / "p.npy") - found.predict(X)).max() < 1e-4


def test_targets_of_unknown_number_are_refused() -> None:
    """Read as one column, a record would count in several rows."""
    X = np.zeros((20, 2))
    lazy = da.from_array(np.ones((20, 2)), chunks=(10, 2))
    rows, columns = da.from_array(np.ones(20, bool), chunks=10), da.from_array(np.ones(2, bool), chunks=2)
    for y in (lazy[rows][:, columns], lazy[:, columns]):
        with pytest.raises(DataShapeError, match=r"^y must have a known number of columns"):
            model().fit(X, y)


class TwoFaced:
    """An object whose shape is not that of its array."""

    shape = (20,)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.ones((20, 2))


def test_targets_that_are_not_what_their_shape_says_are_refused() -> None:
    with pytest.raises(DataShapeError, match=r"^y must have the columns that its shape says, 1, got an array of 2"):
        fit(model(), np.zeros((20, 2)), TwoFaced())
