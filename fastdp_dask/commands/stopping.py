"""Being asked to stop: SIGTERM (time is up) and SIGUSR1 (soon) end a fit between two releases."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from fastdp_dask.blocked.progress import PassProgress
from fastdp_dask.commands.outcome import Stopped

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]


class Stoppable:
    """A `PassProgress` in which those signals raise `Stopped`.

    During a pass it is raised at once: the pass is abandoned, and a pass releases nothing.  At any other time
    it waits for the next pass to begin, so that no release is torn between its draw and its record.

    Parameters
    ----------
    progress : PassProgress
        What tells of the passes.
    message : str
        What to say when stopped.
    """

    def __init__(self, progress: PassProgress, message: str) -> None:
        self._progress, self._message = progress, message
        self._asked = self._raised = self._in_pass = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stoppable:
        if threading.current_thread() is threading.main_thread():  # the only place where Python takes handlers
            self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def __call__(self, name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        self._in_pass = True
        try:
            if self._asked:
                self._stop()
            with self._progress(name, number, n_rows, n_chunks):
                yield
        finally:
            self._in_pass = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._in_pass:
            self._stop()

    def _stop(self) -> None:
        if not self._raised:  # a second signal must not disturb the clearing up after the first
            self._raised = True
            raise Stopped(self._message)
