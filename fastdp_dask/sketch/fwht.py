"""Walsh-Hadamard transform of NumPy arrays along one axis, for every power of two."""

from __future__ import annotations

import math
import numbers
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError
from fastdp_dask.sketch._fwht_kernels import _fwht_rows

_Array: TypeAlias = npt.NDArray[Any]

_DTYPES = tuple(np.dtype(name) for name in ("int32", "int64", "float32", "float64"))
_LINE_BYTES = 64  # a cache line; vector stores that straddle two lines cost double


def fwht(a: _Array, *, axis: int = 0, orthonormal: bool = False, inplace: bool = False) -> _Array:
    r"""Walsh-Hadamard transform along one axis, in natural (Sylvester) order.

    .. math:: \hat a_j = \sum_{i=0}^{b-1} (-1)^{\mathrm{popcount}(i \wedge j)}\, a_i, \qquad b = 2^m,

    that is ``H_b @ a`` with ``H_1 = [1]`` and ``H_2b = [[H_b, H_b], [H_b, -H_b]]``, in ``b log2(b)``
    additions per column.  ``H_b @ H_b = b I``, so the transform is its own inverse up to the factor b.

    Parameters
    ----------
    a : numpy.ndarray of shape (b,), (b, d) or (d, b)
        dtype int32, int64, float32 or float64 in native byte order; the length b along `axis` is a power of
        two (1 included), d may be 0.  Any memory layout; C-contiguous with ``axis=0`` is fastest.
    axis : int, default 0
        The axis to transform.
    orthonormal : bool, default False
        Divide by ``sqrt(b)``, which makes the transform orthonormal and its own inverse.  Floats only.
    inplace : bool, default False
        Overwrite `a`, which must be writable and is then returned itself.  Views are written through; a
        layout that is not contiguous along the other axis needs a temporary copy.

    Returns
    -------
    numpy.ndarray
        Same shape and dtype as `a`; the memory layout may differ unless ``inplace=True``.

    Raises
    ------
    DataTypeError
        `a` is not a plain NumPy array of one of the four dtypes.
    DataShapeError
        `a` is not one- or two-dimensional, or its length along `axis` is not a power of two.
    ArgumentError
        `axis` does not exist, `orthonormal` with an integer dtype, or `inplace` with a read-only array.

    Notes
    -----
    Integers wrap around as NumPy's arrays do, without notice.  They are exact if b times the largest
    magnitude fits the dtype, e.g. ``b * max|a| < 2**31`` for int32: that is for the caller to guarantee.

    For floats every entry of the unnormalised result is within ``eps * log2(b) * sqrt(b) * ||a||_2`` of the
    exact one, ``||a||_2`` the norm of its column: each of the log2(b) stages rounds once and is sqrt(2) times
    an orthogonal matrix.  An entry that cancels has no small relative error.

    The transform uses one thread and releases the GIL.  It draws nothing at random and adds no noise: the
    result is as private as `a`.  The first call for a dtype compiles for seconds; the machine code is cached.

    Examples
    --------
    >>> import numpy as np
    >>> from fastdp_dask.sketch.fwht import fwht
    >>> fwht(np.array([1, 0, 1, 0, 0, 1, 1, 0]))
    array([ 4,  2,  0, -2,  0,  2,  0,  2])
    """
    axis = _checked_axis(a, axis)
    if orthonormal and a.dtype.kind == "i":
        raise ArgumentError(
            f"orthonormal=True needs a floating dtype, got a of dtype {a.dtype}. "
            "Use a.astype('float64'), or orthonormal=False and divide by sqrt(b) afterwards."
        )
    if inplace and not a.flags.writeable:
        raise ArgumentError(
            "inplace=True needs a writable array, got a read-only one. Pass a.copy() or inplace=False."
        )

    plain = np.asarray(a)
    rows = plain[:, np.newaxis] if a.ndim == 1 else np.moveaxis(plain, axis, 0)
    result = _transformed(rows, inplace)
    if orthonormal:
        result *= rows.dtype.type(1.0 / np.sqrt(len(rows)))
    if inplace:
        if result is not rows:
            np.copyto(rows, result)
        return a
    return result[:, 0] if a.ndim == 1 else np.moveaxis(result, 0, axis)


def _transformed(rows: _Array, overwrite: bool) -> _Array:
    """H_b @ rows: in `rows` itself if `overwrite` and its layout allow it, else in a new array."""
    # A read-only, strided or misaligned array is copied first: numba would compile a variant for each kind.
    if overwrite and rows.flags.c_contiguous and rows.flags.aligned and rows.flags.writeable:
        _fwht_rows(rows)
        return rows
    # A copy streams past the caches, where the first sweep of the kernel would wait for each fresh page.
    result = _empty_on_line(rows.shape, rows.dtype)
    np.copyto(result, rows)
    _fwht_rows(result)
    return result


def _empty_on_line(shape: tuple[int, ...], dtype: np.dtype[Any]) -> _Array:
    """Uninitialised C-contiguous array whose data start on a cache line."""
    n_bytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(n_bytes + _LINE_BYTES, dtype=np.uint8)
    offset = -raw.ctypes.data % _LINE_BYTES
    return raw[offset : offset + n_bytes].view(dtype).reshape(shape)


def _checked_axis(a: Any, axis: Any) -> int:
    """Check array and axis; return the axis as a number >= 0."""
    if not isinstance(a, np.ndarray) or isinstance(a, np.ma.MaskedArray):
        raise DataTypeError(
            f"a must be a NumPy array, got {type(a).__name__}. "
            "Convert it first, e.g. with numpy.asarray (masked arrays: with .filled)."
        )
    if a.dtype not in _DTYPES:
        raise DataTypeError(
            "a must have dtype int32, int64, float32 or float64 in native byte order, "
            f"got {a.dtype!r}. Convert it first, e.g. with a.astype('float64')."
        )
    if a.ndim not in (1, 2):
        raise DataShapeError(f"a must have one or two dimensions, got shape {a.shape}. Reshape it to (b, d).")
    whole = isinstance(axis, numbers.Integral) and not isinstance(axis, bool)
    if not whole or not -a.ndim <= int(axis) < a.ndim:
        got = f"axis={int(axis)}" if whole else type(axis).__name__
        raise ArgumentError(
            f"axis must be a whole number from {-a.ndim} to {a.ndim - 1} for a of shape {a.shape}, "
            f"got {got}. Pass axis=0 to transform the columns."
        )
    number = int(axis) % a.ndim
    length = a.shape[number]
    if length < 1 or length & (length - 1):
        padded = 1 << max(length - 1, 0).bit_length()
        raise DataShapeError(
            f"a must have a power of two as its length along axis={int(axis)}, got length {length} "
            f"(shape {a.shape}). Append zeros up to length {padded}."
        )
    return number
