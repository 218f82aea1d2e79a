"""The same fit, bit for bit, however the data is cut, stored, scheduled or blanked."""

from __future__ import annotations

import logging
import warnings
from contextlib import nullcontext
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.callbacks import Callback
from distributed import Client, LocalCluster
from helpers import bits, chunked, fit, model, small_data
from hypothesis import given, settings
from strategies import chunkings

from fastdp_dask import PrivacyLeakWarning

N = 3000
X, Y = small_data(N, 4)
X[::50] = np.nan


@pytest.fixture(scope="module")
def expected() -> bytes:
    """One chunk, one thread."""
    with dask.config.set(scheduler="synchronous"):
        return bits(fit(model(), *chunked(X, Y, N)))


@settings(max_examples=15)
@given(rows=chunkings(N))
def test_every_chunking(expected: bytes, rows: tuple[int, ...]) -> None:
    with dask.config.set(scheduler="synchronous"):
        assert bits(fit(model(), *chunked(X, Y, rows))) == expected


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("rows", [N, 997, 64, (0, 1, 2047, 0, 952, 0)])
def test_every_local_scheduler(expected: bytes, scheduler: str, rows: Any) -> None:
    with dask.config.set(scheduler=scheduler):
        assert bits(fit(model(), *chunked(X, Y, rows))) == expected


@pytest.mark.cluster
def test_two_worker_processes(expected: bytes, two_workers: LocalCluster) -> None:
    with Client(two_workers):
        for rows in (N, 997, 100):
            assert bits(fit(model(), *chunked(X, Y, rows))) == expected


def test_unequal_chunks_of_X_and_y(expected: bytes) -> None:
    assert bits(fit(model(), da.from_array(X, chunks=(500, 4)), da.from_array(Y, chunks=(700,)))) == expected


def test_chunks_along_columns_warn_and_change_nothing(expected: bytes) -> None:
    with pytest.warns(UserWarning, match=r"X is chunked along its columns \(2 chunks\)"):
        found = fit(model(), da.from_array(X, chunks=(500, 2)), da.from_array(Y, chunks=500))
    assert bits(found) == expected


def test_target_as_one_column(expected: bytes) -> None:
    assert bits(fit(model(), X, Y[:, None])) == expected


def frames() -> tuple[pd.DataFrame, pd.Series]:
    return pd.DataFrame(X, columns=list("abcd")), pd.Series(Y, name="y")


def test_numpy_pandas_and_dask_collections_agree_intercept_included(expected: bytes) -> None:
    frame, series = frames()
    lazy, lazy_y = dd.from_pandas(frame, npartitions=4), dd.from_pandas(series, npartitions=4)
    known = (lazy.to_dask_array(lengths=True), lazy_y.to_dask_array(lengths=True))
    for features, target in [
        (X, Y),
        (frame, series),
        (frame, Y),
        (X.tolist(), Y.tolist()),
        known,
        (lazy, lazy_y),
    ]:
        found = fit(model(), features, target)
        assert bits(found) == expected
        assert found.coef_.shape == (4,)
        assert isinstance(found.intercept_, float)


def test_unknown_chunk_sizes_are_counted_in_one_logged_pass(
    expected: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    features, target = chunked(np.vstack([X, X]), np.concatenate([Y, Y]), 500)
    kept = da.arange(2 * N, chunks=500) < N  # leaves empty chunks at the end
    features, target = features[kept], target[kept]
    with caplog.at_level(logging.WARNING, logger="fastdp_dask"):
        assert bits(fit(model(), features, target)) == expected
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        "counting the rows of X", "counting the rows of y",
    ]  # fmt: skip
    assert all("compute_chunk_sizes()" in record.getMessage() for record in caplog.records)
    assert np.isnan(features.shape[0])  # the caller's array is as it was
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "i8", "u8", "f2", ">f2", "f4", ">f4", "f8", ">f8", "g"])
def test_every_numeric_type_that_holds_the_values(dtype: str) -> None:
    whole = np.random.default_rng(3).integers(0, 100, (500, 4))
    label = whole @ [1, 0, 1, 0]
    options = {"bounds_X": (0, 100), "bounds_y": (0, 200)}
    reference = bits(fit(model(**options), whole.astype(float), label.astype(float)))
    assert bits(fit(model(**options), whole.astype(dtype), label.astype("f8" if "1" in dtype else dtype))) == reference


def test_booleans_are_zeros_and_ones() -> None:
    flags = np.random.default_rng(4).random((500, 4)) < 0.5
    reference = bits(fit(model(), flags.astype(float), flags[:, 0].astype(float)))
    assert bits(fit(model(), flags, flags[:, 0])) == reference


def test_fortran_order_and_strides() -> None:
    reference = bits(fit(model(), X, Y))
    assert bits(fit(model(), np.asfortranarray(X), np.repeat(Y, 2)[::2])) == reference


def test_mixed_and_nullable_columns_take_a_missing_value_as_a_blank_record() -> None:
    plain = np.column_stack([np.arange(300) % 2, np.linspace(-1, 1, 300), np.arange(300) % 3 - 1.0])
    plain[5] = plain[70] = np.nan
    label = np.linspace(-1, 1, 300)
    frame = pd.DataFrame(plain, columns=list("abc"))
    nullable = frame.astype({"a": "boolean", "c": "Int64"})
    mixed = frame.fillna({"a": 0.0}).astype({"a": bool})
    reference = bits(fit(model(), plain, label))
    for features in (
        nullable,
        mixed,
        dd.from_pandas(nullable, npartitions=2),
        dd.from_pandas(mixed, npartitions=2),
    ):
        assert bits(fit(model(), features, label)) == reference
    target = pd.Series(label).astype("Float64")
    target[9] = pd.NA
    blanked = label.copy()
    blanked[9] = np.nan
    for series in (target, dd.from_pandas(target, npartitions=3)):
        assert bits(fit(model(), plain, series)) == bits(fit(model(), plain, blanked))


class Tasks(Callback):  # type: ignore[misc]
    """Counts the tasks that a scheduler of this process runs."""

    def __init__(self) -> None:
        self.count = 0
        super().__init__(pretask=self._one)

    def _one(self, *_: Any) -> None:
        self.count += 1


HUGE = np.longdouble("1e4000")  # an infinity in float64
SIGNALLING = np.array([0x7F800001], dtype=np.uint32).view(np.float32)[0]
BLANKS: list[tuple[Any, Any]] = [
    (None, 0), (0, np.nan), (1234, np.nan), (1234, np.inf), (1234, SIGNALLING), (1234, 1e308), (1234, HUGE),
    (N - 1, -np.inf),
    (slice(300, 600), np.nan), (slice(None), np.nan),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "g"])
def test_blank_and_hostile_records_change_nothing_that_can_be_seen(
    dtype: str, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = set()
    for blank, value in BLANKS:
        features, target = np.nan_to_num(X).astype(dtype), Y.astype(dtype)
        if blank is not None:
            with np.errstate(all="ignore"):
                features[blank, 0] = target[blank] = np.asarray(value, dtype=dtype)
        passes: list[tuple[Any, ...]] = []

        def note(*facts: Any, passes: list[tuple[Any, ...]] = passes) -> Any:
            passes.append(facts)
            return nullcontext()

        tasks = Tasks()
        with warnings.catch_warnings(record=True) as caught, dask.config.set(scheduler="synchronous"), tasks:
            warnings.simplefilter("always")
            found = model().fit(*chunked(features, target, 300), progress=note)
        assert {warning.category for warning in caught} == {PrivacyLeakWarning}
        assert np.isfinite(found.coef_).all()
        seen.add((tasks.count, tuple(passes), found.n_passes_, len(caught), *capfd.readouterr()))
    assert len(seen) == 1
    count, passes_seen, *_ = next(iter(seen))
    assert count > 4 * 10
    assert [facts[0] for facts in passes_seen] == ["sketch", "deviation", "gradient", "gradient"]
