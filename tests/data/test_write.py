"""Writing a store: any blocks in, whole aligned chunks out."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from data_cases import NAN, plain, same_bits, store_of, table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastdp_dask.data import open_store, write_store
from fastdp_dask.data.write import fit_chunk_rows
from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError, StoreError


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each example overwrites the same store; a first example pays imports
@given(
    sizes=st.lists(st.integers(0, 23), min_size=1, max_size=8).filter(any),
    log_chunk=st.integers(0, 5),
    dtype=st.sampled_from(["float32", "float64"]),
    told=st.booleans(),
)
def test_any_blocks_give_whole_chunks(
    tmp_path: Path, sizes: list[int], log_chunk: int, dtype: str, told: bool
) -> None:
    n, chunk_rows = sum(sizes), 2**log_chunk
    X, y = table(n, 3)
    ends = np.cumsum([0, *sizes])
    blocks = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
    path = write_store(
        tmp_path / "s", blocks, plain(3), n if told else None, dtype, chunk_rows, overwrite=True
    )
    store = open_store(path)
    assert same_bits(store.X.compute(), X.astype(dtype))
    assert same_bits(store.y.compute(), y.astype(dtype))
    stored = zarr.open_group(str(path), mode="r")
    # Data shorter than a chunk get the smallest power of two that holds them.
    step = min(chunk_rows, 1 << (n - 1).bit_length())
    assert stored["X"].chunks == (step, 3)
    assert stored["y"].chunks == (step,)
    assert stored["X"].nchunks_initialized == -(-n // step)
    attributes = dict(stored.attrs)
    assert len(attributes.pop("store_id")) == 32
    assert attributes == {**plain(3).to_dict(), "n_rows": n, "complete": True}


def test_each_write_is_one_whole_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never part of a chunk twice: two writers of one chunk would lose rows."""
    writes: list[tuple[str, int, int]] = []
    plain_set = zarr.Array.__setitem__

    def counted(array: zarr.Array, index: Any, value: Any) -> None:
        writes.append((array.basename, index.start, index.stop))
        plain_set(array, index, value)

    monkeypatch.setattr(zarr.Array, "__setitem__", counted)
    X, y = table(43, 2)
    blocks = [(X[a : a + 5], y[a : a + 5]) for a in range(0, 43, 5)]
    write_store(tmp_path / "s", blocks, plain(2), chunk_rows=16)
    for name in ("X", "y"):
        assert [(a, b) for array, a, b in writes if array == name] == [(0, 16), (16, 32), (32, 43)]


def test_rows_that_read_back_otherwise_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_get = zarr.Array.__getitem__

    def torn(array: zarr.Array, index: Any) -> Any:
        rows = np.array(plain_get(array, index))
        rows[-1:] += 1
        return rows

    monkeypatch.setattr(zarr.Array, "__getitem__", torn)
    with pytest.raises(StoreError, match="array X: rows read back differ"):
        write_store(tmp_path / "s", [(np.ones((4, 2)), np.ones(4))], plain(2))


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "f2", "i8", "f8"])
def test_numeric_blocks_of_any_width(tmp_path: Path, dtype: str) -> None:
    X, y = np.array([[0, 1], [1, 0]], dtype=dtype), np.array([1, 0], dtype=dtype)
    store = open_store(write_store(tmp_path / "s", [(X, y)], plain(2)))
    np.testing.assert_array_equal(store.X.compute(), X.astype("f4"))
    np.testing.assert_array_equal(store.y.compute(), y.astype("f4"))


def test_non_finite_and_huge_values_pass_in_silence(tmp_path: Path) -> None:
    """pytest turns every warning into an error, so an overflow that speaks would fail here."""
    X, y = np.array([[1e308, NAN], [np.inf, -1e308]]), np.array([-np.inf, 1e39])
    store = open_store(write_store(tmp_path / "s", [(X, y)], plain(2)))
    np.testing.assert_array_equal(store.X.compute(), np.array([[np.inf, NAN], [np.inf, -np.inf]], "f4"))
    np.testing.assert_array_equal(store.y.compute(), np.array([-np.inf, np.inf], "f4"))


def test_an_existing_path_is_kept(tmp_path: Path) -> None:
    path = store_of(tmp_path / "s")
    with pytest.raises(StoreError, match=r"exists already.*overwrite=True"):
        write_store(path, [table(4, 3)], plain(3))
    assert open_store(path).n_rows == 40
    assert open_store(write_store(path, [table(4, 3)], plain(3), overwrite=True)).n_rows == 4


def test_only_stores_are_ever_removed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("years of work")
    for path in (tmp_path / "home", tmp_path / "home" / "thesis.txt"):
        with pytest.raises(StoreError, match="is not a Zarr group, so it is not removed"):
            write_store(path, [table(4, 3)], plain(3), overwrite=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "years of work"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield table(20, 3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "s", broken(), plain(3), chunk_rows=8)
    assert not (tmp_path / "s").exists()


def test_a_killed_write_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def stop(rows: int, total: int | None) -> None:
        """Copy what is on disk in the middle of the write: the state that a kill would leave."""
        shutil.copytree(tmp_path / "s", tmp_path / f"killed-{rows}")
        seen.append((rows, total))

    blocks = [table(16, 3), table(16, 3)]
    write_store(tmp_path / "s", blocks, plain(3), 32, chunk_rows=16, progress=stop)
    assert seen == [(16, 32), (32, 32)]
    for rows, _ in seen:
        with pytest.raises(StoreError, match="incomplete"):
            open_store(tmp_path / f"killed-{rows}")
    assert open_store(tmp_path / "s").n_rows == 32


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        (np.ones((2, 3)), np.ones(2), DataShapeError, "must have 2 columns as declared, got 3"),
        (np.ones((2, 2)), np.ones(3), DataShapeError, "equal lengths, got 2 and 3"),
        (np.ones(2), np.ones(2), DataShapeError, "X of a block must have 2 axes, got 1"),
        (np.ones((2, 2)), np.ones((2, 1)), DataShapeError, "y of a block must have 1 axes, got 2"),
        (np.ones((2, 2), dtype=object), np.ones(2), DataTypeError, "got dtype object"),
        (np.ones((2, 2)), np.ones(2, dtype="c8"), DataTypeError, "y of a block .* got dtype complex64"),
        ([[1.0, 2.0]], np.ones(1), DataTypeError, "got list"),
    ],
)
def test_blocks_that_do_not_fit(tmp_path: Path, X: Any, y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        write_store(tmp_path / "s", [(X, y)], plain(2))


def test_row_counts_are_checked(tmp_path: Path) -> None:
    with pytest.raises(DataShapeError, match="at least one row"):
        write_store(tmp_path / "s", [], plain(2))
    with pytest.raises(DataShapeError, match="blocks hold 4 rows: expected n_rows=5"):
        write_store(tmp_path / "s", [table(4, 2)], plain(2), 5)
    with pytest.raises(ArgumentError, match="n_rows must be a whole number >= 1"):
        write_store(tmp_path / "s", [table(4, 2)], plain(2), 0)


def test_a_chunk_stays_below_two_gibibytes() -> None:
    f4, f8 = np.dtype("f4"), np.dtype("f8")
    assert fit_chunk_rows(65536, 41, f4) == 65536
    assert fit_chunk_rows(65536, 8191, f4) == 65536  # 2^31 - 2^18 bytes
    assert fit_chunk_rows(65536, 8192, f4) == 32768
    assert fit_chunk_rows(65536, 8192, f8) == 16384
    assert fit_chunk_rows(1, 10**6, f8) == 1
    for d in (1, 1000, 8191, 10**5):
        assert fit_chunk_rows(2**31, d, f8) * d * 8 < 2**31
    with pytest.raises(ArgumentError, match=r"power of two, got chunk_rows=1000\. Use 1024"):
        fit_chunk_rows(1000, 3, f4)
    with pytest.raises(ArgumentError, match="dtype must be one of 'float32', 'float64', got 'int8'"):
        write_store("unused", [], plain(2), dtype="int8")
