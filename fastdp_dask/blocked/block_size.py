"""Which block size a chunk is transformed with, and when neighbouring chunks are merged: matters of speed only."""

from __future__ import annotations

from fastdp_dask.rows.grid import MAX_BLOCK_ROWS
from fastdp_dask.sketch.blocks import next_power_of_two

_MERGED_BYTES = 256 * 2**20


def block_rows_for(chunk_rows: int, n_padded: int) -> int:
    """b for a chunk: a power of two that does not dwarf it, at most 2^15 (int32) and N.

    A chunk of m rows costs about (m/b)·(b·d·log2 b + k2·d): the larger b the fewer gathers, up to the chunk itself.
    """
    return max(1, min(MAX_BLOCK_ROWS, n_padded, next_power_of_two(max(1, chunk_rows))))


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
