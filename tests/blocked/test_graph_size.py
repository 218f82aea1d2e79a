"""However many chunks there are: small graphs, one after the other, and the same bits."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from functools import partial
from typing import Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from helpers import chunked

from fastdp_dask import SRHT
from fastdp_dask.blocked import kernels, tree
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.rows.scaling import declare

N_CHUNKS = 20_000


class Rows:
    """Zeros of a shape, made when they are asked for."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(np.float32)

    def __getitem__(self, index: tuple[slice, ...]) -> np.ndarray:
        return np.zeros([len(range(*at.indices(n))) for at, n in zip(index, self.shape, strict=True)], np.float32)


def lazy(source: Rows, rows: int | tuple[int, ...]) -> da.Array:
    chunks = (rows, *source.shape[1:])
    return da.from_array(source, chunks=chunks, asarray=False, inline_array=True, meta=np.empty((0,) * source.ndim))


@pytest.mark.parametrize("equal", [True, False])
def test_graphs_of_twenty_thousand_chunks_are_small(equal: bool) -> None:
    rows = 4 if equal else (3, 5) * (N_CHUNKS // 2)
    X, y = lazy(Rows(4 * N_CHUNKS, 8), rows), lazy(Rows(4 * N_CHUNKS), rows)
    made = tree.parts(X, y, kernels.gradient_chunk, (1, 9), np.int64, np.add, {"theta": dask.delayed(np.ones)(3)})
    most = tree.PART_CHUNKS if equal else tree.PART_CHUNKS // 4
    for part in itertools.islice(made, 2):  # the others are like the second
        assert part.n_chunks == most
        assert part.n_rows == 4 * most
        (optimized,) = dask.optimize(part.lazy)
        graph = dict(optimized.__dask_graph__())
        assert len(graph) < (5 if equal else 6) * most
        assert len(cloudpickle.dumps(graph)) < 2e6
        assert len(cloudpickle.dumps(part.lazy.__dask_graph__())) < 10e6  # what a scheduler is sent
        # What one worker is sent for one chunk.
        assert max(len(cloudpickle.dumps(task)) for task in graph.values()) < (4e3 if equal else 12e3)


def test_the_first_task_waits_for_one_small_graph_only(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = lazy(Rows(4 * N_CHUNKS, 8), 4), lazy(Rows(4 * N_CHUNKS), 4)

    class Seen(Exception):
        """The first task has been reached."""

    def reached(*args: Any, **options: Any) -> np.ndarray:
        raise Seen

    monkeypatch.setattr(kernels, "gradient_chunk", reached)
    drawn: list[int] = []
    genuine = tree.parts

    def counted(*args: Any) -> Any:
        for part in genuine(*args):
            drawn.append(part.n_chunks)
            yield part

    monkeypatch.setattr(tree, "parts", counted)
    blocked = BlockedRows(X, y, declare(8, bounds_X=(-1, 1), bounds_y=(-1, 1)))
    with pytest.raises(Seen), dask.config.set(scheduler="synchronous"):
        blocked.gradient(np.zeros(9), 1.0)
    assert drawn == [tree.PART_CHUNKS]


@pytest.mark.parametrize("rows", [(30, 0, 25, 44, 1), 13])
def test_parts_change_no_bit(rows: tuple[int, ...] | int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-1, 1, (100, 3)), generator.uniform(-1, 1, 100)
    scaling = declare(3, bounds_X=(-1, 1), bounds_y=(-1, 1))
    sketches = [SRHT(100, 20, seed=1), SRHT(100, 7, seed=2)]
    found = []
    for most in (4, 1000):
        monkeypatch.setattr(tree, "PART_CHUNKS", most)
        told: list[tuple[str, int, int, int]] = []
        blocked = BlockedRows(*chunked(X, y, rows), scaling, progress=partial(_tell, told))
        with dask.config.set(scheduler="synchronous"):
            sums, first = blocked.sketch(sketches, 1.0)
            deviations = blocked.deviation(sketches, sums)
            gram, _ = blocked.gram(1.0)
            gradient = blocked.gradient(np.ones(4), 1.0)
        assert len(told) == 4 if most == 1000 else len(told) > 4
        found.append([*sums, first, np.array(deviations), gram, gradient])
        assert blocked.n_passes == 4
        assert sum(many for _, number, many, _ in told if number == 4) == 100
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()


def _tell(told: list[tuple[str, int, int, int]], *facts: Any) -> Any:
    told.append(facts)
    return nullcontext()
