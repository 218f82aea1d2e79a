"""Measured constants between runs: one small JSON file in the user's cache folder.

The file is a matter of speed and of a better choice.  Missing, damaged, of another machine or in a folder that cannot
be written, it is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fastdp_dask.costs.machine import DEFAULT, Machine, believed

_PACKAGES = ("fastdp-dask", "numpy", "numba", "dask", "zarr")
_LARGEST = 1 << 20  # bytes of a file that is read at all


def folder() -> Path | None:
    """`$FASTDP_CACHE_DIR`, or `fastdp-dask` in `$XDG_CACHE_HOME` or where the system keeps caches.  None: no home."""
    own = os.environ.get("FASTDP_CACHE_DIR")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and Path(shared).is_absolute():  # a relative one is to be ignored: XDG base directory specification
        return Path(shared) / "fastdp-dask"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "fastdp-dask"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fastdp-dask" / "Cache"
    return home / ".cache" / "fastdp-dask"


def key() -> str:
    """What the constants hold for: processor, cores and versions of what computes."""
    versions = []
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} unknown")
    machine = [platform.node(), platform.machine(), platform.processor(), str(os.cpu_count()), sys.implementation.name]
    python = f"python {sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256("\n".join([*machine, python, *versions]).encode()).hexdigest()


def load() -> Machine:
    """The constants measured on this machine with these versions, else the shipped ones; never fails."""
    machine = believed(_entries().get(key()))
    return DEFAULT if machine is None else machine


def keep(machine: Machine) -> Path | None:
    """Write the constants down beside those of other machines; the file, or None where it cannot be written."""
    place = folder()
    if place is None:
        return None
    entries = {**_entries(), key(): {name: v for name, v in machine.to_dict().items() if name != "measured"}}
    temporary = None
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, prefix=".machine-")
        with os.fdopen(handle, "w") as stream:
            json.dump(entries, stream, indent=1)
        os.replace(temporary, place / "machine.json")
    except OSError:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        return None
    return place / "machine.json"


def _entries() -> dict[str, Any]:
    place = folder()
    if place is None:
        return {}
    try:
        with (place / "machine.json").open("rb") as stream:
            content = json.loads(stream.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
