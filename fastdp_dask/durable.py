"""Files that a crash leaves old or new, never torn, and that a power cut does not take back."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from fastdp_dask.errors import ArgumentError


def local_path(name: str, place: Any) -> Path:
    """Return the argument `name` as a path on this machine.

    Raises
    ------
    ArgumentError
        For a URL, as what is kept there must be locked and synced to disk, and for anything that is no path, or empty.
    """
    if not isinstance(place, str | os.PathLike) or not isinstance(os.fspath(place), str):
        raise ArgumentError(f"{name} must be a path, got {type(place).__name__}. Give it as text.")
    if not os.fspath(place):
        raise ArgumentError(f"{name} must be a path, got an empty one. Name a place, or . for the current folder.")
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:/", os.fspath(place)):  # Path turns :// into :/
        raise ArgumentError(
            f"{name} must be a path on a mounted file system, got a URL. It is locked and synced, which an object "
            "storage cannot do: choose a local path, and copy what is in it afterwards."
        )
    return Path(os.fspath(place))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: the fsync of a file does not cover its name."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: bytes) -> None:
    """Append to a file of mode 0600 and return once the line is on disk.

    A failed write is taken back as far as the disk allows.  After an error nobody can know what will be found
    on disk later: open the file anew before writing again.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        try:
            view = memoryview(line)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if size == 0:
        sync_folder(path.parent)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content`, mode 0600, so that a crash leaves the old file or the new one, never a part."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(content, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
