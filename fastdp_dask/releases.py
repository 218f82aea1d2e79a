"""Every private draw happens once: it is written down before it is used and replayed after a restart.

One line of `releases.jsonl` for each release, appended and fsynced, with a checksum.  A line that a crash cut short
is dropped: its value was never used, and it is drawn anew under the charge already paid.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.errors import StoreError
from fastdp_dask.rng import NoiseSource


class ReleaseLog:
    """Named releases, in memory or in the file `path` (mode 0600).

    Parameters
    ----------
    path : path-like, optional
        None keeps the releases in memory only.

    Raises
    ------
    StoreError
        If the file holds a line, other than a last one cut short, that fails its checksum.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._values: dict[str, np.ndarray] = {}
        if self._path is not None and self._path.exists():
            self._replay(self._path)

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

        The value is written down before it is returned; the stream is the one that `noise` keeps for this name.
        """
        if name not in self._values:
            value = np.array(draw(noise.stream(name), *args), dtype=np.float64)
            if self._path is not None:
                self._append(self._path, name, value)
            self._values[name] = value
        return self.stored(name)

    def stored(self, name: str) -> np.ndarray:
        """A release made before."""
        return self._values[name].copy()

    def _append(self, path: Path, name: str, value: np.ndarray) -> None:
        body = {"name": name, "shape": list(value.shape), "hex": value.astype("<f8").tobytes().hex()}
        text = json.dumps({**body, "sha256": _checksum(body)}) + "\n"
        new = not path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            view = memoryview(text.encode())
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:  # a power cut must not lose the name of a file whose release is used
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _replay(self, path: Path) -> None:
        raw = path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        if len(whole) < len(raw):
            with path.open("r+b") as stream:  # a line cut short by a crash was never used
                stream.truncate(len(whole))
                os.fsync(stream.fileno())
        for number, line in enumerate(whole.splitlines(), start=1):
            entry = _parse(line)
            if entry is None:
                raise StoreError(
                    f"{path}: line {number} fails its checksum. The file was changed or damaged; "
                    "restore it from a copy, or start a new run folder (which spends new budget)."
                )
            name, value = entry
            self._values[name] = value


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _parse(line: bytes) -> tuple[str, np.ndarray] | None:
    try:
        entry = json.loads(line)
        body = {key: entry[key] for key in ("name", "shape", "hex")}
        if entry["sha256"] != _checksum(body):
            return None
        value = np.frombuffer(bytes.fromhex(body["hex"]), dtype="<f8").reshape(body["shape"])
        return str(body["name"]), value.astype(np.float64)
    except (ValueError, KeyError, TypeError):
        return None
