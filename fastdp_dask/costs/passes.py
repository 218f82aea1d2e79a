"""Seconds, bytes and memory of a plan, counted pass by pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fastdp_dask.blocked import memory
from fastdp_dask.blocked.block_size import block_rows_for, merged_chunks
from fastdp_dask.costs.layout import Layout
from fastdp_dask.costs.machine import Machine
from fastdp_dask.rows.grid import entry_limit
from fastdp_dask.sketch.blocks import next_power_of_two

_MOST_AT_ONCE = 4096  # whole numbers of noise from the slower sampler, as in `fastdp_dask.rng`
_LINE = 16  # numbers of a row that are fetched at least: a line of a cache
_PRODUCT_ROWS = 4096  # multiplied at once, as in `fastdp_dask.blocked.kernels`


@dataclass(frozen=True)
class Outline:
    """What of a plan decides its cost: known before any noise is calibrated.

    Attributes
    ----------
    columns : int
        Of what is summed: d, or d + 1 where y is sketched along.
    sketches, k2 : int
        SRHTs that share the first pass, and their rows; k2 = 0: XᵀX instead.
    gradients : int
        Passes for a gradient alone.
    deviation : bool
        Whether the sketch's deviation takes a pass.
    draws : int
        Wishart draws and the like, each about d³.
    estimate : bool
        Whether a smallest eigenvalue is computed.
    drawn : tuple of int
        Whole numbers of noise in each release.
    """

    columns: int
    sketches: int
    k2: int
    gradients: int
    deviation: bool = False
    draws: int = 1
    estimate: bool = False
    drawn: tuple[int, ...] = ()

    @property
    def n_passes(self) -> int:
        """Passes over X."""
        return 1 + self.gradients + int(self.deviation)


@dataclass(frozen=True)
class Cost:
    """Predicted cost of a plan; bytes and seconds."""

    seconds: float
    driver_seconds: float
    bytes_read: int
    bytes_moved: int
    task_bytes: int
    worker_bytes: int
    driver_bytes: int


@dataclass(frozen=True)
class _Pass:
    """One pass: seconds of a thread for its heaviest chunk and for all, what its tasks hand on, and its memory."""

    longest: float
    all_chunks: float
    partial: int
    chunks: int
    memory: memory.PassMemory


def cost(outline: Outline, layout: Layout, machine: Machine) -> Cost:
    """The cost of every pass and of the driver's work between them.

    A pass takes its start, and its chunks shared by the threads, but no less than its longest chunk, or than all of
    them take to be handed out.
    """
    d, k2 = outline.columns, outline.k2
    runs = [_sketch(outline, layout, machine) if k2 else _gram(outline, layout, machine)]
    if outline.deviation:
        runs.append(_deviation(outline, layout, machine))
    runs += [_gradient(outline, layout, machine)] * outline.gradients
    seconds = 0.0
    for run in runs:
        turns = run.chunks * machine.schedule if layout.moved else 0.0
        seconds += machine.start + max(run.longest, run.all_chunks / layout.threads, turns)
    squares = outline.sketches * k2 * d**2 * machine.product
    driver = squares + (int(outline.estimate) * machine.eigen + outline.draws * machine.draw) * d**3
    numbers = sum(count if count <= _MOST_AT_ONCE else count / 16 for count in outline.drawn)
    driver += machine.release + numbers * machine.number
    threads = max(1, -(-layout.threads // layout.workers))
    return Cost(
        seconds=seconds + driver,
        driver_seconds=driver,
        bytes_read=len(runs) * layout.bytes_of_pass,
        bytes_moved=sum(run.partial * run.chunks for run in runs),
        task_bytes=max(run.memory.task for run in runs),
        worker_bytes=max(run.memory.worker(threads) for run in runs),
        driver_bytes=max(run.memory.driver for run in runs) + 6 * 8 * d**2,
    )


def additions_of(rows: int, padded: int, largest: int, gathered: int) -> tuple[float, int]:
    """Additions for a column of a chunk's transform, and its blocks."""
    b = block_rows_for(rows, padded, largest=largest, gathered=gathered)
    blocks = -(-rows // b)
    return blocks * b * math.log2(max(2, b)), blocks


def _sketch(outline: Outline, layout: Layout, machine: Machine) -> _Pass:
    d, T, k2 = outline.columns, outline.sketches, outline.k2
    padded = next_power_of_two(layout.n_samples)
    largest = entry_limit(d)
    shape = (T * k2 + 2, d)

    def work(rows: int) -> float:
        additions, blocks = additions_of(rows, padded, largest, T * k2)
        return T * (d * additions * machine.transform + max(d, _LINE) * blocks * k2 * machine.gather)

    narrow = 4 if max(layout.chunks) * largest < 2**31 else 8
    handed = shape[0] * d * narrow

    def room(rows: int) -> int:
        return memory.block_work(rows, columns=d, itemsize=4, blocks=1 if T == 1 else 2)

    return _run(layout, machine, work, shape, narrow, handed, room)


def _deviation(outline: Outline, layout: Layout, machine: Machine) -> _Pass:
    d, T, k2 = outline.columns, outline.sketches, outline.k2
    padded = next_power_of_two(layout.n_samples)

    def work(rows: int) -> float:
        additions, blocks = additions_of(rows, padded, 1, T * k2)
        return T * (d * additions * machine.adjoint + max(d, _LINE) * blocks * k2 * machine.gather)

    def room(rows: int) -> int:
        return 16 * T * k2 * d + memory.block_work(rows, d, 8)

    run = _run(layout, machine, work, (1, T), 8, 8 * T, room)
    if not layout.moved:
        return run
    sent = layout.workers * 8 * T * k2 * d  # every worker gets the sums
    more = sent * machine.move
    return _Pass(run.longest + more, run.all_chunks + layout.threads * more, run.partial, run.chunks, run.memory)


def _gram(outline: Outline, layout: Layout, machine: Machine) -> _Pass:
    d = outline.columns

    def work(rows: int) -> float:
        return d * d * (rows * machine.gram + -(-rows // _PRODUCT_ROWS) * machine.convert)

    shape = (d + 1, d)
    return _run(layout, machine, work, shape, 8, 8 * shape[0] * d, lambda rows: memory.tile_work(d))


def _gradient(outline: Outline, layout: Layout, machine: Machine) -> _Pass:
    d = outline.columns
    return _run(layout, machine, lambda rows: 0.0, (1, d), 8, 8 * d, lambda rows: memory.tile_work(d))


def _run(
    layout: Layout,
    machine: Machine,
    work: Callable[[int], float],
    shape: tuple[int, int],
    itemsize: int,
    handed: int,
    room: Callable[[int], int],
) -> _Pass:
    """Beside `work(rows)`, every chunk is read, scaled and multiplied into a gradient, and its partial handed on."""
    chunks = merged_chunks(layout.chunks, layout.n_features * layout.itemsize, handed)
    lengths = {length: chunks.count(length) for length in set(chunks)}
    moved = machine.move * handed if layout.moved else 0.0

    def chunk(rows: int) -> float:
        entry = layout.itemsize * machine.read + machine.scale
        return machine.task + moved + rows * (machine.row + layout.n_features * entry) + work(rows)

    return _Pass(
        longest=chunk(max(chunks)),
        all_chunks=sum(count * chunk(length) for length, count in lengths.items()),
        partial=handed,
        chunks=len(chunks),
        memory=memory.project(
            chunk_rows=max(chunks), n_features=layout.n_features, itemsize=layout.itemsize,
            merged=chunks != layout.chunks, work=room(max(chunks)), shape=shape, partial_itemsize=itemsize,
        ),
    )  # fmt: skip
