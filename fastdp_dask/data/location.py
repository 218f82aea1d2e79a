"""Where a store or a table lies: on a mounted file system, or under the URL of an object storage.

What is shown of a URL is the URL; credentials live in `storage_options` or, better, where the storage's own library
looks for them (environment, instance role), and are never printed or written down.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from dask.base import tokenize

from fastdp_dask.errors import ArgumentError, StoreError

Options = Mapping[str, Any]
Result = TypeVar("Result")

# Protocol -> the package that speaks it, the extra that installs it.
_PROTOCOLS = {
    "s3": ("s3fs", "s3"), "gs": ("gcsfs", "gs"), "gcs": ("gcsfs", "gs"),
    "az": ("adlfs", "az"), "abfs": ("adlfs", "az"), "abfss": ("adlfs", "az"),
}  # fmt: skip
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Location:
    """A folder or a file, local or remote.

    Attributes
    ----------
    url : str
        Absolute path, or URL without user, password and query; public.
    options : mapping
        Of the fsspec file system; may hold secrets, so it is never shown.
    """

    url: str
    options: Options = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.url, dict(self.options)) == (other.url, dict(other.options))

    def __hash__(self) -> int:
        return hash((self.url, tokenize(dict(self.options))))

    def __str__(self) -> str:
        return self.url

    @property
    def local(self) -> Path | None:
        """The path, if it is on a mounted file system."""
        return None if _URL.match(self.url) else Path(self.url)

    @property
    def shown(self) -> Path | str:
        """The path or the URL."""
        return self.local or self.url

    @property
    def zarr_options(self) -> dict[str, Any] | None:
        """What `zarr.open_group` takes as `storage_options` beside `url`."""
        return dict(self.options) or None

    def exists(self) -> bool:
        """Whether there is a file, a folder or a key under this name."""
        return self.local.exists() if self.local is not None else bool(self._asked(lambda f, key: f.exists(key)))

    def has(self, name: str) -> bool:
        """Whether there is a file of that name in this folder."""
        if self.local is not None:
            return (self.local / name).is_file()
        return bool(self._asked(lambda files, key: files.isfile(f"{key}/{name}")))

    def is_empty(self) -> bool:
        """Whether this is a folder with nothing in it; an object storage knows none."""
        return self.local is not None and self.local.is_dir() and not any(self.local.iterdir())

    def names(self, folder: str) -> set[str]:
        """Names, relative to a folder in this one, of all files below it."""
        if self.local is not None:
            root = self.local / folder
            return {Path(base, file).relative_to(root).as_posix() for base, _, held in os.walk(root) for file in held}
        found = self._asked(lambda files, key: (f"{key}/{folder}/", files.find(f"{key}/{folder}")))
        return {name.removeprefix(found[0]) for name in found[1]}

    def stamp(self) -> str:
        """A text that changes when the group here is written again."""
        if self.local is not None:
            held = [path for path in sorted(self.local.glob("*")) if path.is_file()]
            return repr([(path.stat().st_mtime_ns, path.stat().st_ino) for path in held])
        return Location(f"{self.url}/zarr.json", self.options).mark()

    def remove(self) -> None:
        """Remove everything below, if anything is there."""
        if self.local is not None:
            shutil.rmtree(self.local)
        else:
            self._asked(lambda files, key: files.rm(key, recursive=True))

    def find(self, *suffixes: str) -> list[Location]:
        """The file of this URL, those that it matches with a ``*``, or those below it that end so."""

        def found(files: Any, key: str) -> list[str]:
            if "*" in key:
                return [name for name in files.glob(key) if files.isfile(name)]
            if files.isfile(key):
                return [key]
            return [name for name in files.find(key) if name.lower().endswith(suffixes)]

        protocol = self.url.partition("://")[0]
        return [Location(f"{protocol}://{name}", self.options) for name in self._asked(found)]

    def opened(self) -> Any:
        """The file of this URL, open for reading."""
        return self._asked(lambda files, key: files.open(key, "rb"))

    def mark(self) -> str:
        """A text that changes when the file of this URL does."""
        return str(self._asked(lambda files, key: files.ukey(key)))

    def _asked(self, ask: Callable[[Any, str], Result]) -> Result:
        """Ask the file system; its errors may quote credentials or signed addresses, so that only a kind is shown."""
        from fsspec.core import url_to_fs  # what zarr reads URLs with

        try:
            files, key = url_to_fs(self.url, **self.options)
            files.invalidate_cache()  # listings are cached for the process, whoever changes them elsewhere
            return ask(files, key)
        except Exception as error:
            kind = type(error).__name__
        raise StoreError(
            f"{self.url} cannot be reached ({kind}). Check the URL, the credentials and --storage-option "
            "(storage_options)."
        )


def is_url(place: Any) -> bool:
    """Whether this is the text of a URL, other than that of a file."""
    found = _URL.fullmatch(place) if isinstance(place, str) else None
    return found is not None and found[1].lower() != "file"


def located(name: str, place: Any, storage_options: Options | None = None) -> Location:
    """Return where the argument `name` points to.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    place : path, ``file://`` URL, or URL of an object storage: ``s3://``, ``gs://`` or ``az://``
        With nothing secret in it.
    storage_options : mapping, optional
        Keyword arguments of the fsspec file system.

    Raises
    ------
    ArgumentError
        If it is neither, if it holds a user or a query, or if there are options for a path.
    StoreError
        If the package for that storage is not installed.
    """
    if isinstance(place, Location):
        return place
    if not isinstance(place, str | os.PathLike) or not isinstance(os.fspath(place), str):
        raise ArgumentError(f"{name} must be a path or a URL, got {type(place).__name__}. Give it as text.")
    options = dict(storage_options or {})
    found = _URL.fullmatch(os.fspath(place))
    if found is None or found[1].lower() == "file":
        if options:
            raise ArgumentError(
                f"storage_options (--storage-option) must be left out for a path, got {', '.join(sorted(options))} "
                f"with {name}. They are for s3://, gs:// and az:// URLs."
            )
        return Location(str(Path(os.fspath(place) if found is None else found[2]).resolve()))
    protocol, rest = found[1].lower(), found[2].rstrip("/")
    if protocol not in _PROTOCOLS:
        raise ArgumentError(
            f"{name} must be a path or an s3://, gs:// or az:// URL, got one of {protocol}://. Copy the data to one."
        )
    account = "@" in rest.partition("/")[0] and protocol not in ("abfs", "abfss")
    if account or ":" in rest.partition("@")[0].partition("/")[0] or "?" in rest or "#" in rest or not rest:
        raise ArgumentError(
            f"{name} must be a {protocol}://bucket/key URL without user, password and query, got one that is not. Pass "
            "credentials through the environment, or as --storage-option (storage_options)."
        )
    package, extra = _PROTOCOLS[protocol]
    if find_spec(package) is None:
        raise StoreError(f"{package} is needed for {protocol}:// URLs. Run: pip install 'fastdp-dask[{extra}]'")
    return Location(f"{protocol}://{rest}", options)
