"""The folder of one run: its plan, its releases and its model; a restarted run continues there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastdp_dask.durable import local_path, sync_folder, write_json
from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.file_lock import FileLock, LockBusy
from fastdp_dask.releases import ReleaseLog


class RunFolder:
    """`plan.json`, `releases.jsonl` and `model.json` under one path, mode 0700.

    Parameters
    ----------
    path : path-like
        Created if absent.  Holds values released to the curator: protect it like the data.

    Raises
    ------
    ArgumentError
        If it is no path, or a URL.
    StoreError
        If the path is not a folder that can be written, or a file in it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path("run_dir", path)
        self._lock: FileLock | None = None
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_IMODE(self.path.stat().st_mode) != 0o700:
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise StoreError(
                f"run_dir must be a folder that can be written, got {self.path} ({error.strerror}). Choose another."
            ) from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run out of this folder.

        A second run gets an error at once, and the stored model once the first has ended.  The lock of a killed run is
        taken over: at once on the same machine, elsewhere when its heartbeat has stood still for 40 s.

        Raises
        ------
        StoreError
            If a live run has the folder, or it cannot be written.
        """
        with contextlib.ExitStack() as held:
            try:
                self._lock = held.enter_context(FileLock(self.path / ".lock", wait=0))
            except LockBusy as busy:
                raise StoreError(
                    f"run_dir must be used by one run at a time, got {self.path}, {busy}. Wait for it to end and run "
                    "again to get its model, or choose a new folder."
                ) from None
            except OSError as error:
                raise StoreError(
                    f"run_dir must be a folder that can be written, got {self.path} ({error.strerror}). Choose another."
                ) from None
            yield

    def begin(self, plan: dict[str, Any], drawn: tuple[str, ...] = ("public_seed",)) -> dict[str, Any]:
        """Write `plan` down, or return the one that is there if it differs in nothing but the fields `drawn`.

        Those were drawn afresh by the caller; of an earlier run the values on file stand.

        Raises
        ------
        ArgumentError
            If another plan is there: other data, bounds, budget or options.
        StoreError
            If there are releases without a plan.
        """
        stored = self.plan()
        if stored is None:
            if self._released() or (self.path / "model.json").exists():
                raise StoreError(
                    f"run_dir must hold a plan.json beside its releases, got {self.path} without one. Restore it from "
                    "a copy or choose a new folder."
                )
            self._begin_releases()
            self._write("plan.json", plan)
            return plan
        if not (self.path / "releases.jsonl").exists() and not (self.path / "model.json").exists():
            raise StoreError(
                f"run_dir must hold releases.jsonl beside its plan.json, got {self.path} without one. Restore it: what "
                "was paid for must not be drawn again."
            )
        current = json.loads(json.dumps(plan))
        changed = sorted(k for k in stored.keys() | current.keys() if stored.get(k) != current.get(k))
        changed = [k for k in changed if k not in drawn]
        if changed:
            raise ArgumentError(
                f"run_dir must be empty or hold the same plan, got {self.path} with another {', '.join(changed)}. "
                "Choose a new folder for a new fit."
            )
        sync_folder(self.path)  # a run that was killed may have left the name of the file unsynced
        return stored

    def abandon(self) -> None:
        """Forget a plan under which nothing was paid or released."""
        if not self._released():
            (self.path / "plan.json").unlink(missing_ok=True)
            (self.path / "releases.jsonl").unlink(missing_ok=True)

    def _released(self) -> bool:
        path = self.path / "releases.jsonl"
        return path.exists() and path.stat().st_size > 0

    def _begin_releases(self) -> None:
        # Before the plan, so that a plan without this file is one whose releases were taken away.
        path = self.path / "releases.jsonl"
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            sync_folder(self.path)
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written ({error.strerror}). Make the folder writable and run again."
            ) from None

    def plan(self) -> dict[str, Any] | None:
        """The plan that was begun here, or None."""
        return self._read("plan.json")

    def releases(self) -> ReleaseLog:
        """The releases of this run, replayed from the file if it exists; they belong to this plan alone."""
        return ReleaseLog(
            self.path / "releases.jsonl", root=_digest(self.plan() or {}),
            allowed=lambda: self._lock is None or self._lock.held,
        )  # fmt: skip

    def model(self) -> dict[str, Any] | None:
        """The finished model, or None."""
        model = self._read("model.json")
        if model is not None and model.pop("sha256", None) != _digest(model):
            raise _damaged(self.path / "model.json")
        return model

    def finish(self, model: dict[str, Any]) -> None:
        """Write the finished model."""
        self._write("model.json", {**model, "sha256": _digest(model)})

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text())
        except (ValueError, OSError):  # OSError: a folder of that name, a disk that fails
            content = None
        if not isinstance(content, dict):
            raise _damaged(path)
        return content

    def _write(self, name: str, content: dict[str, Any]) -> None:
        try:
            write_json(self.path / name, content)
        except OSError as error:
            raise StoreError(
                f"{self.path / name} cannot be written ({error.strerror}). Free space or change the permissions, then "
                "run again: a fit continues from what is on disk."
            ) from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"{path} must be a JSON object as it was written, got a damaged file. Restore it from a copy or choose a new "
        "folder."
    )
