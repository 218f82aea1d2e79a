"""Neighbouring chunks are put on one worker, so that their partials are summed where they are made.

Left to itself a scheduler hands chunks to whichever worker is free, and half of all partials then travel.  With runs of
neighbours on each worker the tree of sums stays inside a run but at its edges: what moves is some partials for each
worker and level of the tree, however many chunks there are.  These are wishes: when a worker is lost, others take over.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np

from fastdp_dask.blocked.chunk_count import _active_client
from fastdp_dask.blocked.memory import workers_of


@dataclass(frozen=True)
class Placement:
    """The worker of a chunk, from its key; other keys are placed by the scheduler.

    Called by the scheduler for every key: `layers` are the names of layers of one task for each chunk, `edges` where
    the run of each worker in `addresses` ends.
    """

    layers: frozenset[str]
    addresses: tuple[str, ...]
    edges: tuple[int, ...]

    def __call__(self, key: Any) -> list[str]:
        if not isinstance(key, tuple) or key[0] not in self.layers:
            return list(self.addresses)
        return [self.addresses[min(int(np.searchsorted(self.edges, key[1], side="right")), len(self.edges) - 1)]]


def side_by_side(n_chunks: int, *arrays: Any) -> AbstractContextManager[Any]:
    """Within this context, what is computed of these lazy arrays of `n_chunks` chunks is placed in runs of neighbours.

    As many chunks for a worker as it has threads among all.  Without a cluster of several workers nothing is done.
    """
    client = _active_client()
    if client is None or client.asynchronous:
        return nullcontext()
    workers = sorted((str(w["id"]), str(address), int(w["nthreads"])) for address, w in workers_of(client).items())
    if len(workers) < 2 or n_chunks < 2:
        return nullcontext()
    threads = np.cumsum([count for _, _, count in workers])
    edges = np.rint(threads / threads[-1] * n_chunks).astype(int)
    found = {name: layer for array in arrays for name, layer in array.dask.layers.items()}
    layers = frozenset(name for name, layer in found.items() if len(layer.get_output_keys()) == n_chunks)
    placed = Placement(layers, tuple(address for _, address, _ in workers), tuple(edges.tolist()))
    return dask.annotate(workers=placed, allow_other_workers=True)
