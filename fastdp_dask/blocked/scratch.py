"""Memory that is used again: work arrays that a thread keeps from one task to the next, and results that were dropped.

A block of 8 MiB or more comes from the operating system page by page and cleared, which takes as long as its
transform.  Contents never outlive a task: whoever gets an array writes it before it reads it.  What nobody has asked
for in a second is given back, so that a worker that Dask has paused for its memory gets below the mark again.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from typing import Any

import numpy as np

_lock = threading.Lock()
_kept: dict[tuple[int, str], np.ndarray] = {}
_dropped: deque[np.ndarray] = deque()  # its methods are atomic: a result may be dropped anywhere, the lock held
_IDLE = 1.0  # seconds
_SMALL = 1 << 20  # bytes: NumPy and the heap keep less
_borrowed = 0.0  # when last, on the monotonic clock
_watch: threading.Thread | None = None


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
        _wake()
    return found[:size].view(dtype).reshape(shape)


class _Result:
    """Owner of a result's memory; the arrays upon it keep it alive, and the last one to go leaves the memory here."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if _watch is not None:  # somebody is there to give it back
            _dropped.append(self.memory)


def result(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An uninitialised C-contiguous array for whoever it is handed to; its memory is used again when it is dropped."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < _SMALL:
        return np.empty(shape, dtype)
    memory = None
    for _ in range(len(_dropped)):  # of another size: it goes back to the end
        try:
            found = _dropped.popleft()
        except IndexError:
            break
        if found.nbytes == size:
            memory = found
            break
        _dropped.append(found)
    with _lock:
        _wake()
    return np.asarray(_Result(np.empty(size, np.uint8) if memory is None else memory)).view(dtype).reshape(shape)


def forget() -> None:
    """Give back what the threads of this process keep; arrays in use stay until they are dropped."""
    with _lock:
        _kept.clear()
    _dropped.clear()


def _wake() -> None:
    """Note that memory is in use; the lock is held."""
    global _borrowed, _watch
    _borrowed = time.monotonic()
    if _watch is None:
        watch = threading.Thread(target=_give_back, name="fastdp-scratch", daemon=True)
        watch.start()
        _watch = watch


def _after_fork() -> None:
    """Start anew in a child: it has none of the threads, and one of them may have held the lock."""
    global _lock, _watch
    _lock, _watch = threading.Lock(), None
    _kept.clear()
    _dropped.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _give_back() -> None:
    global _watch
    while True:
        time.sleep(_IDLE / 4)
        with _lock:
            idle = time.monotonic() - _borrowed > _IDLE
            if idle:
                _watch = None  # before the last look: what is dropped from now on is not kept
                _kept.clear()
                _dropped.clear()
                return
