"""One lazy (X, y) from whatever the user has: NumPy, pandas, Dask arrays and Dask DataFrames."""

from __future__ import annotations

import logging
import math
import warnings
from typing import Any

import dask.array as da
import numpy as np

from fastdp_dask.blocked.columns import distinct
from fastdp_dask.errors import DataShapeError, DataTypeError
from fastdp_dask.sketch.blocks import previous_power_of_two

_logger = logging.getLogger(__name__)
_NUMERIC_KINDS = "biuf"
_CHUNK_BYTES = 32 * 2**20
_SMALL_CHUNK_BYTES = 2**20


def as_blocks(X: Any, y: Any = None) -> tuple[da.Array, da.Array | None, list[str] | None]:
    """X as a Dask array (n, d) in one column chunk, y as (n,) or (n, t) chunked like it, and the column names if any.

    Nothing is computed, except with y the lengths of chunks of unknown size (one counted pass, logged): n is
    public.  Integer, boolean and float columns of any width and byte order are taken; a frame of mixed or
    nullable columns becomes float64, its missing values nan.

    Raises
    ------
    DataShapeError
        If X is not two-dimensional, y is neither one- nor two-dimensional, their lengths differ, or n = 0 or d = 0.
    DataTypeError
        If a column is object, string, complex or datetime.
    """
    names = column_names(X)
    features = _as_array("X", X)
    if features.ndim != 2:
        raise DataShapeError(
            f"X must be two-dimensional (n_samples, n_features), got {features.ndim} dimensions. Reshape your data."
        )
    _check_kind("X", features.dtype)
    if math.isnan(features.shape[1]):
        raise _unknown_columns()
    if y is not None:
        features = _known_chunks("X", features)
    n, d = features.shape
    if n == 0 or d == 0:
        lack = f"{d} feature(s) (shape=({n}, {d}))" if d == 0 else f"0 sample(s) (shape=({n}, {d}))"
        raise DataShapeError(
            f"X must have at least one row and one column, got {lack} while a minimum of 1 is required. "
            "Check how it was read."
        )
    if features.numblocks[1] > 1:
        warnings.warn(
            f"X is chunked along its columns ({features.numblocks[1]} chunks); it is rechunked to whole rows. "
            "Store it with all columns in one chunk to save the copy.",
            UserWarning,
            stacklevel=3,
        )
        features = features.rechunk({1: -1})
    if y is None:
        return features, None, names
    target = _as_array("y", y)
    if target.ndim == 2 and math.isnan(target.shape[1]):
        raise _unknown_columns("y")
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim not in (1, 2) or 0 in target.shape[1:]:
        raise DataShapeError(
            f"y must be (n_samples,) or (n_samples, n_targets), got {target.ndim} dimensions"
            f"{' and no column' * (target.ndim == 2)}. Reshape it."
        )
    _check_kind("y", target.dtype)
    target = _known_chunks("y", target)
    if target.shape[0] != n:
        raise DataShapeError(
            f"X and y must have the same length, got {n} and {target.shape[0]} rows. Check that they belong together."
        )
    if target.chunks[0] != features.chunks[0] or target.numblocks[1:] not in ((), (1,)):
        target = target.rechunk((features.chunks[0], *target.shape[1:]))
    return features, target, names


def count_features(X: Any) -> int:
    """Columns of X, from its shape or its column names; nothing is computed."""
    shape = getattr(X, "shape", None)
    if shape is None:
        shape = np.asarray(X).shape
    if len(shape) != 2:
        raise DataShapeError(
            f"X must be two-dimensional (n_samples, n_features), got {len(shape)} dimensions. Reshape your data."
        )
    if isinstance(shape[1], float):  # Dask's nan
        raise _unknown_columns()
    return int(shape[1])


def count_targets(y: Any) -> int:
    """Columns of y, 1 for a vector; from its shape alone.  What is no y at all counts as one and is refused later."""
    shape = getattr(y, "shape", None)
    if shape is None:
        shape = np.asarray(y).shape
    if len(shape) == 2 and isinstance(shape[1], float):  # Dask's nan
        raise _unknown_columns("y")
    several = len(shape) == 2 and isinstance(shape[1], int | np.integer) and shape[1] > 1
    return int(shape[1]) if several else 1


def check_block(name: str, block: Any, declared: tuple[int, int]) -> None:
    """Refuse a block that is not what its array said: its rows would be bounded and paired wrongly."""
    hint = "Give map_blocks the dtype= and chunks= of what it returns, and filter rows with a known count."
    if not isinstance(block, np.ndarray) or block.dtype.kind not in _NUMERIC_KINDS:
        got = f"dtype {block.dtype}" if isinstance(block, np.ndarray) else type(block).__name__
        raise DataTypeError(f"{name}: every block must be a numeric NumPy array, got {got}. {hint}")
    if block.shape != declared:
        raise DataShapeError(f"{name}: a block must have its declared shape {declared}, got {block.shape}. {hint}")


def native(block: np.ndarray) -> np.ndarray:
    """The block as C-contiguous float32 (if it is that) or float64: what the row kernels take.

    Silent: NumPy would warn of a signalling nan or of an overflow, which would tell about the data.
    """
    dtype = np.float32 if block.dtype.kind == "f" and block.dtype.itemsize == 4 else np.float64
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(_unmasked(block), dtype=dtype)


def native_target(block: np.ndarray) -> np.ndarray:
    """The targets (m, 1) or (m,) as (m,) float64, silently."""
    if block.ndim > 1 and block.shape[1] != 1:  # read as one column, a record would count in several rows
        raise DataShapeError(f"y: a block of one target must have one column, got {block.shape[1]}. Check its chunks.")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(_unmasked(block), dtype=np.float64).reshape(-1)


def _unmasked(block: np.ndarray) -> np.ndarray:
    """A masked entry is a missing one."""
    return np.ma.filled(block.astype(np.float64), np.nan) if isinstance(block, np.ma.MaskedArray) else block


def column_names(X: Any) -> list[str] | None:
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = list(columns)
    return distinct("columns of X", names) if all(isinstance(name, str) for name in names) else None


def _as_array(name: str, value: Any) -> da.Array:
    if isinstance(value, da.Array):
        _refuse_sparse(name, da.utils.meta_from_array(value))
        return value
    _refuse_sparse(name, value)
    types = _frame_types(name, value)
    # One NumPy dtype stays; pandas would turn mixed columns, or nullable ones with a gap, into objects.
    uniform = len(set(types)) == 1 and isinstance(types[0], np.dtype)
    if hasattr(value, "to_dask_array"):  # Dask DataFrame or Series
        return (value if uniform else value.astype(np.float64)).to_dask_array()
    if not types:
        array = _unmasked(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    else:
        with np.errstate(all="ignore"):  # as in `native`
            array = value.to_numpy() if uniform else value.to_numpy(dtype=np.float64, na_value=np.nan)
    _check_kind(name, array.dtype)
    if array.ndim == 0:
        raise DataShapeError(f"{name} must be an array, got a single value. Pass one row for each person.")
    width = math.prod(array.shape[1:]) * array.dtype.itemsize
    # At least eight chunks of an array in memory, if not tiny, keep as many cores busy; a power of two of rows spares
    # the transform its cut blocks.
    wanted = min(_CHUNK_BYTES, max(_SMALL_CHUNK_BYTES, array.nbytes // 8)) // max(1, width)
    rows = min(previous_power_of_two(max(1, wanted)), max(1, array.shape[0]))
    # A random name: Dask would hash the whole array for one.
    return da.from_array(array, chunks=(rows, *array.shape[1:]), name=False)


def _refuse_sparse(name: str, value: Any) -> None:
    if hasattr(value, "tocsr"):
        raise DataTypeError(
            f"{name} must be dense, got a sparse {type(value).__name__}: sparse input is not supported. "
            "Convert it with toarray(), for a Dask array with map_blocks, block by block."
        )


def _frame_types(name: str, value: Any) -> list[Any]:
    """Checked dtypes of the columns of a frame, or the one of a series; empty for anything else."""
    if isinstance(value, np.ndarray) or not hasattr(value, "dtypes"):
        return []
    if value.ndim == 2:  # a Dask series has columns too
        types = list(value.dtypes)
        for column, dtype in zip(list(value.columns), types, strict=True):
            _check_kind(f"{name}: column {column!r}", dtype)
        return types
    _check_kind(name, value.dtypes)
    return [value.dtypes]


def _unknown_columns(name: str = "X") -> DataShapeError:
    return DataShapeError(
        f"{name} must have a known number of columns, got an unknown one. "
        "Select columns by name or by a list of indices."
    )


def _check_kind(name: str, dtype: Any) -> None:
    kind = getattr(dtype, "kind", "O")
    if kind not in _NUMERIC_KINDS:
        remark = ": Complex data not supported" if kind == "c" else ""
        raise DataTypeError(
            f"{name} must be numeric (integer, boolean or float), got dtype {dtype}{remark}. "
            "Convert it, or declare a category as a group of 0/1 columns."
        )


def _known_chunks(name: str, array: da.Array) -> da.Array:
    if not any(math.isnan(size) for size in array.chunks[0]):
        return array
    _logger.warning(
        "counting the rows of %s, whose chunk sizes are unknown: one pass over it. "
        "Use to_dask_array(lengths=True) or compute_chunk_sizes() to do it once.",
        name,
    )
    return array.copy().compute_chunk_sizes()  # in place on the copy: the caller's array stays as it is
