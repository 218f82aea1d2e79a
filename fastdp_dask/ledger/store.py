"""Safe access to a ledger file: one process at a time, each charge durable before it is reported."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastdp_dask.durable import sync_folder
from fastdp_dask.errors import LedgerError
from fastdp_dask.file_lock import FileLock, LockBusy
from fastdp_dask.ledger.amounts import ExactAmount
from fastdp_dask.ledger.layout import APPLICATION_ID, LAYOUT, State, append, damaged, read_state, write_new
from fastdp_dask.ledger.records import Charge

if sys.platform != "win32":
    import fcntl

_MAGIC = b"SQLite format 3\x00"
_NO_FCNTL = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}


class Transaction:
    """The checked state of a locked ledger, and the right to append to it."""

    def __init__(self, connection: sqlite3.Connection, state: State) -> None:
        self._connection = connection
        self.state = state
        self.appended = False

    def append(self, charge: Charge) -> Charge:
        """Add one charge; it stands once the transaction is left without an error."""
        self.appended = True
        return append(self._connection, self.state, charge)


@dataclass(frozen=True)
class LedgerStore:
    """The file at `path`; holds nothing open, so that copies and processes may share it.

    Parameters
    ----------
    path : Path
    wait : float
        Seconds to wait for other processes.
    own_lock_only : bool, optional
        Leave out SQLite's own locks.  None: exactly where the file system refuses fcntl.
    """

    path: Path
    wait: float = 120.0
    own_lock_only: bool | None = None

    def create(self, budget: ExactAmount) -> None:
        """Write a new ledger; it appears under its name complete or not at all."""
        part = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.new")
        with self._errors_named(), self._lock():
            if self.path.exists():
                raise LedgerError(
                    f"ledger must be a new file, got {self.path}, which exists. A ledger is never replaced: use it, "
                    "or choose another name for other data."
                )
            try:
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                with contextlib.closing(self._connect(part, "rw")) as connection:
                    write_new(connection, budget)
                os.rename(part, self.path)
                sync_folder(self.path.parent)
            finally:
                part.unlink(missing_ok=True)

    def read(self) -> State:
        """Everything, checked."""
        with self._errors_named():
            self._check_kind()
            try:
                with self._lock(), self._opened("rw") as connection:
                    return read_state(connection, self.path)
            except OSError as error:
                if error.errno not in _READ_ONLY:
                    raise
            with self._opened("ro") as connection:  # no lock file on a read-only medium: SQLite's own lock alone
                return read_state(connection, self.path)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One change: committed durably on leaving, or not at all."""
        with self._errors_named():
            self._check_kind()
            with self._lock() as lock, self._opened("rw") as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    change = Transaction(connection, read_state(connection, self.path))
                    yield change
                    if change.appended and not lock.held:
                        raise LedgerError(
                            f"ledger {self.path} was taken over by another process while this one stood still: "
                            "nothing was charged. Run again."
                        )
                    connection.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    def _lock(self) -> FileLock:
        return FileLock(self._lock_path, wait=self.wait)

    def _fcntl_is_refused(self) -> bool:
        """Ask with the lock file, never the ledger: closing any handle of a file drops all its fcntl locks."""
        if sys.platform == "win32":  # SQLite has other locks there
            return False
        try:
            with self._lock_path.open("rb") as stream:
                fcntl.lockf(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno in _NO_FCNTL
        return False

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except LedgerError:
            raise
        except LockBusy as busy:
            raise LedgerError(
                f"ledger {self.path} must be free within {self.wait:g} s, got {busy}. Nothing was charged: wait for "
                "that process and run again."
            ) from None
        except (sqlite3.OperationalError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise LedgerError(
                f"ledger {self.path} cannot be used ({reason}): nothing was charged by this call. Check permissions, "
                "free space and other programs that have it open, then run again."
            ) from None
        except UnicodeDecodeError:  # SQLite quotes a damaged schema
            raise damaged(self.path, "its schema cannot be read") from None
        except sqlite3.Error as error:
            raise damaged(self.path, str(error)) from None

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        connection = self._connect(self.path, mode)
        try:
            found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
            if found != [APPLICATION_ID, LAYOUT]:
                raise LedgerError(
                    f"ledger {self.path} must have layout {LAYOUT} of this package, got application {found[0]}, layout "
                    f"{found[1]}. Check the path, or use the version that wrote it."
                )
            damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damage != "ok":
                raise damaged(self.path, "its pages do not fit together")
            yield connection
        finally:
            connection.close()

    def _connect(self, path: Path, mode: str) -> sqlite3.Connection:
        bare = self._fcntl_is_refused() if self.own_lock_only is None else self.own_lock_only
        uri = f"{path.as_uri()}?mode={mode}" + ("&nolock=1" if bare and mode == "rw" else "")
        connection = sqlite3.connect(uri, uri=True, timeout=self.wait, isolation_level=None)
        try:
            # No write-ahead log: it needs memory shared by all readers, which a network file system has not.
            # EXTRA is FULL plus a sync of the folder after the journal is gone: without it a power cut could bring the
            # journal back and undo a charge whose release is out.
            for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "synchronous=EXTRA"):
                connection.execute(f"PRAGMA {pragma}")
            if mode == "rw" and connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0] != "delete":
                raise LedgerError(
                    f"ledger {path} is in use by a program that keeps a write-ahead log. Close that program and retry."
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_kind(self) -> None:
        try:
            with self.path.open("rb") as stream:
                start = stream.read(len(_MAGIC))
        except FileNotFoundError:
            raise LedgerError(
                f"ledger {self.path} does not exist. Create it once for each data set: fastdp ledger init, or "
                "Ledger.create; if it was moved, give its new path."
            ) from None
        if start != _MAGIC:
            raise damaged(self.path, "it is empty" if not start else "it is not an SQLite file")
