"""Compiled loops of the Walsh-Hadamard transform: butterflies, cache blocks, sweeps.

``H_b`` for ``b = 2**m`` is a product of m commuting stages, one per bit of the row index, so the stages may
run in any order and in any grouping.  The grouping below touches main memory as few times as possible:

1. *low sweep*: blocks of consecutive rows, small enough for the second-level cache, run all stages of their
   own (low) index bits;
2. *high sweeps*: for up to nine of the remaining bits at a time, a tile of strided rows and about 1 KiB of
   columns is brought into a small contiguous scratch array, runs all its stages there, and is written back.

Two sweeps therefore reach ``b = 2**18`` and more at a few dozen columns.  Within a cache block the stages are
taken three, two or one at a time (radix 8, 4, 2), which divides loads and stores by the same factor.

Two rules keep the inner loops vectorised.  Every index is unsigned: with a signed one the compiler must allow
for negative indices, and ``uintp * int`` is signed.  Every sum is cast back to the dtype of the array: numba
adds int32 numbers in int64, which halves the speed; the cast also makes int32 wrap as NumPy's arrays do.

The kernels check nothing, start no threads and release the GIL.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fastdp_dask.compiled import inner, kernel

# All constants are uintp, see above.
_0, _1, _2, _4, _8, _16, _32, _64, _256 = (np.uintp(k) for k in (0, 1, 2, 4, 8, 16, 32, 64, 256))
_LINE_BYTES = np.uintp(64)
_FIRST_CACHE_BYTES = np.uintp(32 << 10)  # two thirds of a 48 KiB first-level cache
_BLOCK_BYTES = np.uintp(384 << 10)  # block of the low sweep: well inside 1 MiB of second-level cache
_TILE_BYTES = np.uintp(1 << 10)  # width of a tile: long enough for streaming and for vector loops
_TILE_BITS = np.uintp(9)  # 512 rows of 1 KiB: a scratch of at most 512 KiB


@inner
def _eight(to: Any, x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any) -> Any:
    """Three stages on eight numbers; `to` is the scalar type of the array."""
    y0, y1, y2, y3 = to(x0 + x1), to(x0 - x1), to(x2 + x3), to(x2 - x3)
    y4, y5, y6, y7 = to(x4 + x5), to(x4 - x5), to(x6 + x7), to(x6 - x7)
    x0, x1, x2, x3 = to(y0 + y2), to(y1 + y3), to(y0 - y2), to(y1 - y3)
    x4, x5, x6, x7 = to(y4 + y6), to(y5 + y7), to(y4 - y6), to(y5 - y7)
    return (
        to(x0 + x4), to(x1 + x5), to(x2 + x6), to(x3 + x7),
        to(x0 - x4), to(x1 - x5), to(x2 - x6), to(x3 - x7),
    )  # fmt: skip


@inner
def _radix8(a: Any, p0: Any, step: Any, width: Any) -> None:
    """Three stages in place on the eight runs a[p0 + k*step :][:width]."""
    to = a.dtype.type
    p1, p2, p3 = p0 + step, p0 + _2 * step, p0 + _2 * step + step
    p4, p5, p6, p7 = p0 + _4 * step, p1 + _4 * step, p2 + _4 * step, p3 + _4 * step
    for c in range(width):
        z0, z1, z2, z3, z4, z5, z6, z7 = _eight(
            to, a[p0 + c], a[p1 + c], a[p2 + c], a[p3 + c], a[p4 + c], a[p5 + c], a[p6 + c], a[p7 + c]
        )
        a[p0 + c], a[p1 + c], a[p2 + c], a[p3 + c] = z0, z1, z2, z3
        a[p4 + c], a[p5 + c], a[p6 + c], a[p7 + c] = z4, z5, z6, z7


@inner
def _radix8_into(a: Any, p0: Any, step: Any, out: Any, q0: Any, out_step: Any, width: Any) -> None:
    """As `_radix8`, from one array to another: loading a block costs no separate copy."""
    to = a.dtype.type
    p1, p2, p3 = p0 + step, p0 + _2 * step, p0 + _2 * step + step
    p4, p5, p6, p7 = p0 + _4 * step, p1 + _4 * step, p2 + _4 * step, p3 + _4 * step
    q1, q2, q3 = q0 + out_step, q0 + _2 * out_step, q0 + _2 * out_step + out_step
    q4, q5, q6, q7 = q0 + _4 * out_step, q1 + _4 * out_step, q2 + _4 * out_step, q3 + _4 * out_step
    for c in range(width):
        z0, z1, z2, z3, z4, z5, z6, z7 = _eight(
            to, a[p0 + c], a[p1 + c], a[p2 + c], a[p3 + c], a[p4 + c], a[p5 + c], a[p6 + c], a[p7 + c]
        )
        out[q0 + c], out[q1 + c], out[q2 + c], out[q3 + c] = z0, z1, z2, z3
        out[q4 + c], out[q5 + c], out[q6 + c], out[q7 + c] = z4, z5, z6, z7


@inner
def _radix4(a: Any, p0: Any, step: Any, width: Any) -> None:
    to = a.dtype.type
    p1, p2, p3 = p0 + step, p0 + _2 * step, p0 + _2 * step + step
    for c in range(width):
        x0, x1, x2, x3 = a[p0 + c], a[p1 + c], a[p2 + c], a[p3 + c]
        y0, y1, y2, y3 = to(x0 + x1), to(x0 - x1), to(x2 + x3), to(x2 - x3)
        a[p0 + c], a[p1 + c], a[p2 + c], a[p3 + c] = to(y0 + y2), to(y1 + y3), to(y0 - y2), to(y1 - y3)


@inner
def _radix2(a: Any, p0: Any, step: Any, width: Any) -> None:
    to = a.dtype.type
    p1 = p0 + step
    for c in range(width):
        x0, x1 = a[p0 + c], a[p1 + c]
        a[p0 + c], a[p1 + c] = to(x0 + x1), to(x0 - x1)


@inner
def _copy(a: Any, p: Any, out: Any, q: Any, width: Any) -> None:
    for c in range(width):
        out[q + c] = a[p + c]


@inner
def _stages_down_to(a: Any, start: Any, rows: Any, width: Any, stop: Any) -> None:
    """The stages of a contiguous (rows, width) block from distance rows/2 down to distance `stop` rows."""
    # Radix 8 pays off when the vector loop outlasts its test for overlapping runs (measured: 64 columns of
    # eight bytes, 256 of four), and when the loop is too short to be vectorised at all.
    long_run = _64 if np.uintp(a.itemsize) == _8 else _256
    part = rows
    while part > stop:
        left = part // stop
        run = (part // _8) * width
        if left >= _8 and left != _16 and (run >= long_run or run < _16):
            radix = _8
        elif left >= _4:
            radix = _4
        else:
            radix = _2
        run = (part // radix) * width
        for k in range(rows // part):
            p = start + k * part * width
            if radix == _8:
                _radix8(a, p, run, run)
            elif radix == _4:
                _radix4(a, p, run, run)
            else:
                _radix2(a, p, run, run)
        part = part // radix


@inner
def _all_stages(a: Any, start: Any, rows: Any, width: Any) -> None:
    """H_rows on a contiguous (rows, width) block that fits the second-level cache."""
    inner = rows
    while inner > _1 and inner * width * np.uintp(a.itemsize) > _FIRST_CACHE_BYTES:
        inner = inner // _2
    if inner < rows:
        # The outer part passes over the whole block: let it do three stages at least.
        inner = min(inner, max(rows // _8, _1))
    _stages_down_to(a, start, rows, width, inner)
    if inner > _1:
        for k in range(rows // inner):
            _stages_down_to(a, start + k * inner * width, inner, width, _1)


@inner
def _low_rows(b: Any, d: Any, itemsize: Any) -> Any:
    low = _1
    while low < b and _2 * low * d * itemsize <= _BLOCK_BYTES:
        low = _2 * low
    return low


@inner
def _high_sweeps(a: Any, b: Any, low: Any, d: Any) -> None:
    """All stages of the index bits at and above `low`, shared evenly among as few sweeps as possible."""
    # One function for all sweeps: every further level of calls is compiled, and inlined, once more.
    bits = _0
    while (low << bits) < b:
        bits += _1
    if bits == _0:
        return
    itemsize = np.uintp(a.itemsize)
    tile = _TILE_BYTES // itemsize
    # Vector stores that straddle cache lines cost double: the scratch starts on a line.
    room = np.empty((tile << _TILE_BITS) + _LINE_BYTES // itemsize, a.dtype)
    scratch = room[(_LINE_BYTES - np.uintp(room.ctypes.data) % _LINE_BYTES) // itemsize :]
    inner = low * d
    while bits > _0:
        sweeps = (bits + _TILE_BITS - _1) // _TILE_BITS
        now = (bits + sweeps - _1) // sweeps
        rows = _1 << now
        eighth = rows // _8
        for group in range((b * d) // max(rows * inner, _1)):  # `a` seen as (groups, rows, inner)
            start = group * rows * inner
            if rows <= _8:  # one pass does it where it is
                _all_stages(a, start, rows, inner)
                continue
            for column in range(_0, inner, tile):
                width = min(tile, inner - column)
                p, step = start + column, eighth * inner
                for i in range(eighth):
                    _radix8_into(a, p + i * inner, step, scratch, i * width, eighth * width, width)
                for k in range(_8):
                    if eighth >= _8:  # the last three stages on the way back
                        _stages_down_to(scratch, k * eighth * width, eighth, width, _8)
                        for i in range(k * eighth, (k + _1) * eighth, _8):
                            _radix8_into(scratch, i * width, width, a, p + i * inner, inner, width)
                        continue
                    _all_stages(scratch, k * eighth * width, eighth, width)
                    for i in range(k * eighth, (k + _1) * eighth):  # still in the first-level cache
                        _copy(scratch, i * width, a, p + i * inner, width)
        inner = inner << now
        bits -= now


@kernel
def _fwht_rows(block: Any) -> None:
    """block := H_b @ block, unnormalised, Sylvester order; `block` C-contiguous (b, d), b a power of two."""
    b, d = np.uintp(block.shape[0]), np.uintp(block.shape[1])
    a = block.reshape(-1)
    low = _low_rows(b, d, np.uintp(a.itemsize))
    for k in range(b // low):
        _all_stages(a, k * low * d, low, d)
    _high_sweeps(a, b, low, d)
