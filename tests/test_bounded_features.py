"""Bounds carried through scaling and products: they hold for every row, and nothing is learned from data."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from helpers import fit, model
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from fastdp_dask import BoundedFeatures, PrivacyLeakWarning
from fastdp_dask.data import read_declaration
from fastdp_dask.errors import ArgumentError, DataShapeError

DECLARED = read_declaration({
    "target": {"name": "y", "lower": -1, "upper": 1},
    "features": {
        "age": {"lower": 20, "upper": 60},
        "region": {"categories": ["n", "s"]},
        "gain": {"lower": -2, "upper": 4},
        "sex": {"categories": ["f", "m", "x"]},
        "day": {"date": ["month", "weekday"]},
    },
})  # fmt: skip
PRODUCTS = [("age", "gain"), ("gain", "gain"), ("region", "age"), ("region", "sex"), ("day", "day"), ("sex", "day")]


def rows(n: int = 400, seed: int = 0) -> np.ndarray:
    """Rows within and beyond their bounds, at most one indicator of a group set."""
    generator = np.random.default_rng(seed)
    region, sex = generator.integers(0, 3, n), generator.integers(0, 4, n)
    return np.column_stack([
        generator.uniform(0, 90, n), region == 0, region == 1, generator.normal(0, 5, n),
        sex == 0, sex == 1, sex == 2, generator.integers(-3, 20, n), generator.integers(-2, 9, n),
    ]).astype(float)  # fmt: skip


@pytest.mark.parametrize("scale", [True, False])
@given(seed=st.integers(0, 2**32), used=st.lists(st.sampled_from(PRODUCTS), max_size=4, unique=True))
def test_every_row_keeps_the_bounds_and_the_groups(scale: bool, seed: int, used: list[Any]) -> None:
    features = BoundedFeatures(DECLARED, products=used, scale=scale)
    declared = features.estimator_arguments()
    out = features.transform(rows(50, seed))
    lower, upper = map(np.array, declared["bounds_X"])
    assert out.shape[1] == len(lower) == len(features.get_feature_names_out())
    assert (out >= lower).all()
    assert (out <= upper).all()
    for group in declared["groups"]:
        assert (np.count_nonzero(out[:, group], axis=1) <= 1).all()
        assert (out[:, group] >= 0).all()
        assert (out[:, group] <= 1).all()
    fit(model(**{"solver": "ihm", "preset": "tight", "n_iter": 1, **declared}), out, np.zeros(50))  # it is taken


def test_columns_and_bounds_by_hand() -> None:
    plain = BoundedFeatures(DECLARED, products=PRODUCTS[:4], scale=False)
    X = np.array([[10.0, 1, 0, -1, 0, 1, 0, 3, 2]])
    names = plain.get_feature_names_out().tolist()
    values = dict(zip(names, plain.transform(X)[0].tolist(), strict=True))
    lower, upper = plain.estimator_arguments()["bounds_X"]
    bounds = dict(zip(names, zip(lower, upper, strict=True), strict=True))
    assert (values["age"], values["age*gain"], values["gain*gain"]) == (20, -20, 1)  # 10 is clipped to 20
    assert (values["region=n*age"], values["region=s*age"], values["region=n*sex=m"]) == (20, 0, 1)
    assert (bounds["age*gain"], bounds["gain*gain"], bounds["region=n*age"]) == ((-120, 240), (0, 16), (0, 60))
    # Numbers in their own units are no group; two categories are.
    assert len(plain.estimator_arguments()["groups"]) == 2 + 1
    scaled = BoundedFeatures(DECLARED, products=PRODUCTS[:4])
    values = dict(zip(names, scaled.transform(X)[0].tolist(), strict=True))
    assert (values["age"], values["gain"], values["region=n*age"]) == (-1, pytest.approx(-2 / 3), 0)
    assert len(scaled.estimator_arguments()["groups"]) == 2 + 2


def test_a_row_does_not_depend_on_the_others() -> None:
    features = BoundedFeatures(DECLARED, products=PRODUCTS)
    X = rows()
    together = features.fit(X).transform(X)
    assert np.array_equal(together[7:8], features.fit(X[:3]).transform(X[7:8]))


def test_frames_dask_arrays_pipelines_and_clones() -> None:
    features = BoundedFeatures(DECLARED, products=PRODUCTS)
    X = rows()
    X[3, 0] = np.nan
    lazy = features.transform(da.from_array(X, chunks=(77, 9)))
    assert isinstance(lazy, da.Array)
    assert np.array_equal(lazy.compute(), features.transform(X), equal_nan=True)
    assert np.isnan(features.transform(X)[3]).sum() == 1 + 1 + 2  # age, age*gain, two regions times age
    frame = pd.DataFrame(X, columns=list(DECLARED.feature_names))
    assert np.array_equal(features.transform(frame), features.transform(X), equal_nan=True)
    with pytest.raises(DataShapeError, match="X must have the columns of fit in their order"):
        features.transform(frame[reversed(frame.columns)])
    with pytest.raises(DataShapeError, match="X must have 9 columns"):
        features.transform(X[:, :8])
    options = {"solver": "ihm", "preset": "tight", "n_iter": 1, **features.estimator_arguments()}
    pipeline = make_pipeline(clone(features), model(**options))
    with pytest.warns(PrivacyLeakWarning):
        pipeline.fit(X, np.zeros(len(X)))
    assert pipeline.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize(
    ("products", "message"),
    [
        ([("age", "height")], r"products must name declared source columns, got 'height'\. Choose from age, region"),
        (["age"], r"products must be pairs of source columns, got 'age'"),
        ([("region", "region")], r"a category, 'region', with itself"),
    ],
)
def test_products_of_what_is_not_declared(products: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        BoundedFeatures(DECLARED, products=products).fit()
