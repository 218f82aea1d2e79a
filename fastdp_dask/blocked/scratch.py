"""Work arrays that a thread keeps from one task to the next.

A block of 16 MiB or more comes from the operating system page by page and cleared, which takes as long as its
transform.  Contents never outlive a task: whoever borrows an array writes it before it reads it.  What nobody has
borrowed for a second is given back, so that a worker that Dask has paused for its memory gets below the mark again.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np

_lock = threading.Lock()
_kept: dict[tuple[int, str], np.ndarray] = {}
_IDLE = 1.0  # seconds
_borrowed = 0.0  # when last, on the monotonic clock
_watch: threading.Thread | None = None


def borrow(name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised C-contiguous array, this thread's own until it borrows `name` again."""
    global _borrowed, _watch
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    key = (threading.get_ident(), name)
    with _lock:
        found = _kept.get(key)
        if found is None or found.nbytes < size:
            _kept.pop(key, None)  # before the larger one exists
            found = _kept[key] = np.empty(size, np.uint8)
        _borrowed = time.monotonic()
        if _watch is None:
            _watch = threading.Thread(target=_give_back, name="fastdp-scratch", daemon=True)
            _watch.start()
    return found[:size].view(dtype).reshape(shape)


def forget() -> None:
    """Give back what the threads of this process keep; arrays in use stay until they are dropped."""
    with _lock:
        _kept.clear()


def _give_back() -> None:
    global _watch
    while True:
        time.sleep(_IDLE / 4)
        with _lock:
            if not _kept or time.monotonic() - _borrowed > _IDLE:
                _kept.clear()
                _watch = None
                return
