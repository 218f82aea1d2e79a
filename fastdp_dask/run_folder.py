"""The folder of one run: its plan, its releases and its model; a restarted run continues there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

from fastdp_dask.durable import local_path, sync_folder, write_json
from fastdp_dask.errors import ArgumentError, StoreError
from fastdp_dask.file_lock import FileLock, LockBusy
from fastdp_dask.releases import ReleaseLog


class RunFolder:
    """`plan.json`, `releases.jsonl` and `model.json` under one path, mode 0700.

    Parameters
    ----------
    path : path-like
        Holds values released to the curator: protect it like the data.  Made and closed to others by `locked`;
        whoever only reads changes nothing there, and needs no permission to write.

    Raises
    ------
    ArgumentError
        If it is no path, empty, or a URL.
    StoreError
        If a file in it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = local_path("run_dir", path)
        self._lock: FileLock | None = None

    def _make(self) -> None:
        """Create the folder, or close to others one that is empty or a run's; another one is left as it is."""
        refuse_foreign(self.path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if stat.S_IMODE(self.path.stat().st_mode) != 0o700:
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise _unwritable(self.path, error) from None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other run out of this folder.

        A second run gets an error at once, and the stored model once the first has ended.  The lock of a killed run is
        taken over: at once on the same machine, elsewhere when its heartbeat has stood still for 40 s.

        Raises
        ------
        ArgumentError
            If the folder holds something else: see `refuse_foreign`.
        StoreError
            If a live run has the folder, or it cannot be written.
        """
        self._make()
        with contextlib.ExitStack() as held:
            try:
                self._lock = held.enter_context(FileLock(self.path / ".lock", wait=0))
            except LockBusy as busy:
                raise StoreError(
                    f"run_dir must be used by one run at a time, got {self.path}, {busy}. Wait for it to end and run "
                    "again to get its model, or choose a new folder."
                ) from None
            except OSError as error:
                raise _unwritable(self.path, error) from None
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
        """Forget a plan under which nothing was paid or released, unless the folder has passed to another run."""
        if not self._released() and (self._lock is None or self._lock.held):
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

    def releases(self, pay: Callable[[], object] = lambda: None) -> ReleaseLog:
        """The releases of this run, replayed from the file if it exists; they belong to this plan alone."""
        return ReleaseLog(
            self.path / "releases.jsonl", root=_digest(self.plan() or {}),
            allowed=lambda: self._lock is None or self._lock.held, pay=pay,
        )  # fmt: skip

    def released(self) -> ReleaseLog:
        """The releases of a finished run, for whoever only reads them: all are there, and the file is left as it is.

        Raises
        ------
        StoreError
            If the file is missing, was changed or ends within a line: a finished run has written the last one whole.
        """
        return ReleaseLog(self.path / "releases.jsonl", root=_digest(self.plan() or {}), finished=True)

    def model(self) -> dict[str, Any] | None:
        """The finished model, or None."""
        model = self._read("model.json")
        if model is not None and (model.pop("sha256", None) != _digest(model) or not _is_model(model)):
            raise _damaged(self.path / "model.json")
        return model

    def finish(self, model: dict[str, Any]) -> None:
        """Write the finished model."""
        self._write("model.json", {**model, "sha256": _digest(model)})

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        try:
            content = json.loads(path.read_text())
            _digest(content)  # it can be written again: brackets in brackets have their limit there too
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            raise StoreError(
                f"{path} cannot be read ({error.strerror}). Change the permissions and run again."
            ) from None
        except (ValueError, RecursionError, OSError):  # OSError: a folder of that name, a disk that fails
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


_LARGEST = sys.float_info.max
_OF_A_RUN = ("plan.json", "model.json", "releases.jsonl", "job")


def refuse_foreign(run_dir: str | os.PathLike[str]) -> None:
    """Refuse a folder that is not a run's: closing it to others would take it from whoever uses it.

    A run folder holds `plan.json`, `releases.jsonl`, `model.json` or `job`; one that is empty but for a lock, as a
    killed run leaves it, may become one.  What is not there, or is no folder, is not judged here.

    Raises
    ------
    ArgumentError
        If the folder holds other files alone.
    StoreError
        If nobody may see what it holds.
    """
    path = local_path("run_dir", run_dir)
    try:
        found = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unwritable(path, error) from None
    if any(name in _OF_A_RUN for name in found) or all(name.startswith(".lock") for name in found):
        return
    raise ArgumentError(
        f"run_dir must be new, empty or a run folder, got {path}, which holds other files. Choose a new "
        "folder, or one inside of it."
    )


def _is_model(document: dict[str, Any]) -> bool:
    """Whether `document` has the form of a `model.json`: numbers where numbers belong, of one width."""
    coef, names, spent = document.get("coef"), document.get("feature_names"), document.get("privacy_spent")
    if not isinstance(coef, list) or not coef or not isinstance(spent, dict):
        return False
    several = isinstance(coef[0], list)
    rows, ends = (coef, document.get("intercept")) if several else ([coef], [document.get("intercept")])
    width = len(rows[0])
    return (
        all(_are_numbers(row) and len(row) == width for row in rows)
        and _are_numbers(ends)
        and len(ends) == len(rows)
        and (names is None or (isinstance(names, list) and [type(name) for name in names] == [str] * width))
        and _are_numbers([spent.get("epsilon"), spent.get("delta"), document.get("n_iter")])
        and isinstance(document.get("released"), dict)
        and isinstance(document.get("intervals"), dict | None)
        and all(isinstance(document.get(name), str) for name in ("solver", "preset"))
    )


def _are_numbers(values: Any) -> TypeGuard[list[float]]:
    """Whether it is a list of numbers, none of them a whole one beyond the range of a float."""
    return isinstance(values, list) and all(
        type(value) is float or (type(value) is int and abs(value) <= _LARGEST) for value in values
    )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(f"run_dir must be a folder that can be written, got {path} ({error.strerror}). Choose another.")


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"{path} must be a JSON object as it was written, got a damaged file. Restore it from a copy or choose a new "
        "folder."
    )
