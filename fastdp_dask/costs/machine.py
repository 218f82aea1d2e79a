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

    The defaults are those of a virtual machine of two cores with AVX-512, rounded.

    Attributes
    ----------
    read : float
        For a byte of a chunk, as decoded: fetching it from the page cache and decoding it.
    row, scale : float
        For a row of X, and for an entry: scaling it to the grid, and its part of a gradient.
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
        For one of the k2 d² products of ZᵀZ, on all cores of the driver.
    eigen : float
        For one of the d³ steps of the smallest eigenvalue, on the driver.
    draw : float
        For one of the d³ steps of a Wishart draw, on the driver.
    number : float
        For a whole number of noise, drawn exactly; a sixteenth of it beyond 4,096 at once.
    release : float
        For a fit: its account and its records.  Not measured.
    task : float
        For a chunk: making, sending and running its tasks.
    start : float
        For a pass: building its graph, and ending it.
    move, schedule : float
        Where workers are other processes: for a byte that goes from one to another, and for a chunk's turn with the
        scheduler, which takes one at a time.  Not measured.
    measured : bool
        Whether this machine was measured.
    """

    read: float = 6.0e-10
    row: float = 2.5e-8
    scale: float = 9.0e-10
    transform: float = 9.0e-11
    gather: float = 2.0e-9
    adjoint: float = 3.0e-10
    gram: float = 1.8e-11
    convert: float = 7.0e-9
    product: float = 1.25e-11
    eigen: float = 8.0e-11
    draw: float = 3.3e-10
    number: float = 9.0e-6
    release: float = 6.0e-3
    task: float = 5.0e-4
    start: float = 3.5e-3
    move: float = 2.0e-9
    schedule: float = 2.0e-3
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
