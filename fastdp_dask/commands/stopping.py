"""Being asked to stop: SIGTERM (time is up), SIGUSR1 (soon) and Ctrl-C, from the first moment of the process.

Imports nothing heavy, so that the handlers stand before anything else is loaded.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdp_dask.blocked.progress import PassProgress

CHECKPOINTED = 75  # EX_TEMPFAIL: what was released is kept; run the same command again
INTERRUPTED = 130  # Ctrl-C, as shells have it
CLEARING_SECONDS = 15.0  # a batch system kills 30 s after it has asked

_REQUESTS = [getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)]
_SIGNALS = [*_REQUESTS, signal.SIGINT]
_AGAIN = "Run the same command again"


class Stopped(BaseException):
    """The process was asked to stop: a pass was abandoned, the releases made so far are kept.

    Not an `Exception`, so that nothing on the way mistakes it for a failure and retries.
    """


class _Process:
    """What is true of this process rather than of one command in it."""

    ours = False  # whether it was started as `fastdp`, so that it may be ended here
    told = False  # whether the line about stopping was printed


def from_the_start() -> None:
    """Until a command takes over, end the process at once: nothing was begun, so there is nothing to clear up."""
    _Process.ours = True
    for number in _SIGNALS:
        signal.signal(number, _end_before_anything)


def over() -> None:
    """The command has ended and its exit code stands: a signal must not change it any more."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def told() -> None:
    """Note that a person has been told, so that an end by force repeats nothing."""
    _Process.told = True


class Stoppable:
    """A `PassProgress` in which those signals raise `Stopped`, and Ctrl-C `KeyboardInterrupt`.

    Before the first pass and during a pass it is raised at once: nothing is begun, or a pass is abandoned, and a
    pass releases nothing.  Between two passes it waits for the next one, so that no release is torn between its draw
    and its record.  After the last pass the command goes on to its end.

    A process started as `fastdp` that has neither come to the next pass nor cleared up `CLEARING_SECONDS` after it was
    asked is ended by force, as is one that gets Ctrl-C twice: whatever is on disk stands as after a crash.

    Parameters
    ----------
    progress : PassProgress
        What tells of the passes.
    message : str
        What to say when stopped.
    """

    def __init__(self, progress: PassProgress, message: str) -> None:
        self._progress, self._message = progress, message
        self._asked: int | None = None
        self._raised = False
        self._open = True  # whether a signal may raise now
        self._force: threading.Timer | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stoppable:
        if threading.current_thread() is threading.main_thread():  # the only place where Python takes handlers
            self._before = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        if self._force is not None and not self._raised:  # it went on to its end, and that stands
            self._force.cancel()
        if _Process.ours:
            over()
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def __call__(self, name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        self._open = True
        try:
            if self._asked is not None:
                self._stop(self._asked)
            with self._progress(name, number, n_rows, n_chunks):
                yield
        finally:
            self._open = False

    def _ask(self, number: int, frame: FrameType | None) -> None:
        again, self._asked = self._asked, number
        if number == again == signal.SIGINT and _Process.ours:
            _end(INTERRUPTED, "interrupted twice: ended at once, as by a crash.")
        if self._force is None and _Process.ours:  # between two passes too: what happens there may wait for ever
            self._force = threading.Timer(CLEARING_SECONDS, _end, (_code(number), self._message))
            self._force.daemon = True
            self._force.start()
        if self._open:
            self._stop(number)

    def _stop(self, number: int) -> None:
        if self._raised:  # a second signal must not disturb the clearing up after the first
            return
        self._raised = True
        raise KeyboardInterrupt if number == signal.SIGINT else Stopped(self._message)


def _code(number: int) -> int:
    return INTERRUPTED if number == signal.SIGINT else CHECKPOINTED


def _end_before_anything(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        _end(INTERRUPTED, f"interrupted before anything was begun. {_AGAIN} to begin.")
    _end(CHECKPOINTED, f"stopped on request before anything was begun. {_AGAIN}.")


def _end(code: int, message: str) -> None:
    """End the process without waiting for anything; `os.write`, as a handler may have cut into a print."""
    if not _Process.told:
        os.write(2, f"fastdp: {message}\n".encode())
    os._exit(code)
