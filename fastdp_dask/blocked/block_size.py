"""Which block size a chunk is transformed with, and when neighbouring chunks are merged: matters of speed only."""

from __future__ import annotations

from fastdp_dask.rows.grid import GRID
from fastdp_dask.sketch.blocks import next_power_of_two, previous_power_of_two

_MERGED_BYTES = 256 * 2**20


def block_rows_for(
    chunk_rows: int, n_padded: int, *, largest: int = GRID - 1, first: int = 0, gathered: int = 0
) -> int:
    """b for a chunk that starts at row `first`: a power of two ≤ N with b · largest < 2^31 (int32).

    Each block that the chunk touches, if only in part, costs about b·(log2 b + 8) + 4·k2 operations per column; the
    cheapest b is taken.  One block that covers the chunk is best where the chunk lies well, two halves or more where
    it straddles an edge.
    """
    rows = max(1, chunk_rows)
    most = max(1, min(previous_power_of_two((2**31 - 1) // largest), n_padded, next_power_of_two(rows)))
    sizes = [most >> k for k in range(4) if most >> k]

    def cost(size: int) -> int:
        touched = (first + rows - 1) // size - first // size + 1
        return touched * (size * (size.bit_length() + 7) + 4 * gathered)

    return min(sizes, key=cost)


def merged_chunks(chunks: tuple[int, ...], row_bytes: int, partial_bytes: int) -> tuple[int, ...]:
    """Row chunks of a pass whose partial result has `partial_bytes`: merged until a partial does not dwarf its chunk.

    Neighbours are joined up to the size of a partial (at most 256 MiB); a chunk that is large enough stays as it is.
    """
    wanted = max(1, min(partial_bytes, _MERGED_BYTES) // max(1, row_bytes))
    if all(size >= wanted for size in chunks) or len(chunks) == 1:
        return chunks
    merged: list[int] = []
    current = 0
    for size in chunks:
        if current and current + size > 2 * wanted:
            merged.append(current)
            current = 0
        current += size
        if current >= wanted:
            merged.append(current)
            current = 0
    if current:
        merged.append(current)
    return tuple(merged) or (0,)
