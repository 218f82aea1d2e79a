"""The estimator's manners, and a clear refusal of every bad input before anything is read."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers import bits, chunked, fit, model, small_data, untouchable
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fastdp_dask import FastDPError, LinearRegression, PrivacyLeakWarning
from fastdp_dask.errors import ArgumentError, BoundsError, DataShapeError, DataTypeError

X, Y = small_data(500, 3)
NAN, INF = float("nan"), float("inf")


# -- bad input -----------------------------------------------------------------------------------------------

BAD_ARGUMENTS: list[tuple[str, Any]] = [
    *[("epsilon", bad) for bad in (None, 0, 0.0, -1, NAN, INF, -INF, "1", True, 1j, [1.0])],
    *[("delta", bad) for bad in (None, 0, 1, 1.0, 1.5, -1e-9, NAN, INF, "1e-6", True, [1e-6])],
    *[("solver", bad) for bad in ("ols", None, 3, "FastIHM")],
    *[("preset", bad) for bad in ("loose", None, 3)],
    *[("coherence", bad) for bad in ("none", None, 3)],
    *[(name, bad) for name in ("n_iter", "k1", "k2") for bad in (0, -1, 2.5, "3", True, NAN)],
    ("k1", 3),  # below d = 4
    ("k2", 513),  # above N = 512
    *[("public_seed", bad) for bad in (-1, 2**128, 1.5, "x", True)],
    *[("random_state", bad) for bad in (-1, 2**128, 1.5, "x", True)],
    *[("bounds_X", bad) for bad in (None, (1, 1), (1, 0), ([0, 0], [1, 1]), (0, INF), "01", 3)],
    *[("bounds_y", bad) for bad in (None, (1, 1), (NAN, 1), (0, [1, 2]), 3)],
    *[("groups", bad) for bad in ([[0, 3]], [[0], [0]], [[]], "a", [0])],
    ("data_norm", 1.0),  # beside bounds_X
]


@pytest.mark.parametrize(("name", "bad"), BAD_ARGUMENTS, ids=lambda value: str(value)[:20])
def test_bad_arguments_are_refused_before_anything_is_read(name: str, bad: Any, tmp_path: Any) -> None:
    estimator = model(**{name: bad}, run_dir=tmp_path / "run")
    with pytest.raises(ArgumentError) as caught:
        fit(estimator, untouchable((500, 3)), untouchable((500,)))
    message = str(caught.value)
    assert name in message  # the argument
    assert re.search(r"must|need", message)  # what was expected
    assert re.search(r"got", message)  # what came
    assert re.search(r"\. [A-Z]\w+.*\.$", message)  # the next step, a sentence of its own
    assert not (tmp_path / "run" / "releases.jsonl").exists()
    assert not hasattr(estimator, "coef_")


@pytest.mark.parametrize("missing", ["epsilon", "delta"])
def test_the_budget_has_no_default(missing: str) -> None:
    budget = {"epsilon": 1.0, "delta": 1e-6}
    del budget[missing]
    with pytest.raises(TypeError, match=missing):
        LinearRegression(**budget)


@pytest.mark.parametrize("value", [3.0, [1.0] * 500, np.ones(500)])
def test_sample_weight_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"sample_weight must be left out.*Leave it out"):
        model().fit(untouchable((500, 3)), untouchable((500,)), value)


BAD_TYPES: dict[str, Any] = {
    "object": np.array([[1, None, 2]], dtype=object), "string": np.array([["a", "b", "c"]]),
    "bytes": np.array([[b"a", b"b", b"c"]]), "complex": np.ones((1, 3), dtype=complex),
    "datetime": np.zeros((1, 3), dtype="M8[s]"), "timedelta": np.zeros((1, 3), dtype="m8[s]"),
    "structured": np.zeros((1, 3), dtype=[("a", float)]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_TYPES)
def test_columns_that_are_no_numbers(kind: str) -> None:
    bad = BAD_TYPES[kind]
    good, target = untouchable((500, 3)), untouchable((500,))
    candidates = [
        (bad, np.ones(1)), (da.from_array(bad, chunks=1), np.ones(1)),
        (untouchable((500, 3), dtype=bad.dtype), target),
        (np.ones((3, 3)), bad[0]), (good, untouchable((500,), dtype=bad.dtype)),
    ]  # fmt: skip
    for features, label in candidates:
        with pytest.raises(DataTypeError, match=r"^[Xy] must be numeric .* got dtype .*\. Convert it"):
            fit(model(), features, label)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("column", [["a", "b"], pd.to_datetime(["2020", "2021"]), pd.Categorical([1, 2])])
def test_a_column_of_a_frame_that_is_no_number_is_named(column: Any, lazy: bool) -> None:
    frame: Any = pd.DataFrame({"fine": [1.0, 2.0], "wrong": column, "also fine": [1, 2]})
    if lazy:
        frame = dd.from_pandas(frame, npartitions=1)
    with pytest.raises(DataTypeError, match="X: column 'wrong' must be numeric"):
        fit(model(), frame, np.ones(2))


BAD_SHAPES: list[tuple[Any, Any, str]] = [
    (np.ones((0, 3)), np.ones(0), r"X must have at least one row and one column, got 0 sample\(s\) \(shape=\(0, 3\)\)"),
    (untouchable((500,)), untouchable((500,)), "X must be two-dimensional"),
    (np.ones((4, 3, 2)), np.ones(4), "X must be two-dimensional"),
    (3.0, 1.0, "X must be two-dimensional"),
    (untouchable((500, 3)), untouchable((499,)), "X and y must have the same length, got 500 and 499"),
    (untouchable((500, 3)), untouchable((500, 2, 2)), r"y must be \(n_samples,\) or \(n_samples, n_targets\)"),
    (untouchable((500, 3)), 1.0, "y must be an array"),
    (
        untouchable((500, 3))[:, untouchable((3,)) > 0],
        untouchable((500,)),
        "X must have a known number of columns",
    ),
]


@pytest.mark.parametrize("case", range(len(BAD_SHAPES)))
def test_bad_shapes(case: int) -> None:
    features, target, named = BAD_SHAPES[case]
    with pytest.raises(DataShapeError, match=f"^{named}.*" + r"\. [A-Z]\w+"):
        fit(model(), features, target)


def test_no_rows_at_all_behind_unknown_chunk_sizes() -> None:
    features, target = chunked(X, Y, 100)
    with pytest.raises(DataShapeError, match="at least one row"):
        fit(model(), features[target > 9], target[target > 9])


def test_every_refusal_is_a_FastDPError_and_its_builtin_kind() -> None:
    assert issubclass(ArgumentError, FastDPError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(BoundsError, ArgumentError)
    assert issubclass(DataTypeError, TypeError)


# -- manners -------------------------------------------------------------------------------------------------


def test_clone_and_parameters_survive_a_fit() -> None:
    bounds = (np.array([-1.0, -1, -1]), np.array([1.0, 1, 1]))
    estimator = model(bounds_X=bounds, groups=[[0, 1]])
    before = copy.deepcopy(estimator.get_params())
    fit(estimator, np.abs(X), Y)
    after = estimator.get_params()
    assert repr(after) == repr(before)
    assert after["bounds_X"] is bounds
    copied = clone(estimator)
    assert not hasattr(copied, "coef_")
    assert repr(copied.get_params()) == repr(before)
    assert bits(fit(copied, np.abs(X), Y)) == bits(estimator)
    assert is_regressor(estimator)
    assert estimator.set_params(epsilon=3.0).epsilon == 3.0


def test_learned_attributes() -> None:
    found = fit(model(), X, Y)
    assert type(found.coef_) is np.ndarray
    assert found.coef_.shape == (3,)
    assert type(found.intercept_) is float
    assert (found.n_features_in_, found.n_iter_, found.n_passes_) == (3, 3, 4)
    assert found.privacy_spent_ == (1.0, 1e-6)
    assert found.plan_.to_dict()["n_samples"] == 500
    assert set(found.release_) == {
        *(f"m_tilde_{t}" for t in range(3)), *(f"lambda_tilde_{t}" for t in range(3)), "added_variance",
    }  # fmt: skip
    assert not hasattr(found, "feature_names_in_")
    assert {name for name in vars(found) if name.endswith("_")} == {
        "coef_", "intercept_", "n_features_in_", "n_iter_", "n_passes_", "plan_", "privacy_spent_",
        "release_", "intervals_", "no_intervals_",
    }  # fmt: skip


def test_nothing_private_is_kept() -> None:
    assert len(pickle.dumps(fit(model(), X, Y))) < 10_000  # 500 × 3 numbers alone take 12,000 bytes


def test_pickle_after_fit() -> None:
    found = fit(model(), X, Y)
    loaded = pickle.loads(pickle.dumps(found))
    assert bits(loaded) == bits(found)
    assert np.array_equal(loaded.predict(X), found.predict(X))


def test_before_fit() -> None:
    for call in (lambda: model().predict(X), lambda: model().score(X, Y)):
        with pytest.raises(NotFittedError):
            call()


def test_a_model_without_intercept() -> None:
    found = fit(model(fit_intercept=False), X, Y)
    assert found.intercept_ == 0.0
    assert found.predict(np.zeros((1, 3)))[0] == 0.0


def test_predict_is_lazy_for_lazy_input_and_exact() -> None:
    found = fit(model(), X, Y)
    expected = X @ found.coef_ + found.intercept_
    assert type(found.predict(X)) is np.ndarray
    assert found.predict(X) == pytest.approx(expected, rel=1e-13)
    assert type(found.predict(pd.DataFrame(X))) is np.ndarray
    assert found.predict(X[:1].astype(np.float16)).dtype == np.float64
    lazy = found.predict(untouchable((500, 3)))
    assert isinstance(lazy, da.Array)
    assert lazy.shape == (500,)
    assert found.predict(da.from_array(X, chunks=(77, 3))).compute() == pytest.approx(expected, rel=1e-13)
    frame = dd.from_pandas(pd.DataFrame(X), npartitions=3)
    broken = frame.map_partitions(lambda part: part / "x" if len(part) else part, meta=frame._meta)
    assert isinstance(found.predict(broken), da.Array)  # a frame's rows are not even counted
    assert found.predict(frame).compute() == pytest.approx(expected, rel=1e-13)


def test_predict_wants_the_same_columns() -> None:
    found = fit(model(), X, Y)
    with pytest.raises(DataShapeError, match=r"X must have 3 columns as in fit, .* X has 2 .*\. Select"):
        found.predict(untouchable((10, 2)))


def test_score_is_a_float_and_the_usual_one() -> None:
    found = fit(model(), X, Y)
    score = found.score(*chunked(X, Y, 64))
    assert type(score) is float
    assert score == pytest.approx(r2_score(Y, found.predict(X)), rel=1e-10)
    with pytest.raises(ArgumentError, match="sample_weight"):
        found.score(X, Y, sample_weight=np.ones(500))


def test_feature_names_of_the_last_fit() -> None:
    estimator = model()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for features in (frame, dd.from_pandas(frame, npartitions=2)):
        fit(estimator, features, Y)
        assert estimator.feature_names_in_.tolist() == ["a", "b", "c"]
        assert estimator.feature_names_in_.dtype == object
    fit(estimator, pd.DataFrame(X), Y)  # numbered columns are no names
    assert not hasattr(estimator, "feature_names_in_")


def test_a_pipeline_carries_it() -> None:
    pipeline = make_pipeline(FunctionTransformer(), model())
    with pytest.warns(PrivacyLeakWarning):
        pipeline.fit(X, Y)
    assert pipeline.predict(X).shape == (500,)


# -- randomness ----------------------------------------------------------------------------------------------


def test_an_int_gives_equal_fits_and_a_generator_advances() -> None:
    assert bits(fit(model(), X, Y)) == bits(fit(model(), X, Y))
    assert bits(fit(model(random_state=12), X, Y)) != bits(fit(model(), X, Y))
    assert bits(fit(model(public_seed=8), X, Y)) != bits(fit(model(), X, Y))
    estimator = model(random_state=np.random.default_rng(5))
    first = bits(fit(estimator, X, Y))
    assert bits(fit(estimator, X, Y)) != first
    assert bits(fit(model(random_state=np.random.default_rng(5)), X, Y)) == first


def test_each_seed_warns_once_at_the_callers_line() -> None:
    cases = {
        (None, None): [],
        (7, None): ["public_seed"],
        (None, 7): ["random_state"],
        (7, 7): ["random_state", "public_seed"],
    }
    for (public_seed, random_state), expected in cases.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model(public_seed=public_seed, random_state=random_state).fit(X, Y)
        assert [str(warning.message).split()[0] for warning in caught] == expected
        assert {warning.category for warning in caught} <= {PrivacyLeakWarning}
        assert all(warning.filename == __file__ for warning in caught)


def test_without_seeds_no_two_fits_are_equal() -> None:
    estimator = model(public_seed=None, random_state=None)
    first = bits(estimator.fit(X, Y))
    assert bits(estimator.fit(X, Y)) != first


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda b: b[:, 1:].copy(), DataShapeError),
        (lambda b: np.hstack([b, b]), DataShapeError),
        (lambda b: b[:-1].copy(), DataShapeError),
        (lambda b: np.vstack([b, b]), DataShapeError),
        (lambda b: b.astype(str), DataTypeError),
    ],
)
def test_a_block_that_is_not_what_it_was_declared_is_refused(change: Any, error: type[Exception]) -> None:
    X, y = small_data(400, 3)
    lying = da.from_array(X, chunks=(100, 3)).map_blocks(change, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(error, match=r"X: .*block must .*got .*Give map_blocks"):
        fit(model(), lying, da.from_array(y, chunks=100))


def test_columns_of_another_order_or_name_are_refused() -> None:
    X, y = small_data(400, 3)
    frame = pd.DataFrame(X, columns=list("abc"))
    fitted = fit(model(), frame, y)
    for wrong in (frame[["c", "b", "a"]], frame.rename(columns={"a": "zz"})):
        with pytest.raises(DataShapeError, match="X must have the columns of fit in their order"):
            fitted.predict(wrong)
        with pytest.raises(DataShapeError, match="X must have the columns of fit in their order"):
            fitted.score(wrong, y)
    assert np.array_equal(fitted.predict(frame), fitted.predict(X))


def test_a_masked_entry_is_a_missing_one() -> None:
    X, y = small_data(400, 3)
    mask = np.zeros_like(X, dtype=bool)
    mask[::2, 1] = True
    masked, blank = np.ma.MaskedArray(X, mask), np.where(mask, np.nan, X)
    wanted = fit(model(), blank, y).coef_
    assert np.array_equal(fit(model(), masked, y).coef_, wanted)
    assert np.array_equal(fit(model(), da.from_array(masked, chunks=(100, 3)), y).coef_, wanted)


@pytest.mark.parametrize(
    "options", [{"n_iter": 10**9}, {"k1": 2**70}, {"epsilon": 10**400}, {"bounds_X": (-(10**400), 1)}]
)
def test_numbers_beyond_all_use_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        fit(model(**options), *small_data(40, 3))


def test_a_missing_target_is_refused() -> None:
    with pytest.raises(DataShapeError, match="y must be given"):
        model().fit(small_data(40, 3)[0], None)
