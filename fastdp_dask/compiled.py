"""Compiled kernels whose on-disk cache cannot mix up two dtypes."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np


class Kernel:
    """A numba kernel with one dispatcher, and so one cache file, for each combination of array types.

    numba numbers the cached versions of one function by the order in which they are compiled.  Two processes that
    compile different dtypes at once on an empty cache may take the same number, and a later process then runs the
    code of one dtype on the memory of the other, without an error.  Here the array types are part of the function's
    name: a cache file holds one version, whoever writes it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._versions: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = tuple(_kind(argument) for argument in arguments)
        version = self._versions.get(key)
        if version is None:
            version = self._versions.setdefault(key, self._compile(key))
        return version(*arguments)

    def _compile(self, key: tuple[Any, ...]) -> Callable[..., Any]:
        source = self._function
        assert isinstance(source, types.FunctionType)
        twin = types.FunctionType(source.__code__, source.__globals__, source.__name__, source.__defaults__)
        twin.__qualname__ = "_".join([source.__qualname__, *(_label(part) for part in key)])
        twin.__module__ = source.__module__
        return numba.njit(nogil=True, cache=True)(twin)


def _kind(argument: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return type(argument)
    flags = argument.flags
    return argument.dtype, argument.ndim, flags.c_contiguous, flags.writeable, flags.aligned


def _label(part: Any) -> str:
    if isinstance(part, type):
        return part.__name__
    dtype, ndim, contiguous, writeable, aligned = part
    layout = ("c" if contiguous else "s") + ("w" if writeable else "r") + ("" if aligned else "u")
    return f"{dtype.kind}{dtype.itemsize}x{ndim}{layout}"


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorate an entry point: called from Python with C-contiguous arrays and plain numbers, releases the GIL."""
    return Kernel(function)


inner: Callable[[Callable[..., Any]], Any] = numba.njit(nogil=True)
"""Decorate a function that only kernels call: compiled into them, not cached by itself."""
