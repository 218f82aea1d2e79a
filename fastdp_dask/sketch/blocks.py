"""How a run of rows is cut into blocks of a power of two, aligned to the global row index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Piece:
    """Rows first … last−1 (global index) of block `index`, which starts at row `origin`."""

    index: int
    origin: int
    first: int
    last: int


def pieces(first: int, last: int, block_rows: int) -> Iterator[Piece]:
    """The blocks that rows first … last−1 touch: whole ones and at most two in part."""
    if first >= last:
        return
    for index in range(first // block_rows, (last - 1) // block_rows + 1):
        origin = index * block_rows
        yield Piece(index, origin, max(first, origin), min(last, origin + block_rows))


def next_power_of_two(number: int) -> int:
    """The least power of two ≥ number (≥ 1)."""
    return 1 << max(0, number - 1).bit_length()


def previous_power_of_two(number: int) -> int:
    """The largest power of two ≤ number (≥ 1)."""
    return 1 << (number.bit_length() - 1)
