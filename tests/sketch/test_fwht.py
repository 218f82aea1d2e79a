"""The Walsh-Hadamard transform against its matrix, an independent recursion and its own algebra."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard

from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError
from fastdp_dask.sketch._fwht_kernels import _fwht_rows, _high_sweeps
from fastdp_dask.sketch.fwht import fwht

INTEGERS = ["int32", "int64"]
FLOATS = ["float32", "float64"]
DTYPES = INTEGERS + FLOATS
POWERS = [1 << m for m in range(11)]

# No deadline: the first example of a dtype may compile.
examples = settings(deadline=None, max_examples=60, derandomize=True)


def integers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Small integers: every transform up to 2^17 rows is exact in all four dtypes (100 * 2^17 < 2^24)."""
    return np.random.default_rng(seed).integers(-99, 100, size=shape).astype(dtype)


def recursion(a: np.ndarray) -> np.ndarray:
    """H_2b = [[H_b, H_b], [H_b, -H_b]] in plain NumPy, one level per call."""
    if len(a) == 1:
        return a.copy()
    top, bottom = np.split(a, 2)
    halves = recursion(np.stack([top + bottom, top - bottom], axis=1))
    return np.concatenate([halves[:, 0], halves[:, 1]])


def assert_close(result: np.ndarray, exact: np.ndarray, a: np.ndarray) -> None:
    """Each of log2(b) stages rounds once and is sqrt(2) times an orthogonal matrix: the error of a column is
    at most log2(b) * eps/2 * sqrt(b) * its norm, to first order; the factor two left covers the rest."""
    b = len(a)
    bound = np.finfo(result.dtype).eps * np.log2(b) * np.sqrt(b) * np.linalg.norm(a.astype(float), axis=0)
    assert (np.linalg.norm(result.astype(float) - exact, axis=0) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b", POWERS)
def test_equals_the_matrix_product(b: int, dtype: str) -> None:
    for d in (0, 1, 2, 7, 33, 90, 300):
        a = integers((b, d), dtype, seed=b + d)
        expected = hadamard(b).astype("int64") @ a.astype("int64")
        before = a.copy()
        result = fwht(a)
        assert result.dtype == a.dtype
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("b", [1, 2, 64, 1024])
def test_rounds_as_stated(b: int, dtype: str) -> None:
    a = np.random.default_rng(b).standard_normal((b, 17)).astype(dtype)
    exact = hadamard(b).astype(float) @ a.astype(float)
    assert_close(fwht(a), exact, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("b", "d"), [(1 << 15, 90), (1 << 17, 9), (1 << 17, 1), (1 << 12, 700), (1 << 6, 4096)]
)
def test_large_blocks_equal_the_recursion(b: int, d: int, dtype: str) -> None:
    a = integers((b, d), dtype)
    expected = recursion(a)
    np.testing.assert_array_equal(fwht(a), expected)
    assert fwht(a, inplace=True) is a
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_block_of_reals(dtype: str) -> None:
    a = np.random.default_rng(5).standard_normal((1 << 15, 30)).astype(dtype)
    assert_close(fwht(a), recursion(a.astype(np.longdouble)).astype(float), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("b", [2, 8, 16, 512, 1024, 1 << 18, 1 << 19])
def test_high_sweeps_share_any_number_of_stages(b: int, dtype: str) -> None:
    # The public function needs arrays of hundreds of megabytes to get past one high sweep; 2^19 makes three.
    a = integers((b, 3), dtype)
    expected = recursion(a)
    _high_sweeps(a.reshape(-1), np.uintp(b), np.uintp(1), np.uintp(3))
    np.testing.assert_array_equal(a, expected)


def test_rows_wider_than_a_cache_block() -> None:
    a = integers((32, 60_000), "float64")
    np.testing.assert_array_equal(fwht(a), recursion(a))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_twice_is_b_times_the_identity(dtype: str) -> None:
    a = integers((1 << 13, 21), dtype)  # 99 * 2^26 > 2^31: int32 wraps, and wraps to the right number
    np.testing.assert_array_equal(fwht(fwht(a)), a * a.dtype.type(len(a)))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_like_numpy(dtype: str) -> None:
    info = np.iinfo(dtype)
    a = np.random.default_rng(2).integers(info.min, info.max, size=(512, 5), dtype=dtype, endpoint=True)
    np.testing.assert_array_equal(fwht(a), recursion(a))


def layouts(a: np.ndarray) -> dict[str, np.ndarray]:
    """The numbers of `a` in every layout that needs care."""
    b, d = a.shape
    wide = np.zeros((2 * b, d + 3), a.dtype)
    wide[::2, 1 : d + 1] = a
    backwards = a[::-1, ::-1].copy()[::-1, ::-1]
    frozen = a.copy()
    frozen.flags.writeable = False
    raw = np.zeros(a.nbytes + 1, np.uint8)
    odd = raw[1:].view(a.dtype).reshape(a.shape)
    odd[...] = a
    return {
        "C": a.copy(),
        "Fortran": a.copy(order="F"),
        "view": wide[::2, 1 : d + 1],
        "negative strides": backwards,
        "misaligned": odd,
        "read-only": frozen,
    }


@examples
@given(
    m=st.integers(0, 9),
    d=st.integers(0, 70),
    dtype=st.sampled_from(DTYPES),
    axis=st.sampled_from([0, 1, -1, -2]),
    seed=st.integers(0, 2**16),
)
def test_any_shape_axis_and_layout(m: int, d: int, dtype: str, axis: int, seed: int) -> None:
    columns = integers((1 << m, d), dtype, seed)
    expected = recursion(columns)
    if axis in (1, -1):
        columns, expected = columns.T.copy(), expected.T
    for name, a in layouts(columns).items():
        np.testing.assert_array_equal(fwht(a, axis=axis), expected, err_msg=name)
        np.testing.assert_array_equal(a, columns, err_msg=f"{name}: the input changed")
        if name != "read-only":
            assert fwht(a, axis=axis, inplace=True) is a
            np.testing.assert_array_equal(a, expected, err_msg=f"{name}, in place")


@examples
@given(m=st.integers(0, 12), dtype=st.sampled_from(DTYPES), step=st.sampled_from([1, 2, -1]))
def test_one_dimension(m: int, dtype: str, step: int) -> None:
    a = integers((abs(step) << m,), dtype, seed=m)[::step]
    expected = recursion(a)
    for axis in (0, -1):
        result = fwht(a, axis=axis)
        assert result.shape == a.shape
        np.testing.assert_array_equal(result, expected)
    assert fwht(a, inplace=True) is a
    np.testing.assert_array_equal(a, expected)


def test_writes_through_a_view_and_nowhere_else() -> None:
    frame = integers((16, 9), "int64")
    expected = frame.copy()
    expected[4:12, 2:5] = recursion(frame[4:12, 2:5])
    fwht(frame[4:12, 2:5], inplace=True)
    np.testing.assert_array_equal(frame, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("b", [1, 2, 512])
@pytest.mark.parametrize("axis", [0, 1])
def test_orthonormal_is_its_own_inverse(b: int, dtype: str, axis: int) -> None:
    a = np.random.default_rng(b).standard_normal((b, 6)).astype(dtype)
    shaped = a if axis == 0 else a.T
    once = fwht(shaped, axis=axis, orthonormal=True)
    assert once.dtype == a.dtype
    unnormalised = fwht(shaped, axis=axis)
    np.testing.assert_array_equal(once, unnormalised * a.dtype.type(1 / np.sqrt(b)))
    twice = fwht(once, axis=axis, orthonormal=True, inplace=True)
    assert twice is once
    # Two transforms of log2(b) + 2 roundings each (the factor and the scaling), on columns of unchanged norm.
    bound = 2 * (np.log2(b) + 2) * np.finfo(dtype).eps * np.linalg.norm(a, axis=0)
    assert (np.linalg.norm((twice if axis == 0 else twice.T) - a, axis=0) <= bound).all()


def test_two_threads_at_once() -> None:
    blocks = [integers((1 << 14, 40), "int32", seed) for seed in (1, 2)]
    expected = [recursion(block) for block in blocks]
    threads = [threading.Thread(target=_fwht_rows, args=(block,)) for block in blocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for block, right in zip(blocks, expected, strict=True):
        np.testing.assert_array_equal(block, right)


def test_the_interpreter_runs_on_during_a_transform() -> None:
    block = np.zeros((1 << 15, 512))
    _fwht_rows(block)  # compiled now
    ends: list[float] = []

    def work() -> None:
        ends.append(time.perf_counter())
        _fwht_rows(block)
        ends.append(time.perf_counter())

    def attempt() -> bool:
        ends.clear()
        ticks: list[float] = []
        thread = threading.Thread(target=work)
        thread.start()
        while len(ends) < 2:
            ticks.append(time.perf_counter())
        thread.join()
        quarter = (ends[1] - ends[0]) / 4
        return any(ends[0] + quarter < tick < ends[1] - quarter for tick in ticks)

    # The call lasts tens of milliseconds.  If it kept the interpreter's lock, this thread could run before it
    # and after it (for a switch interval of 0.1 ms), never in its middle half.  Ten attempts, as a busy
    # machine may pause this thread.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        assert any(attempt() for _ in range(10)), "the transform keeps the interpreter's lock"
    finally:
        sys.setswitchinterval(interval)


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: fwht([1.0, 2.0]), DataTypeError, "list"),  # type: ignore[arg-type]
    (lambda: fwht(np.ma.masked_array(np.ones(4), mask=[1, 0, 0, 0])), DataTypeError, "MaskedArray"),
    (lambda: fwht(np.ones(4, ">f8")), DataTypeError, ">f8"),
    (lambda: fwht(np.ones(4, "float16")), DataTypeError, "float16"),
    (lambda: fwht(np.ones(4, "int8")), DataTypeError, "int8"),
    (lambda: fwht(np.ones(4, "uint32")), DataTypeError, "uint32"),
    (lambda: fwht(np.ones(4, "bool")), DataTypeError, "bool"),
    (lambda: fwht(np.ones(4, "complex128")), DataTypeError, "complex128"),
    (lambda: fwht(np.ones(4, "object")), DataTypeError, "dtype\\('O'\\)"),
    (lambda: fwht(np.float64(1.0)), DataTypeError, "float64"),  # type: ignore[arg-type]
    (lambda: fwht(np.ones(())), DataShapeError, "one or two dimensions"),
    (lambda: fwht(np.ones((2, 2, 2))), DataShapeError, "\\(2, 2, 2\\)"),
    (lambda: fwht(np.ones((6, 4))), DataShapeError, "got length 6 .* zeros up to length 8"),
    (lambda: fwht(np.ones((4, 6)), axis=1), DataShapeError, "axis=1, got length 6"),
    (lambda: fwht(np.ones((0, 3))), DataShapeError, "got length 0 .* length 1"),
    (lambda: fwht(np.ones(4), axis=1), ArgumentError, "from -1 to 0 .* axis=1"),
    (lambda: fwht(np.ones((4, 4)), axis=-3), ArgumentError, "from -2 to 1 .* axis=-3"),
    (lambda: fwht(np.ones(4), axis=0.0), ArgumentError, "got float"),  # type: ignore[arg-type]
    (lambda: fwht(np.ones(4), axis=True), ArgumentError, "got bool"),
    (lambda: fwht(np.ones(4, "int32"), orthonormal=True), ArgumentError, "floating dtype.*int32"),
    (lambda: fwht(np.broadcast_to(1.0, 4), inplace=True), ArgumentError, "read-only"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_refusals_say_what_came(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_without_compilation() -> None:
    program = """
import numba, numpy as np
from scipy.linalg import hadamard
from fastdp_dask.sketch._fwht_kernels import _high_sweeps
from fastdp_dask.sketch.fwht import fwht
assert numba.config.DISABLE_JIT
for dtype in ("int32", "int64", "float32", "float64"):
    for b, d in ((1, 3), (2, 1), (4, 0), (64, 2), (256, 1), (16, 200)):
        a = (np.arange(b * d).reshape(b, d) % 7).astype(dtype)
        expected = hadamard(b).astype("int64") @ a.astype("int64")
        assert (fwht(a) == expected).all() and fwht(a).dtype == dtype
        tiled = a.copy()
        _high_sweeps(tiled.reshape(-1), np.uintp(b), np.uintp(1), np.uintp(d))
        assert (tiled == expected).all()
        assert (fwht(a, inplace=True) == expected).all()
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
