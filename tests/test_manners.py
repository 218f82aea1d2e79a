"""What scikit-learn asks of an estimator, and what people do with one: searches, pipelines, frames, folders."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from helpers import bits, fit, model, small_data, untouchable
from sklearn.ensemble import BaggingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import has_fit_parameter

from fastdp_dask import LinearRegression, PrivacyLeakWarning
from fastdp_dask.data import Declaration, open_store, write_store
from fastdp_dask.errors import ArgumentError, StoreError

X, Y = small_data(300, 3)
TIGHT = {"solver": "ihm", "preset": "tight", "n_iter": 2}

EXPECTED_FAILURES = {
    "check_dtype_object": "an object column may hold anything; whether it converts to numbers depends on its values",
    "check_supervised_y_no_nan": "a record without a target counts as blank, silently: an error would tell of it",
}


def generous() -> LinearRegression:
    return model(epsilon=1e6, delta=0.5, bounds_X=(-1000, 1000), bounds_y=(-1000, 1000), **{**TIGHT, "n_iter": 1})


def test_the_checks_of_scikit_learn_pass_but_for_a_few_with_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the seeds warn, and so do some checks themselves
        results = check_estimator(
            generous(), expected_failed_checks=EXPECTED_FAILURES, on_fail="raise", on_skip=None
        )
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == EXPECTED_FAILURES.keys()  # none of them has begun to pass
    assert sum(result["status"] == "passed" for result in results) > 40


def test_a_frame_s_names_are_those_of_the_fit() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    estimator = fit(generous(), frame, Y)
    assert list(estimator.feature_names_in_) == ["a", "b", "c"]
    for lazy in (False, True):
        given: Any = dd.from_pandas(frame, npartitions=2) if lazy else frame
        assert np.allclose(np.asarray(estimator.predict(given)), X @ estimator.coef_ + estimator.intercept_)


def test_weights_are_not_promised_so_that_meta_estimators_do_without() -> None:
    assert not has_fit_parameter(model(), "sample_weight")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        bagged = BaggingRegressor(model(**TIGHT), n_estimators=2, random_state=0).fit(X, Y)
    assert bagged.predict(X).shape == (300,)
    for wrong in ({"sample_weight": np.ones(300)}, {"sample_weight": [1.0] * 300}):
        with pytest.raises(ArgumentError, match=r"sample_weight must be left out, got weights.*one person's influence"):
            model().fit(untouchable((300, 3)), untouchable((300,)), **wrong)
    assert bits(fit(model(**TIGHT), X, Y, sample_weight=None)) == bits(fit(model(**TIGHT), X, Y))
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        model().fit(X, Y, weights=None)


def test_a_search_over_a_pipeline_of_frames() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    steps = make_pipeline(StandardScaler().set_output(transform="pandas"), model(bounds_X=(-4, 4), **TIGHT))
    search = GridSearchCV(steps, {"linearregression__n_iter": [1, 2]}, cv=2, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        search.fit(frame, Y)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == ["a", "b", "c"]
    assert search.best_params_["linearregression__n_iter"] in (1, 2)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_notebook_shows_it(fitted: bool) -> None:
    estimator = fit(model(), X, Y) if fitted else model()
    shown = estimator._repr_html_()
    assert "LinearRegression" in shown
    assert ("Not fitted" in shown) != fitted
    assert "epsilon=1.0" in repr(estimator)


def test_sparse_data_are_refused_before_anything_is_read() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    blocks = untouchable((300, 3))
    lazy = da.map_blocks(scipy_sparse.csr_matrix, blocks, dtype=float, meta=scipy_sparse.csr_matrix((0, 0)))
    for sparse in (scipy_sparse.csr_array(X), scipy_sparse.coo_matrix(X), lazy):
        with pytest.raises(ArgumentError, match=r"X must be dense, got a sparse .*toarray"):
            fit(model(), sparse, Y)


# -- run folders -----------------------------------------------------------------------------------------------


def test_a_folder_goes_on_without_comparing_values_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line is the same whatever the data: it is said of every unnamed second call, and of no first one."""
    first = fit(model(run_dir=tmp_path / "a", **TIGHT), X, Y)
    assert not caplog.messages
    said = []
    for other in (X, -X):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert bits(fit(model(run_dir=tmp_path / "a", **TIGHT), other, Y)) == bits(first)
        said.append(caplog.messages)
    assert said[0] == said[1]
    assert "without comparing X and y" in said[0][0]


def test_named_data_go_on_silently_and_other_names_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        fit(model(run_dir=tmp_path, **TIGHT), X, Y, source="payroll, March")
    with pytest.raises(ArgumentError, match="with another source"):
        fit(model(run_dir=tmp_path, **TIGHT), untouchable((300, 3)), untouchable((300,)), source="payroll, April")
    assert not caplog.messages


def test_a_store_that_was_written_again_is_other_data(tmp_path: Path) -> None:
    declared = Declaration(["a", "b", "c"], [(-1, 1)] * 3, [], "y", (-1, 1))
    sources = []
    for _ in range(2):  # the same rows: the id is drawn, it follows from nothing in them
        write_store(tmp_path / "s", [(X, Y)], declared, overwrite=True)
        store = open_store(tmp_path / "s")
        sources.append(store.source)
        assert open_store(tmp_path / "s").source == store.source
    fit(model(run_dir=tmp_path / "run", **TIGHT), store.X, store.y, source=sources[0])
    with pytest.raises(ArgumentError, match="with another source"):
        fit(model(run_dir=tmp_path / "run", **TIGHT), store.X, store.y, source=sources[1])


def test_a_finished_folder_is_a_model(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = fit(model(run_dir=tmp_path, **TIGHT), frame, Y)
    loaded = LinearRegression.from_run(tmp_path)
    assert bits(loaded) == bits(fitted)
    assert np.array_equal(loaded.predict(frame), fitted.predict(frame))
    assert loaded.privacy_spent_ == fitted.privacy_spent_
    (tmp_path / "model.json").unlink()
    for empty in (tmp_path, tmp_path / "absent"):
        with pytest.raises(StoreError, match=r"run_dir must be the run folder of a finished fit, got no model\.json"):
            LinearRegression.from_run(empty)
    assert not (tmp_path / "absent").exists()


def test_the_signature_is_the_documented_one() -> None:
    parameters = inspect.signature(LinearRegression).parameters
    assert all(parameter.kind is inspect.Parameter.KEYWORD_ONLY for parameter in parameters.values())
    listed = re.findall(r"^    ([\w, ]+) :", LinearRegression.__doc__ or "", re.MULTILINE)
    assert set(parameters) <= {name for line in listed for name in line.split(", ")}
