"""The constants of a machine: how long one unit of each kind of work takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

_FARTHEST = 1000.0  # times the shipped constant, either way: beyond that a file is not believed


@dataclass(frozen=True)
class Machine:
    """Seconds of one thread for one unit of work, while every core is at work.

    The defaults are those of a two-core virtual machine of 2024 with AVX-512, rounded.

    Attributes
    ----------
    read : float
        For a byte of a chunk, as decoded: fetching it from the page cache and decoding it.
    scale : float
        For an entry of X: scaling it to the grid, and its part of a gradient.
    transform : float
        For an addition of a block's Hadamard transform, int32.
    gather : float
        For a number of a k2 × d partial: picking it out of the block, and adding it up.
    adjoint : float
        For an addition of the transform back, int64, with its part of the deviations.
    gram : float
        For one of the n d² products of XᵀX.
    convert : float
        For a number of a d × d product of a tile of rows, made an integer and added up.
    product : float
        For one of the k2 d² products of ZᵀZ, on the driver.
    eigen : float
        For one of the d³ steps of the smallest eigenvalue, on the driver.
    draw : float
        For one of the d³ steps of a Wishart draw, on the driver.
    task : float
        For a chunk: making, sending and running its tasks.
    start : float
        For a pass: building its graph, and ending it.
    move : float
        For a byte that goes from one process to another.
    measured : bool
        Whether this machine was measured.
    """

    read: float = 1.0e-9
    scale: float = 4.0e-9
    transform: float = 4.0e-10
    gather: float = 2.5e-9
    adjoint: float = 1.0e-9
    gram: float = 1.6e-11
    convert: float = 6.0e-9
    product: float = 1.2e-11
    eigen: float = 1.2e-10
    draw: float = 2.5e-10
    task: float = 1.5e-3
    start: float = 1.5e-2
    move: float = 2.0e-9
    measured: bool = False

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return asdict(self)


DEFAULT = Machine()
"""The shipped constants."""


def believed(values: Any) -> Machine | None:
    """The `Machine` of a mapping from a file; None unless every constant is there and plausible."""
    if not isinstance(values, Mapping):
        return None
    constants: dict[str, float] = {}
    for field in fields(Machine):
        if field.name == "measured":
            continue
        value, usual = values.get(field.name), float(getattr(DEFAULT, field.name))
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return None
        if not usual / _FARTHEST <= value <= usual * _FARTHEST:
            return None
        constants[field.name] = float(value)
    return Machine(**constants, measured=True)
