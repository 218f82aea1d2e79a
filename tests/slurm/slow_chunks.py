"""Loaded by workers of the tests (Dask's `preload`): every chunk of X takes a while, as on slow storage."""

from __future__ import annotations

import os
import time
from typing import Any

from fastdp_dask.data import store

if not hasattr(store, "_read_at_once"):  # Dask runs a preloaded file twice
    store._read_at_once = store._Rows.__getitem__  # type: ignore[attr-defined]


def _slowly(rows: store._Rows, index: Any) -> Any:
    if rows.name == "X":
        time.sleep(float(os.environ["FASTDP_TEST_CHUNK_SECONDS"]))
    return store._read_at_once(rows, index)  # type: ignore[attr-defined]


store._Rows.__getitem__ = _slowly  # type: ignore[method-assign]
