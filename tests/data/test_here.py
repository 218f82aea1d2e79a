"""Rows read in the calling thread: the same as Zarr's own, errors included, wherever they are asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from fastdp_dask.data import here

INDICES = [slice(0, 4), slice(3, 9), slice(None), slice(9, 10), (slice(2, 8), slice(1, 2)), slice(4, 4)]


@pytest.fixture
def array(tmp_path: Path) -> zarr.Array:
    made = zarr.create_array(str(tmp_path / "a"), shape=(10, 3), chunks=(4, 3), dtype="f4", fill_value=np.nan)
    made[:] = np.arange(30, dtype="f4").reshape(10, 3)
    return made


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_the_same_rows(array: zarr.Array, index: Any) -> None:
    np.testing.assert_array_equal(here.read(array, index), array[index])


def test_threads_at_once_and_no_thread_of_its_own(array: zarr.Array) -> None:
    readers = set()

    def read(start: int) -> Any:
        before = threading.active_count()
        rows = here.read(array, slice(start, start + 2))
        readers.add(before >= threading.active_count())
        return rows

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(read, range(8)))
    np.testing.assert_array_equal(np.stack(found), np.stack([array[start : start + 2] for start in range(8)]))
    del found
    threads = threading.active_count()
    here.read(array, slice(None))
    assert threading.active_count() == threads


def test_within_a_running_loop(array: zarr.Array) -> None:
    """As in a notebook, where the thread already runs one."""

    async def asked() -> Any:
        return here.read(array, slice(1, 5))

    np.testing.assert_array_equal(asyncio.run(asked()), array[1:5])


def test_what_fails_there_fails_here(array: zarr.Array, tmp_path: Path) -> None:
    chunk = tmp_path / "a" / "c" / "1" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Exception) as theirs:  # noqa: PT011  whatever Zarr raises
        array[4:8]
    with pytest.raises(type(theirs.value)):
        here.read(array, slice(4, 8))
    chunk.unlink()
    assert np.isnan(here.read(array, slice(4, 8))).all()


def test_of_many_damaged_chunks_one_is_told(tmp_path: Path) -> None:
    """Those that wait when the first one fails are called off: nothing of them is said when the loop goes."""
    array = zarr.create_array(str(tmp_path / "wide"), shape=(4, 40), chunks=(4, 1), dtype="f4", fill_value=0)
    array[:] = np.arange(160, dtype="f4").reshape(4, 40)
    for chunk in (tmp_path / "wide" / "c" / "0").iterdir():
        chunk.write_bytes(chunk.read_bytes()[:5])
    script = (
        "import sys, zarr\nfrom fastdp_dask.data import here\n"
        "try:\n    here.read(zarr.open_array(sys.argv[1]), slice(None))\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "wide")], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout.strip()
    assert ran.stderr == ""
