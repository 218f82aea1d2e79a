"""Telling a person how far a pass is.  What is told is public: names of passes, counts, time."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, TextIO

from fastdp_dask.blocked.chunk_count import count_chunks


class PassProgress(Protocol):
    """Called once for each pass; the context spans its computation."""

    def __call__(
        self, name: str, number: int, n_rows: int, n_chunks: int
    ) -> AbstractContextManager[None]: ...


@contextmanager
def silent(name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
    """Say nothing."""
    yield


class PassReport:
    """A `PassProgress`: one bar for each pass on a terminal, plain lines elsewhere.

    A bar shows chunks done, rows per second and the time left.  Lines stand at the start and the end of a
    pass and at most every `every` seconds between.  The words and counts follow from n, the chunking and the
    clock alone, so they are the same for every content of the data.  Nothing here makes a pass fail.

    Parameters
    ----------
    stream : text stream, optional
        Where to write; None: standard error at the time of the pass.
    every : float
        Seconds between two lines of one pass.
    """

    def __init__(self, stream: TextIO | None = None, every: float = 10.0) -> None:
        self._stream, self._every = stream, every

    @contextmanager
    def __call__(self, name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        stream = self._stream or sys.stderr
        title = f"pass {number} ({name})"
        view: _View = (
            _Bar(stream, title, n_rows, n_chunks)
            if stream.isatty()
            else _Lines(stream, title, n_rows, n_chunks, self._every)
        )
        finished = False
        view.start()
        try:
            with count_chunks(n_chunks, view.tick) as counted:
                if not counted:
                    view.uncounted()
                yield
            finished = True
        finally:
            view.stop(finished)


class _View(Protocol):
    def start(self) -> None: ...
    def uncounted(self) -> None: ...
    def tick(self, done: int) -> None: ...
    def stop(self, finished: bool) -> None: ...


class _Lines:
    """Plain lines; a thread of its own writes those in between, so that a long chunk silences nothing."""

    def __init__(self, stream: TextIO, title: str, n_rows: int, n_chunks: int, every: float) -> None:
        self._stream, self._title, self._rows, self._chunks, self._every = (
            stream,
            title,
            n_rows,
            n_chunks,
            every,
        )
        self._done = 0
        self._counted = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._between, name="fastdp-progress", daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        self._say(f"{self._rows:,} rows in {self._chunks:,} chunk{'s' * (self._chunks != 1)}")
        self._thread.start()

    def uncounted(self) -> None:
        self._counted = False

    def tick(self, done: int) -> None:
        self._done = done

    def stop(self, finished: bool) -> None:
        seconds = time.monotonic() - self._began
        self._over.set()
        self._thread.join()
        if finished:
            self._say(f"done in {seconds:.1f} s, {self._rows / max(seconds, 1e-9):,.0f} rows/s")
        else:
            self._say(f"stopped after {seconds:.1f} s")

    def _between(self) -> None:
        while not self._over.wait(self._every):
            seconds = time.monotonic() - self._began
            if not self._counted:
                self._say(f"running for {seconds:.0f} s")
                continue
            left = seconds * (self._chunks / self._done - 1) if self._done else None
            more = "" if left is None else f", about {left:.0f} s left"
            self._say(f"{self._done:,} of {self._chunks:,} chunks in {seconds:.0f} s{more}")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a closed stream
            self._stream.write(f"fastdp: {self._title}: {text}\n")
            self._stream.flush()


class _Bar:
    """A live bar."""

    def __init__(self, stream: TextIO, title: str, n_rows: int, n_chunks: int) -> None:
        # Imported here: a fit without a terminal does without rich.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._rows, self._chunks = n_rows, n_chunks
        self._progress = Progress(
            TextColumn("{task.description:<20}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[counts]}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self._task: Any = self._progress.add_task(title, total=n_chunks, counts=self._counts(0), speed="")

    def _counts(self, done: int) -> str:
        return f"{done:,}/{self._chunks:,} chunk{'s' * (self._chunks != 1)}"

    def start(self) -> None:
        self._began = time.monotonic()
        self._safely(self._progress.start)

    def uncounted(self) -> None:
        counts = f"{self._chunks:,} chunks"
        self._safely(lambda: self._progress.update(self._task, total=None, counts=counts))

    def tick(self, done: int) -> None:
        self._show(done)

    def stop(self, finished: bool) -> None:
        if finished:
            self._show(self._chunks)
        self._safely(self._progress.stop)

    def _show(self, done: int) -> None:
        rows = self._rows * done / max(1, self._chunks)
        speed = f"{rows / max(time.monotonic() - self._began, 1e-9):,.0f} rows/s" if done else ""
        self._safely(
            lambda: self._progress.update(
                self._task, total=self._chunks, completed=done, counts=self._counts(done), speed=speed
            )
        )

    def _safely(self, act: Callable[[], Any]) -> None:
        with suppress(Exception):
            act()
