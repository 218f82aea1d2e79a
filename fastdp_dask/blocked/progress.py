"""Telling a person how far a pass is.  What is told is public: names of passes, row and chunk counts, time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class PassProgress(Protocol):
    """Called once for each pass; the context spans its computation."""

    def __call__(self, name: str, number: int, n_rows: int, n_chunks: int) -> AbstractContextManager[None]: ...


@contextmanager
def silent(name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
    """Say nothing."""
    yield
