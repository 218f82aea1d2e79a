"""Counting finished chunks on a cluster: a scheduler plugin whose counts reach the client as events."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from distributed import SchedulerPlugin

from fastdp_dask.blocked.chunk_count import ChunkCount

_EVENTS_EVERY = 0.25  # seconds


class CountPlugin(SchedulerPlugin):
    """Counts the chunks of one pass and logs the count under its own topic, four times a second at most."""

    def __init__(self, topic: str, n_chunks: int) -> None:
        self.name = topic
        self._topic, self._n_chunks = topic, n_chunks
        self._count = ChunkCount(n_chunks)
        self._last = 0.0
        self._scheduler: Any = None

    async def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def update_graph(self, scheduler: Any, **kwargs: Any) -> None:
        self._count.learn(kwargs.get("tasks", ()))

    def transition(self, key: Any, start: Any, finish: Any, *args: Any, **kwargs: Any) -> None:
        if finish != "memory" or start == "memory":
            return
        done = self._count.finish(key)
        now = time.monotonic()
        if done is not None and (now - self._last >= _EVENTS_EVERY or done == self._n_chunks):
            self._last = now
            self._scheduler.log_event(self._topic, {"done": done})


@contextmanager
def counting_on(client: Any, n_chunks: int, tick: Callable[[int], None]) -> Iterator[bool]:
    """Call `tick` with the chunks done on the cluster of `client`; yield False where that fails."""
    topic = f"fastdp-pass-{uuid.uuid4().hex}"

    def told(event: tuple[float, Any]) -> None:
        with suppress(Exception):
            tick(int(event[1]["done"]))

    counted = False
    if not client.asynchronous:
        # A scheduler without this package, or one that takes no plugins: then only elapsed time is told.
        with suppress(Exception):
            client.register_plugin(CountPlugin(topic, n_chunks), name=topic)
            client.subscribe_topic(topic, told)
            counted = True
    try:
        yield counted
    finally:
        if counted:
            with suppress(Exception):
                client.unsubscribe_topic(topic)
            with suppress(Exception):
                client.unregister_scheduler_plugin(topic)
