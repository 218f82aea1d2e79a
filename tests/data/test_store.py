"""Opening a store: lazy, and refused before any read when it is not whole."""

from __future__ import annotations

import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from data_cases import plain, same_bits, store_of, table

from fastdp_dask.data import open_store, write_store
from fastdp_dask.errors import DataShapeError, DataTypeError, StoreError


def foreign(
    path: Path, X: Any, y: Any, attributes: dict[str, Any] | None = None, zarr_format: Any = 3
) -> Path:
    """Write a store as another program would: default chunks, default fill value, no mark of completeness."""
    group = zarr.create_group(str(path), zarr_format=zarr_format)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Zarr warns of dtypes outside its specification: they are the point here
        for name, values in (("X", X), ("y", y)):
            chunks = (4, 2)[: np.ndim(values)]
            zarr.create_array(
                group.store_path, name=name, data=values, chunks=chunks, zarr_format=zarr_format
            )
    n, d = np.shape(X)
    group.attrs.update({**plain(d).to_dict(), "n_rows": n} if attributes is None else attributes)
    return path


def refuse_compute(*args: Any, **options: Any) -> None:
    raise AssertionError("a task ran")


def test_opening_reads_no_row(tmp_path: Path) -> None:
    path = store_of(tmp_path / "s", n_rows=40, chunk_rows=16)
    for chunk in (path / "X" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"")  # whatever reads a chunk now fails
    with dask.config.set(scheduler=refuse_compute):
        store = open_store(path)
    assert store.X.chunks == ((16, 16, 8), (3,))
    assert store.y.chunks == ((16, 16, 8),)
    assert (store.n_rows, store.path, store.declaration) == (40, path, plain(3))
    with pytest.raises(StoreError, match=r"array X of store .* cannot be read"):
        store.X.compute(scheduler="threads")


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_rows_come_back_bit_for_bit(tmp_path: Path, scheduler: str) -> None:
    X, y = table(40, 3)
    store = open_store(write_store(tmp_path / "s", [(X, y)], plain(3), chunk_rows=16))
    assert same_bits(store.X.compute(scheduler=scheduler), X)
    assert same_bits(store.y.compute(scheduler=scheduler), y)
    assert same_bits(store.X[7:35, 1:].compute(scheduler=scheduler), X[7:35, 1:])


def test_lazy_arrays_travel_as_a_path(tmp_path: Path) -> None:
    n = 4000
    X, y = table(n, 3)
    store = open_store(write_store(tmp_path / "s", [(X, y)], plain(3), chunk_rows=1024))
    text = pickle.dumps((store.X, store.y))
    assert len(text) < X.nbytes / 4
    again_X, again_y = pickle.loads(text)
    assert same_bits(again_X.compute(), X)
    assert same_bits(again_y.compute(), y)


def test_a_rewritten_store_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    first = open_store(store_of(tmp_path / "s"))
    before = first.X.compute()
    X, y = table(40, 3, seed=1)
    second = open_store(write_store(tmp_path / "s", [(X, y)], plain(3), chunk_rows=16, overwrite=True))
    assert first.X.name != second.X.name
    assert same_bits(second.X.compute(), X)
    assert not same_bits(before, X)


@pytest.mark.parametrize("name", ["X", "y"])
def test_a_missing_chunk_is_refused_before_any_compute(tmp_path: Path, name: str) -> None:
    path = store_of(tmp_path / "s", n_rows=40, chunk_rows=16)
    chunk = path / name / "c" / "1"
    chunk.unlink() if chunk.is_file() else shutil.rmtree(chunk)
    with (
        dask.config.set(scheduler=refuse_compute),
        pytest.raises(StoreError, match=f"array {name} of store .* has 2 of 3 chunks.*allow_missing_chunks"),
    ):
        open_store(path)
    values = getattr(open_store(path, allow_missing_chunks=True), name).compute()
    assert np.isnan(values[16:32]).all(), "a lost record must count as blanked, not as zeros"
    assert not np.isnan(values[:16]).all()


def test_chunks_of_one_value_are_written(tmp_path: Path) -> None:
    X, y = np.full((8, 2), np.nan), np.full(8, np.nan)
    path = write_store(tmp_path / "s", [(X, y)], plain(2), chunk_rows=4)
    assert np.isnan(open_store(path).X.compute()).all()


def test_a_flipped_byte_is_found_and_not_quoted(tmp_path: Path) -> None:
    path = store_of(tmp_path / "s")
    chunk = path / "X" / "c" / "0" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    store = open_store(path)
    with pytest.raises(StoreError, match=r"array X .* cannot be read") as caught:
        store.X.compute()
    assert caught.value.__context__ is None, "the codec's own message holds checksums of private rows"


@pytest.mark.parametrize("name", ["feature_names", "target", "bounds_X", "bounds_y", "n_rows"])
def test_a_deleted_attribute_is_named(tmp_path: Path, name: str) -> None:
    path = store_of(tmp_path / "s")
    del zarr.open_group(str(path), mode="a").attrs[name]
    with pytest.raises(StoreError, match=f"lacks the attributes {name}"):
        open_store(path)


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("bounds_X", [[0, 1]], StoreError, "malformed attributes: bounds_X"),
        ("bounds_y", [1, 0], StoreError, "malformed attributes: .*lower < upper"),
        ("groups", [[7]], StoreError, "malformed attributes: groups"),
        ("feature_names", 5, StoreError, "malformed attributes: feature_names"),
        ("n_rows", "40", StoreError, "n_rows must be a whole number, got str"),
        ("n_rows", 39, DataShapeError, "rows of X against n_rows: expected 39, got 40"),
        ("complete", False, StoreError, "incomplete: its writing was interrupted"),
    ],
)
def test_a_corrupt_attribute_is_refused(
    tmp_path: Path, name: str, value: Any, error: type[Exception], message: str
) -> None:
    path = store_of(tmp_path / "s")
    zarr.open_group(str(path), mode="a").attrs[name] = value
    with pytest.raises(error, match=message):
        open_store(path)


def test_optional_attributes_may_be_absent(tmp_path: Path) -> None:
    path = store_of(tmp_path / "s")
    attributes = zarr.open_group(str(path), mode="a").attrs
    for name in ("groups", "categories", "complete"):
        del attributes[name]
    assert open_store(path).declaration == plain(3)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "i8", "f4", "f8"])
def test_numbers_of_any_width_become_floats(tmp_path: Path, dtype: str) -> None:
    X = np.arange(10).reshape(5, 2).astype(dtype)
    y = np.arange(5).astype(dtype)
    store = open_store(foreign(tmp_path / "s", X, y), allow_missing_chunks=True)
    assert store.X.dtype == np.promote_types(dtype, "f4")
    assert store.X.dtype.kind == "f"
    np.testing.assert_array_equal(store.X.compute(), X.astype("f8"))
    np.testing.assert_array_equal(store.y.compute(), y.astype("f8"))
    assert store.X.compute().dtype == store.X.dtype


def test_columns_stored_in_parts_are_joined(tmp_path: Path) -> None:
    X, y = table(10, 5)
    store = open_store(foreign(tmp_path / "s", X, y))
    assert store.X.chunks == ((4, 4, 2), (5,))
    assert same_bits(store.X.compute(), X)


def test_shards_count_as_files(tmp_path: Path) -> None:
    X, y = table(16, 2)
    path = foreign(tmp_path / "s", X, y)
    where = zarr.open_group(str(path), mode="a").store_path
    # Not data=X: Zarr 3.0.8 then writes the chunks of a shard at the same time and loses most of them.
    array = zarr.create_array(
        where, name="X", shape=X.shape, dtype=X.dtype, chunks=(2, 2), shards=(8, 2), overwrite=True
    )
    array[:] = X
    assert open_store(path).X.chunks == ((8, 8), (2,))
    assert same_bits(open_store(path).X.compute(), X)
    shutil.rmtree(path / "X" / "c" / "1")
    with pytest.raises(StoreError, match="1 of 2 chunks"):
        open_store(path)


@pytest.mark.parametrize("dtype", ["c8", "M8[s]", "m8[s]", "U3", "T"])
@pytest.mark.parametrize("name", ["X", "y"])
def test_what_is_not_a_number_is_refused(tmp_path: Path, dtype: str, name: str) -> None:
    arrays = {"X": np.zeros((4, 2)), "y": np.zeros(4)}
    arrays[name] = arrays[name].astype("i8").astype(dtype)
    # Format 2, because not every release of Zarr writes dates in format 3.
    path = foreign(tmp_path / "s", arrays["X"], arrays["y"], zarr_format=2 if dtype[0] in "Mm" else 3)
    with pytest.raises(DataTypeError, match=f"array {name} of store .* must be numeric, got dtype"):
        open_store(path)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((4, 2)), np.ones(3), "length of y against n_rows: expected 4, got 3"),
        (np.ones((4, 2)), np.ones((4, 1)), "array y .* must have 1 axes, got 2"),
    ],
)
def test_shapes_that_do_not_fit(tmp_path: Path, X: Any, y: Any, message: str) -> None:
    with pytest.raises(DataShapeError, match=message):
        open_store(foreign(tmp_path / "s", X, y))


def test_columns_that_do_not_fit(tmp_path: Path) -> None:
    path = foreign(tmp_path / "s", np.ones((4, 2)), np.ones(4), {**plain(3).to_dict(), "n_rows": 4})
    with pytest.raises(DataShapeError, match="columns of X against feature_names: expected 3, got 2"):
        open_store(path)


def test_what_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        open_store(tmp_path / "absent")
    (tmp_path / "file").write_text("text")
    with pytest.raises(StoreError, match="not a readable Zarr group"):
        open_store(tmp_path / "file")
    zarr.create_group(str(tmp_path / "empty"))
    with pytest.raises(StoreError, match="no readable array 'X'"):
        open_store(tmp_path / "empty")
