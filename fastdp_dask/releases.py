"""Every private draw happens once: it is written down before it is used and replayed after a restart.

One line of `releases.jsonl` for each release, or for those made together, appended and fsynced, each with a checksum
that covers the line before it.  A line that a crash cut short is dropped: its values were never used, and they are
drawn anew under the charge already paid.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.durable import append_line, sync_folder
from fastdp_dask.errors import StoreError
from fastdp_dask.rng import NoiseSource


class ReleaseLog:
    """Named releases, in memory or in the file `path` (mode 0600).

    Parameters
    ----------
    path : path-like, optional
        None keeps the releases in memory only.
    root : str
        What the first line is chained to: a digest of the plan, so that releases of another run are refused.
    allowed : callable
        Asked before each line is written: whether the file is still ours.
    pay : callable
        Called before the first draw; on return the draws are paid for.
    finished : bool
        The file of a run that has ended, to be read alone: it must be there, to its last line, and is not touched.

    Raises
    ------
    StoreError
        If a line, other than a last one cut short, fails its checksum, does not follow the line before it or repeats
        a name; if the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        root: str = "",
        allowed: Callable[[], bool] = lambda: True,
        finished: bool = False,
        pay: Callable[[], object] = lambda: None,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._values: dict[str, np.ndarray] = {}
        self._last = root
        self._allowed = allowed
        self._failed = False
        self._pay: Callable[[], object] | None = pay
        self._pending: list[str] | None = None
        if self._path is not None and (finished or self._path.exists()):
            self._replay(self._path, finished)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def names(self) -> list[str]:
        """Names of the releases made so far, in order."""
        return list(self._values)

    def once(
        self, name: str, draw: Callable[..., np.ndarray | float], noise: NoiseSource, *args: Any
    ) -> np.ndarray:
        """The release `name`: the stored value if there is one, else draw(noise stream, *args).

        The value is paid for before it is drawn, and written down before it is returned; the stream is the one that
        `noise` keeps for this name.
        """
        if name not in self._values:
            if self._pay is not None:
                self._check_ours(name)  # nobody pays for a folder that is lost already
                self._pay()
                self._pay = None
            value = np.array(draw(noise.stream(name), *args), dtype=np.float64)
            if self._pending is not None:
                self._pending.append(name)
            elif self._path is not None:
                self._append(self._path, {name: value})
            self._values[name] = value
        return self.stored(name)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Releases made in this block become one line when it ends: after a crash there are all of them or none.

        For values that are only sound together, such as an estimate and the noise that relies on it: a restart must
        not pair an old one with a new.  If the block fails they are forgotten.  A block within a block is part of it.
        """
        if self._pending is not None:
            yield
            return
        self._pending = []
        try:
            yield
            if self._path is not None and self._pending:
                self._append(self._path, {name: self._values[name] for name in self._pending})
        except BaseException:
            for name in self._pending:
                self._values.pop(name, None)
            raise
        finally:
            self._pending = None

    def stored(self, name: str) -> np.ndarray:
        """A release made before."""
        return self._values[name].copy()

    def _append(self, path: Path, values: dict[str, np.ndarray]) -> None:
        name = ", ".join(values)
        body = {
            "releases": [
                {"name": key, "shape": list(value.shape), "hex": value.astype("<f8").tobytes().hex()}
                for key, value in values.items()
            ],
            "previous": self._last,
        }
        checksum = _checksum(body)
        if self._failed:  # what the failed write left is unknown, and a second draw must not stand beside it
            raise StoreError(f"{path} could not be written before. Run again: the fit continues from what is on disk.")
        self._check_ours(name)
        self._failed = True
        try:
            append_line(path, json.dumps({**body, "sha256": checksum}).encode() + b"\n")
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written ({error.strerror}): release {name!r} was not used. Free space or change the "
                "permissions, then run again: the fit continues under the charge already paid."
            ) from None
        self._failed = False
        self._last = checksum

    def _check_ours(self, name: str) -> None:
        if not self._allowed():
            raise StoreError(
                f"{self._path} was taken over by another run while this one stood still: release {name!r} was not "
                "used. Run again to get that run's model."
            )

    def _replay(self, path: Path, finished: bool) -> None:
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise StoreError(
                f"{path} cannot be read ({error.strerror}). Restore it from a copy: what was paid for must not be "
                "drawn again."
            ) from None
        whole = raw[: raw.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), start=1):
            entry = _parse(line)
            if entry is None:
                raise _damaged(path, number, "fails its checksum")
            body, checksum = entry
            if body["previous"] != self._last:
                raise _damaged(path, number, "does not follow the line before it, or belongs to another plan")
            for release in body["releases"]:
                if release["name"] in self._values:
                    raise _damaged(path, number, "repeats a release")
                value = np.frombuffer(bytes.fromhex(release["hex"]), dtype="<f8").reshape(release["shape"])
                self._values[release["name"]] = value.astype(np.float64)
            self._last = checksum
        if finished:
            if not whole or len(whole) < len(raw):
                raise _damaged(path, whole.count(b"\n") + 1, "is missing or cut short")
            return
        try:
            with path.open("r+b") as stream:
                stream.truncate(len(whole))  # a line cut short by a crash was never used
                os.fsync(stream.fileno())  # and a whole one may have been written, but not yet synced
            sync_folder(path.parent)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written ({error.strerror}). Make the folder writable and run again."
            ) from None


def _damaged(path: Path, number: int, reason: str) -> StoreError:
    return StoreError(
        f"{path}: line {number} {reason}. The file was changed or damaged; "
        "restore it from a copy, or start a new run folder (which spends new budget)."
    )


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _parse(line: bytes) -> tuple[dict[str, Any], str] | None:
    try:
        entry = json.loads(line)
        body = {key: entry[key] for key in ("releases", "previous")}
        return (body, entry["sha256"]) if entry["sha256"] == _checksum(body) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
