"""Work arrays that a thread keeps from one task to the next.

A block of 16 MiB or more comes from the operating system page by page and cleared, which takes as long as its
transform.  Contents never outlive a task: whoever borrows an array writes it before it reads it.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

_lock = threading.Lock()
_kept: dict[tuple[int, str], np.ndarray] = {}


def borrow(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised C-contiguous array, this thread's own until it borrows `name` again."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    key = (threading.get_ident(), name)
    with _lock:
        found = _kept.get(key)
        if found is None or found.nbytes < size:
            _kept.pop(key, None)  # before the larger one exists
            found = _kept[key] = np.empty(size, np.uint8)
    return found[:size].view(dtype).reshape(shape)


def forget() -> None:
    """Give back what the threads of this process keep; arrays in use stay until they are dropped."""
    with _lock:
        _kept.clear()
