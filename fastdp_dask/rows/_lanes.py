"""A float64 inner product whose order of additions is the same on every machine, in vector instructions."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def dot_of_lanes(typing_context: Any, a: Any, b: Any, blocks: Any) -> Any:
    """Σ_k a_k b_k over `blocks` · 16 float64 numbers at the addresses a and b, in one fixed order on every machine.

    Lane l sums the products with k mod 16 = l from the first to the last; lanes l, l + 4, l + 8 and l + 12 are then
    added in that order, and the four sums as (0 + 1) + (2 + 3).  Written as vector instructions: a compiler may not
    reorder a float sum by itself, and so would take the lanes one by one.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, index = ir.VectorType(ir.DoubleType(), 16), ir.IntType(32)
        word, entry = arguments[2].type, builder.block
        left, right = (builder.inttoptr(address, ir.PointerType(vector)) for address in arguments[:2])
        head, body, end = (builder.append_basic_block(name) for name in ("lanes.head", "lanes.body", "lanes.end"))
        builder.branch(head)
        builder.position_at_end(head)
        k, lanes = builder.phi(word), builder.phi(vector)
        zeros = ir.Constant(vector, [0.0] * 16)
        k.add_incoming(ir.Constant(word, 0), entry)
        lanes.add_incoming(zeros, entry)
        builder.cbranch(builder.icmp_unsigned("<", k, arguments[2]), body, end)
        builder.position_at_end(body)
        products = builder.fmul(*(builder.load(builder.gep(side, [k]), align=8) for side in (left, right)))
        lanes.add_incoming(builder.fadd(lanes, products), body)
        k.add_incoming(builder.add(k, ir.Constant(word, 1)), body)
        builder.branch(head)
        builder.position_at_end(end)
        mask = ir.VectorType(index, 4)
        quarters = [
            builder.shuffle_vector(lanes, zeros, ir.Constant(mask, list(range(first, first + 4))))
            for first in (0, 4, 8, 12)
        ]
        four = functools.reduce(builder.fadd, quarters)
        parts = [builder.extract_element(four, ir.Constant(index, lane)) for lane in range(4)]
        return builder.fadd(builder.fadd(parts[0], parts[1]), builder.fadd(parts[2], parts[3]))

    return types.float64(types.uintp, types.uintp, types.uintp), generate
