"""Counting the chunks that a computation has finished, by public interfaces of Dask alone.

On threads a `dask.callbacks.Callback` is told of each finished task; on a cluster a plugin of the scheduler
counts them (`blocked/scheduler_count.py`).  Which tasks stand for chunks is read off the graph: a layer with
exactly one task for each chunk.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dask.callbacks import Callback


class ChunkCount:
    """How many of `n_chunks` have passed every layer that holds one task for each chunk.

    Keys are tuples (layer name, position, …).  A task that runs twice counts once.
    """

    def __init__(self, n_chunks: int) -> None:
        self._n_chunks = n_chunks
        self._waiting: dict[str, set[Any]] = {}

    @property
    def known(self) -> bool:
        """Whether a graph with layers of one task for each chunk was seen."""
        return bool(self._waiting)

    def learn(self, keys: Iterable[Any]) -> None:
        """Look at the keys of a graph; the first that has such layers is the one that is counted."""
        if self.known:
            return
        layers: defaultdict[str, set[Any]] = defaultdict(set)
        for key in keys:
            layers[str(key[0]) if isinstance(key, tuple) else str(key)].add(key)
        self._waiting = {name: found for name, found in layers.items() if len(found) == self._n_chunks}

    def finish(self, key: Any) -> int | None:
        """Note that `key` is done; return the chunks done so far, or None if `key` stands for no chunk."""
        name = str(key[0]) if isinstance(key, tuple) else str(key)
        if name not in self._waiting:
            return None
        self._waiting[name].discard(key)
        return self._n_chunks - max(len(left) for left in self._waiting.values())


@contextmanager
def count_chunks(n_chunks: int, tick: Callable[[int], None]) -> Iterator[bool]:
    """Call `tick` with the number of chunks done while the body computes; yield whether that can be told.

    A cluster whose scheduler cannot load the plugin gives False and no ticks.  No error arises here.
    """
    client = _active_client()
    if client is None:
        with _on_threads(n_chunks, tick):
            yield True
        return
    # Imported here: only a cluster needs it, and importing distributed takes a third of a second.
    from fastdp_dask.blocked.scheduler_count import counting_on

    with counting_on(client, n_chunks, tick) as counted:
        yield counted


def _active_client() -> Any:
    distributed = sys.modules.get("distributed")  # nobody has a client who has not imported it
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _on_threads(n_chunks: int, tick: Callable[[int], None]) -> Callback:
    count = ChunkCount(n_chunks)

    def start_state(graph: Any, state: Any) -> None:
        with suppress(Exception):
            count.learn(key for key in state["dependencies"] if key not in state["cache"])  # not: given data

    def posttask(key: Any, result: Any, graph: Any, state: Any, worker: Any) -> None:
        with suppress(Exception):
            done = count.finish(key)
            if done is not None:
                tick(done)

    return Callback(start_state=start_state, posttask=posttask)
