"""Files of a table in object storage: found by URL, folder or glob, and opened where a local one would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from fastdp_dask.data.location import Location, Options, located
from fastdp_dask.errors import ArgumentError

_COMPRESSION = {".gz": "gzip", ".zip": "zip", ".bz2": "bz2", ".xz": "xz"}


@dataclass(frozen=True)
class RemoteFile:
    """One file under a URL; in messages it stands as that URL."""

    place: Location

    def __str__(self) -> str:
        return self.place.url

    @property
    def suffixes(self) -> list[str]:
        """As of a path."""
        return PurePosixPath(self.place.url).suffixes

    def open(self) -> Any:
        """A binary file that reads ahead."""
        return self.place.opened()

    def mark(self) -> str:
        """A text that changes when the file does."""
        return self.place.mark()


File = Path | RemoteFile


def opened(file: File) -> Any:
    """What a reader takes: the path, or an open file."""
    return file.open() if isinstance(file, RemoteFile) else file


def compression(file: File) -> str | None:
    """What pandas is told, as it looks at the names of paths only."""
    if isinstance(file, Path):
        return "infer"
    return _COMPRESSION.get(file.suffixes[-1].lower()) if file.suffixes else None


def find_remote(
    source: str, options: Options | None, kind_of: Callable[[Any], str], kinds: tuple[str, ...]
) -> tuple[list[RemoteFile], str]:
    """Return the files that a URL stands for, sorted, and their kind.

    Parameters
    ----------
    source : URL of a file, of a folder, or with ``*`` in it
    options : mapping, optional
        Of the file system.
    kind_of : callable
        The kind of a file by its name.
    kinds : tuple of str
        Which can be read from a storage.

    Raises
    ------
    ArgumentError
        If nothing is there, or files of several kinds, or of one that must be copied first.
    StoreError
        If the storage cannot be reached.
    """
    place = located("source", source, options)
    files = sorted((RemoteFile(found) for found in place.find(".parquet", ".pq", ".arrow", ".feather")), key=str)
    if not files:
        raise ArgumentError(
            f"source must be a file, a folder of Parquet or Arrow files, or a glob, got {place}, which matches no "
            "file. Check the URL."
        )
    found = sorted({kind_of(file) for file in files})
    if len(found) > 1:
        raise ArgumentError(
            f"source must be files of one kind, got {place}, which mixes {' and '.join(found)}. Ingest one kind at a "
            "time."
        )
    if found[0] not in kinds:
        raise ArgumentError(
            f"source must be CSV, Parquet or Arrow to be read from a storage, got {found[0]} with {place}. Copy it to "
            "this machine first."
        )
    return files, found[0]
