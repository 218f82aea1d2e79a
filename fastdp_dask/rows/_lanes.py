"""Loops over the columns of a row, written as vector instructions of sixteen lanes.

A compiler may not reorder a float sum by itself, so it would take an inner product one by one; and before each short
loop it makes sure that none of its arrays overlap, which takes as long as the loop.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
_WIDE = ir.VectorType(ir.DoubleType(), LANES)


@intrinsic
def dot_of_lanes(typing_context: Any, a: Any, b: Any, blocks: Any) -> Any:
    """Σ_k a_k b_k over `blocks` · 16 float64 numbers at the addresses a and b, in one fixed order on every machine.

    Lane l sums the products with k mod 16 = l from the first to the last; lanes l, l + 4, l + 8 and l + 12 are then
    added in that order, and the four sums as (0 + 1) + (2 + 3).
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, blocks = arguments
        lanes = _Loop(builder, left.type, blocks)
        total = lanes.carried(_WIDE)
        with lanes.body() as k:
            product = builder.fmul(*(_load(builder, side, k, _WIDE, 8) for side in (left, right)))
            lanes.carry(total, builder.fadd(total, product))
        return _joined(builder, total)

    return types.float64(types.uintp, types.uintp, types.uintp), generate


@intrinsic
def scale_four(
    typing_context: Any, X: Any, x: Any, step: Any, inside: Any, columns: Any, width: Any, theta: Any, last: Any,
    blocks: Any, v: Any, found: Any,
) -> Any:  # fmt: skip
    """Four rows on the grid, v_rj = trunc(clip((x_rj − center_j) · factor_j)), their inner products with theta, and
    whether they are finite.

    All but `X`, which tells the type of the data, are addresses or numbers: x of the first row, each `step` bytes
    after the one before; inside: integers of the size of the data, all bits but the sign where there is a column, else
    0; columns (4, width) float64: center, factor, lowest, highest; v (4, width) float64, written up to blocks · 16; a
    nan becomes `lowest`.  found (8,) float64: 1 or 0 for each row where its columns are finite or not, then
    Σ_j v_rj theta_j + Σ last in the order of `dot_of_lanes`, last (16,) being products of one further block.  Of a row,
    blocks · 16 numbers are read: those after its columns come to nothing, where lowest and highest are 0.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, x, step, inside, columns, width, theta, last, blocks, v, found = arguments
        n_bytes = 4 if signature.args[0].dtype == types.float32 else 8
        whole, data = ir.VectorType(ir.IntType(8 * n_bytes), LANES), _WIDE
        if n_bytes == 4:
            data = ir.VectorType(ir.FloatType(), LANES)
        word = x.type
        apart = builder.mul(width, ir.Constant(word, 8))
        rows, tables, targets = (
            [builder.add(start, builder.mul(ir.Constant(word, r), by)) for r in range(4)]
            for start, by in ((x, step), (columns, apart), (v, apart))
        )
        trunc = _function(builder, "llvm.trunc.v16f64", _WIDE, _WIDE)
        lanes = _Loop(builder, word, blocks)
        tops, products = [lanes.carried(whole) for _ in rows], [lanes.carried(_WIDE) for _ in rows]
        with lanes.body() as k:
            center, factor, lowest, highest = (_load(builder, table, k, _WIDE, 8) for table in tables)
            mask, by = _load(builder, inside, k, whole, n_bytes), _load(builder, theta, k, _WIDE, 8)
            for row, target, top, product in zip(rows, targets, tops, products, strict=True):
                value = _load(builder, row, k, data, n_bytes)
                bits = builder.and_(builder.bitcast(value, whole), mask)
                lanes.carry(top, builder.select(builder.icmp_unsigned(">", bits, top), bits, top))
                value = value if n_bytes == 8 else builder.fpext(value, _WIDE)
                value = builder.fmul(builder.fsub(value, center), factor)
                value = builder.select(builder.fcmp_ordered(">", value, lowest), value, lowest)
                value = builder.select(builder.fcmp_ordered("<", value, highest), value, highest)
                value = builder.call(trunc, [value])
                builder.store(value, _place(builder, target, k, _WIDE), align=8)
                lanes.carry(product, builder.fadd(product, builder.fmul(value, by)))
        bits_of = ir.IntType(8 * n_bytes)
        largest = _function(builder, f"llvm.vector.reduce.umax.v16i{8 * n_bytes}", bits_of, whole)
        infinity = ir.Constant(bits_of, 0x7F800000 if n_bytes == 4 else 0x7FF0000000000000)
        yes, no = (ir.Constant(ir.DoubleType(), answer) for answer in (1.0, 0.0))
        more = _load(builder, last, ir.Constant(word, 0), _WIDE, 8)
        for r, (top, product) in enumerate(zip(tops, products, strict=True)):
            finite = builder.select(builder.icmp_unsigned("<", builder.call(largest, [top]), infinity), yes, no)
            for number, value in ((r, finite), (4 + r, _joined(builder, builder.fadd(product, more)))):
                at = builder.add(found, ir.Constant(word, 8 * number))
                builder.store(value, builder.inttoptr(at, ir.PointerType(ir.DoubleType())), align=8)
        return context.get_dummy_value()

    return types.void(X, *[types.uintp] * 10), generate


class _Loop:
    """k = 0 … count − 1 with values carried from one turn to the next, which start as zeros."""

    def __init__(self, builder: Any, word: Any, count: Any) -> None:
        self._builder, self._entry = builder, builder.block
        self._head, self._body, self._end = (builder.append_basic_block(f"lanes.{n}") for n in ("head", "body", "end"))
        builder.branch(self._head)
        builder.position_at_end(self._head)
        self._count, self._k = count, builder.phi(word)
        self._k.add_incoming(ir.Constant(word, 0), self._entry)

    def carried(self, kind: Any) -> Any:
        value = self._builder.phi(kind)
        value.add_incoming(ir.Constant(kind, [0] * LANES), self._entry)
        return value

    @contextlib.contextmanager
    def body(self) -> Iterator[Any]:
        builder = self._builder
        builder.cbranch(builder.icmp_unsigned("<", self._k, self._count), self._body, self._end)
        builder.position_at_end(self._body)
        yield self._k
        self.carry(self._k, builder.add(self._k, ir.Constant(self._k.type, 1)))
        builder.branch(self._head)
        builder.position_at_end(self._end)

    def carry(self, value: Any, following: Any) -> None:
        value.add_incoming(following, self._body)


def _place(builder: Any, address: Any, k: Any, kind: Any) -> Any:
    """Pointer to the k-th vector of 16 from an address on."""
    n_bytes = LANES * (4 if kind.element in (ir.FloatType(), ir.IntType(32)) else 8)
    offset = builder.mul(k, ir.Constant(address.type, n_bytes))
    return builder.inttoptr(builder.add(address, offset), ir.PointerType(kind))


def _load(builder: Any, address: Any, k: Any, kind: Any, align: int) -> Any:
    return builder.load(_place(builder, address, k, kind), align=align)


def _function(builder: Any, name: str, result: Any, argument: Any) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [argument]), name)


def _joined(builder: Any, lanes: Any) -> Any:
    """Sum of sixteen lanes: see `dot_of_lanes`."""
    index = ir.IntType(32)
    mask, zeros = ir.VectorType(index, 4), ir.Constant(_WIDE, [0.0] * LANES)
    quarters = [
        builder.shuffle_vector(lanes, zeros, ir.Constant(mask, list(range(first, first + 4))))
        for first in range(0, LANES, 4)
    ]
    four = functools.reduce(builder.fadd, quarters)
    parts = [builder.extract_element(four, ir.Constant(index, lane)) for lane in range(4)]
    return builder.fadd(builder.fadd(parts[0], parts[1]), builder.fadd(parts[2], parts[3]))
