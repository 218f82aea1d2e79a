"""The subsampled randomized Hadamard transform by blocks: any n, no shuffle, no row dropped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fastdp_dask import _validate, rng
from fastdp_dask.errors import ArgumentError, DataShapeError, DataTypeError
from fastdp_dask.sketch import coherence as coherence_module
from fastdp_dask.sketch import low_coherence
from fastdp_dask.sketch._fwht_kernels import _fwht_rows as fwht_rows
from fastdp_dask.sketch._gather_kernels import flip_rows, gather, gather_add, scatter_tile, signed_copy
from fastdp_dask.sketch._joined import gather_finished, rows_together
from fastdp_dask.sketch.blocks import next_power_of_two, pieces
from fastdp_dask.sketch.tiles import join_tiles, tile_rows, transform_tiles

DEFAULT_BLOCK_ROWS = 1 << 14


@dataclass(frozen=True, init=False)
class SRHT:
    r"""S = sqrt(N/k2) · P · H_N · B, an SRHT that depends on (n, k2, seed) alone.

    N = p·b is the least power of two ≥ n; H_N is the orthonormal Walsh–Hadamard matrix in natural order; B is a
    diagonal of i.i.d. signs; P picks k2 distinct rows uniformly.  Hence S has unit-norm columns and
    S Sᵀ = (N/k2) I.  Rows n … N−1 of the data are zero and cost nothing.

    Signs and sampled rows are a function of (seed, global row index): `block_rows` only sets the speed.

    Parameters
    ----------
    n_rows : int
        n ≥ 1, public.
    sketch_size : int
        k2, 1 ≤ k2 ≤ N, public.
    block_rows : int, optional
        b, a power of two: rows that one local transform covers.
    seed : int
        Public randomness, 0 ≤ seed < 2¹²⁸.
    design : {"uniform", "low_coherence"}
        How P picks its rows: uniformly, or by algebra (`fastdp_dask.sketch.low_coherence`; k2 a power of two with
        log2 N ≤ 2 log2 k2), which lowers Δ about threefold.  Bounds that need uniform rows say so.

    Raises
    ------
    ArgumentError
        If a size is out of its range or `block_rows` is no power of two.

    Notes
    -----
    The entries of sqrt(k2)·S are ±1, so on integer data the unscaled sums are exact integers (`signed_sums`).
    Source: FM, section 3 (SRHT); H_N = H_p ⊗ H_b for the blocks.
    """

    n_rows: int
    sketch_size: int
    seed: int
    block_rows: int
    design: str

    def __init__(
        self, n_rows: int, sketch_size: int, *, block_rows: int | None = None, seed: int, design: str = "uniform"
    ) -> None:
        n_rows = _validate.count("n_rows", n_rows)
        padded = next_power_of_two(n_rows)
        sketch_size = _validate.count("sketch_size", sketch_size)
        if sketch_size > padded:
            raise ArgumentError(
                f"sketch_size must be at most {padded}, the power of two that holds n_rows={n_rows}, "
                f"got sketch_size={sketch_size}. Choose a smaller sketch."
            )
        block = DEFAULT_BLOCK_ROWS if block_rows is None else _validate.count("block_rows", block_rows)
        if block & (block - 1):
            raise ArgumentError(
                f"block_rows must be a power of two, got block_rows={block}. Leave it out for the default."
            )
        _validate.choice("design", design, ("uniform", "low_coherence"))
        if design == "low_coherence" and not low_coherence.fits(padded, sketch_size):
            raise ArgumentError(
                f"sketch_size must be a power of two, at least 8, with 2 * log2(sketch_size) >= log2({padded}) for "
                f"design='low_coherence', got sketch_size={sketch_size}. Choose such a size or design='uniform'."
            )
        for name, value in (
            ("design", design),
            ("n_rows", n_rows),
            ("sketch_size", sketch_size),
            ("seed", rng.check_seed("seed", seed)),
            ("block_rows", min(padded, block)),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_padded(self) -> int:
        """N, the least power of two ≥ n_rows."""
        return next_power_of_two(self.n_rows)

    @property
    def rows(self) -> np.ndarray:
        """The k2 sampled rows of H_N, distinct and ascending, (k2,) int64."""
        return _sampled_rows(self.seed, self.n_padded, self.sketch_size, self.design)

    def sign_bits(self, first: int, count: int) -> np.ndarray:
        """1 where the sign of row first + i is −1, else 0, (count,) uint8."""
        return rng.sign_bits(rng.derive_key(self.seed, "sketch_signs"), first, count)

    # -- one block: what the blocked passes call -----------------------------------------------------------

    def add_block(self, sums: np.ndarray, block: np.ndarray, index: int, first: int, count: int) -> None:
        """sums += sqrt(k2) · S restricted to block `index`, times its rows.

        `block` (b, d), overwritten, holds rows first … first+count−1 (global index) in place and zeros elsewhere;
        integers stay exact as long as b · max|entry| fits its dtype.
        """
        size = block.shape[0]
        flip_rows(block, first - index * size, self.sign_bits(first, count))
        fwht_rows(block)
        gather_add(sums, block, self.rows, size.bit_length() - 1, index)

    def gather(self, sums: np.ndarray, block: np.ndarray, tile: int, index: int, *, add: bool) -> None:
        """sums := or += sqrt(k2) · S restricted to block `index`, times its rows, which stand in `block` with
        their signs; its tiles are transformed already.
        """
        size, columns = block.shape
        shift, together = size.bit_length() - 1, rows_together(size, tile, columns, block.itemsize)
        if together:
            order, edges = _by_place(self, tile, together)
            gather_finished(sums, block, tile, together, self.rows, order, edges, index, add)
            return
        join_tiles(block, tile)
        (gather_add if add else gather)(sums, block, self.rows, shift, index)

    def adjoint_tiles(self, sums: np.ndarray, block: np.ndarray, index: int) -> int:
        """block := what `join_tiles` turns into rows of sqrt(k2) · H Pᵀ · sums that belong to block `index`.

        The rows of a tile; the signs, B, are the caller's.
        """
        size, tile = block.shape[0], tile_rows(block)
        shift = size.bit_length() - 1
        order, edges = _by_tile(self, shift, tile)
        for number, start in enumerate(range(0, size, tile)):
            block[start : start + tile] = 0
            here = order[edges[number] : edges[number + 1]]
            if here.size:
                scatter_tile(block, sums, self.rows, here, shift, index)
                transform_tiles(block, start, start + tile, tile)
        return tile

    def adjoint_block(self, sums: np.ndarray, block: np.ndarray, index: int) -> None:
        """block := rows of sqrt(k2) · H Pᵀ · sums that belong to block `index`; their signs, B, are the caller's."""
        join_tiles(block, self.adjoint_tiles(sums, block, index))

    # -- whole arrays ----------------------------------------------------------------------------------------

    def signed_sums(self, X: Any) -> np.ndarray:
        """sqrt(k2) · S X, (k2, d): exact int64 for integers, float64 for floats."""
        data = _as_matrix(X, self.n_rows, "n_rows")
        sums = np.zeros((self.sketch_size, data.shape[1]), dtype=data.dtype)
        block = np.empty((self.block_rows, data.shape[1]), dtype=data.dtype)
        for piece in pieces(0, self.n_rows, self.block_rows):
            block[:] = 0
            block[piece.first - piece.origin : piece.last - piece.origin] = data[piece.first : piece.last]
            self.add_block(sums, block, piece.index, piece.first, piece.last - piece.first)
        return sums

    def apply(self, X: Any) -> np.ndarray:
        """S X, (k2, d) float64.  For integers the sums are exact and only the last scaling rounds."""
        return np.asarray(self.signed_sums(X) / np.sqrt(self.sketch_size))

    def adjoint(self, Z: Any) -> np.ndarray:
        """Sᵀ Z, (n, d) float64, for Z of shape (k2, d)."""
        sums = _as_matrix(Z, self.sketch_size, "sketch_size")
        out = np.empty((self.n_rows, sums.shape[1]), dtype=sums.dtype)
        block = np.empty((self.block_rows, sums.shape[1]), dtype=sums.dtype)
        for piece in pieces(0, self.n_rows, self.block_rows):
            self.adjoint_block(sums, block, piece.index)
            rows = block[piece.first - piece.origin : piece.last - piece.origin]
            signed_copy(out, piece.first, rows, self.sign_bits(piece.first, len(rows)))
        return np.asarray(out / np.sqrt(self.sketch_size))

    def to_dense(self) -> np.ndarray:
        """S itself, (k2, n) float64: (−1)^popcount(r & i) · sign_i / sqrt(k2).  For tests and small n."""
        parity = np.bitwise_count(self.rows[:, None] & np.arange(self.n_rows)) & 1
        negative = parity ^ self.sign_bits(0, self.n_rows)
        return np.asarray((1.0 - 2.0 * negative) / np.sqrt(self.sketch_size))

    def coherence(self) -> float:
        """Δ = max over i ≠ j of |(SᵀS)_ij|, over all N positions; exact and public."""
        return coherence_module.coherence(self.rows, self.n_padded)

    def coherence_bound(self) -> float:
        """Δ or a bound on it: by formula for low-coherence rows, whatever N is; else Δ itself."""
        if self.design == "low_coherence":
            return low_coherence.coherence_bound(self.n_padded, self.sketch_size)
        return self.coherence()


@lru_cache(maxsize=64)
def _sampled_rows(seed: int, n_padded: int, sketch_size: int, design: str) -> np.ndarray:
    # Kept per process, not in the object: a pickled SRHT stays a hundred bytes in every task of a graph.
    key = rng.derive_key(seed, "sketch_rows")
    if design == "low_coherence":
        rows = low_coherence.rows(key, n_padded, sketch_size)
    else:
        rows = rng.distinct_indices(key, n_padded, sketch_size)
    rows.setflags(write=False)
    return rows


@lru_cache(maxsize=16)
def _by_tile(sketch: SRHT, shift: int, tile: int) -> tuple[np.ndarray, np.ndarray]:
    """The sampled rows by their offset in a block, and where in that order the tiles begin and the last one ends."""
    offsets = sketch.rows & ((1 << shift) - 1)
    order = np.argsort(offsets, kind="stable")
    edges = np.searchsorted(offsets[order], np.arange(0, (1 << shift) + 1, tile))
    return order, edges


@lru_cache(maxsize=16)
def _by_place(sketch: SRHT, tile: int, together: int) -> tuple[np.ndarray, np.ndarray]:
    """The sampled rows by their offset in a tile, and where in that order each run of `together` offsets begins."""
    places = sketch.rows & (tile - 1)
    order = np.argsort(places, kind="stable")
    return order, np.searchsorted(places[order], np.arange(0, tile + 1, together))


def _as_matrix(value: Any, rows: int, name: str) -> np.ndarray:
    data = np.asarray(value)
    if data.ndim != 2 or data.shape[0] != rows:
        raise DataShapeError(
            f"the array must have shape ({name}={rows}, d), got shape {data.shape}. Reshape it to two dimensions."
        )
    if data.dtype.kind in "iub":
        return np.ascontiguousarray(data, dtype=np.int64)
    if data.dtype.kind == "f":
        return np.ascontiguousarray(data, dtype=np.float64)
    raise DataTypeError(f"the array must be real numbers, got dtype {data.dtype}. Convert it to float64.")
