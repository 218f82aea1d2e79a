"""The folder of one run: its plan, its releases and its model; a restarted run continues there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.releases import ReleaseLog


class RunFolder:
    """`plan.json`, `releases.jsonl` and `model.json` under one path, mode 0700.

    Parameters
    ----------
    path : path-like
        Created if absent.  Holds values released to the curator: protect it like the data.

    Raises
    ------
    StoreError
        If the path is not a folder that can be written, or a file in it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"run_dir must be a folder that can be written, got {self.path} ({error.strerror}). Choose another."
            ) from None
        os.chmod(self.path, 0o700)

    def begin(self, plan: dict[str, Any], drawn: tuple[str, ...] = ("public_seed",)) -> dict[str, Any]:
        """Write `plan` down, or return the one that is there if it differs in nothing but the fields `drawn`.

        Those were drawn afresh by the caller; of an earlier run the values on file stand.

        Raises
        ------
        ArgumentError
            If another plan is there: other data, bounds, budget or options.
        """
        path = self.path / "plan.json"
        stored = self._read(path)
        if stored is None:
            write_json(path, plan)
            return plan
        current = json.loads(json.dumps(plan))
        changed = sorted(k for k in stored.keys() | current.keys() if stored.get(k) != current.get(k))
        changed = [k for k in changed if k not in drawn]
        if changed:
            raise ArgumentError(
                f"run_dir must be empty or hold the same plan, got {self.path} with another {', '.join(changed)}. "
                "Choose a new folder for a new fit."
            )
        return stored

    def releases(self) -> ReleaseLog:
        """The releases of this run, replayed from the file if it exists."""
        return ReleaseLog(self.path / "releases.jsonl")

    def model(self) -> dict[str, Any] | None:
        """The finished model, or None."""
        return self._read(self.path / "model.json")

    def finish(self, model: dict[str, Any]) -> None:
        """Write the finished model."""
        write_json(self.path / "model.json", model)

    def _read(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text())
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise StoreError(
                f"{path} must be a JSON object, got a damaged file. Restore it from a copy or choose a new folder."
            )
        return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content` so that a crash leaves the old file or the new one, never a part."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(content, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
