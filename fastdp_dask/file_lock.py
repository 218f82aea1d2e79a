"""A lock that holds where flock and fcntl mean nothing: one file that only one process can create.

NFS, Lustre and FUSE mounts may accept a lock call and exclude nobody, but `link` fails on every one of them if the
name exists.  The file names its owner, so that the lock of a dead one can be taken over.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import logging
import os
import socket
import threading
import time
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from fastdp_dask.errors import FastDPError

_logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 40.0  # eight heartbeats missed; at least the 30 s for which NFS clients may cache what they saw
_LONGEST_POLL = 0.05
_TELL_AFTER_SECONDS = 2.0
_LITTER_SECONDS = 86400.0  # for files whose owner cannot be asked; far beyond any difference of clocks
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LockBusy(FastDPError):
    """A live process holds the lock; `holder` says which, in public words."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"locked by {holder}")
        self.holder = holder


@dataclass(frozen=True)
class _Sight:
    """What was seen of a lock file at one moment."""

    token: str
    machine: str
    host: str
    pid: int
    started: str
    beat: int  # modification time in ns: the heartbeat

    @property
    def holder(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "an unnamed process"


class FileLock:
    """Exclusion among processes and threads on any file system, by a file at `path`.

    Parameters
    ----------
    path : Path
        The lock file; it exists exactly while somebody holds the lock or died holding it.
    wait : float
        Seconds to wait for a live holder; 0 gives up as soon as the holder shows a sign of life.

    Raises
    ------
    LockBusy
        If a live process still holds the lock after `wait` seconds.
    OSError
        If the folder cannot be written.

    Notes
    -----
    An owner on the same machine (host name, boot, process namespace) is dead if no process has its number and start
    time: its lock is taken over at once.  Any other owner is dead if its heartbeat stands still for
    `STALE_SECONDS` on the waiter's own clock, so that clocks need not agree.  At most one waiter takes over: it
    must hold the lock named after the dead owner's token before it replaces the file.  Whoever has to wait for longer
    than two seconds logs a warning with the longest wait ahead.

    A holder that was suspended for longer than that may find its lock gone: check `held` before what must not be
    done twice.
    """

    def __init__(self, path: str | os.PathLike[str], *, wait: float) -> None:
        self._path = Path(path)
        self._wait = wait
        self._token = ""
        self._pid = 0
        self._done = threading.Event()
        self._has_beaten = False  # whether a heartbeat of an owner elsewhere was seen to move

    @property
    def held(self) -> bool:
        """Whether the file still names this holder."""
        seen = _look(self._path)
        return bool(self._token) and seen is not None and seen.token == self._token

    def __enter__(self) -> FileLock:
        began = time.monotonic()
        give_up, told = began + self._wait, False
        watched: dict[Path, tuple[str, int, float]] = {}
        pause = 0.0005
        while not self._try(self._path, watched):
            seen = _look(self._path)
            now = time.monotonic()
            alive = seen is not None and (_on_this_machine(seen) or self._has_beaten)
            if now >= give_up and (alive or now >= give_up + STALE_SECONDS + 2 * HEARTBEAT_SECONDS):
                raise LockBusy(seen.holder if seen else "an unnamed process")
            if not told and now >= began + _TELL_AFTER_SECONDS:
                told = True
                longest = give_up + STALE_SECONDS + 2 * HEARTBEAT_SECONDS - now
                _logger.warning(
                    "waiting for the lock %s, held by %s, for at most %.0f s", self._path,
                    seen.holder if seen else "an unnamed process", give_up - now if alive else longest,
                )  # fmt: skip
            # Spread out waiters that were woken by the same release.
            time.sleep(pause * (0.5 + uuid.uuid4().int % 1024 / 1024))
            pause = min(2 * pause, _LONGEST_POLL)
        _sweep(self._path)
        self._pid = os.getpid()
        self._done.clear()
        threading.Thread(target=self._beat, name="file-lock-heartbeat", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._pid == os.getpid() and self.held:  # a forked child must not free its parent's lock
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        self._token = ""

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):
                if self.held:
                    os.utime(self._path)

    def _try(self, path: Path, watched: dict[Path, tuple[str, int, float]]) -> bool:
        """Create `path` with a token of ours, or replace it if its owner is dead."""
        token = uuid.uuid4().hex
        if _create(path, token):
            self._token = token
            return True
        seen = _look(path)
        if seen is None or not self._dead(path, seen, watched):
            return False
        # Sole right to replace this owner's file; whoever dies holding it is found dead in the same way.
        right = path.with_name(f"{path.name}.{seen.token[:12] or 'unnamed'}")
        if not self._try(right, watched):
            return False
        taken = False
        try:
            again = _look(path)
            if again is not None and again.token == seen.token and (seen.token or again.beat == seen.beat):
                os.replace(_write_own(path, token), path)
                taken = True
        finally:
            with contextlib.suppress(OSError):
                os.unlink(right)
        self._token = token if taken else ""
        return taken

    def _dead(self, path: Path, seen: _Sight, watched: dict[Path, tuple[str, int, float]]) -> bool:
        if _on_this_machine(seen):
            return not _lives(seen)
        now = time.monotonic()
        before = watched.get(path)
        if before is None or before[:2] != (seen.token, seen.beat):
            self._has_beaten = self._has_beaten or (before is not None and before[0] == seen.token)
            watched[path] = (seen.token, seen.beat, now)
            return False
        return now - before[2] > STALE_SECONDS


def _create(path: Path, token: str) -> bool:
    """Create `path` with its content in one step; False if it exists."""
    own = _write_own(path, token)
    try:
        os.link(own, path)
        return True
    except FileExistsError:
        # NFS may answer so when its first answer was lost: two names mean that the link was made.
        return os.stat(own).st_nlink == 2
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(own)
    try:  # no hard links here; a crash before the content is written leaves an unnamed owner, judged by its heartbeat
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(_identity(token))
    return True


def _write_own(path: Path, token: str) -> Path:
    own = path.with_name(f"{path.name}.{token}")
    descriptor = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(_identity(token))
    return own


def _sweep(path: Path) -> None:
    """Remove what the dead left between writing their name and linking it."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.*"):
        seen = _look(left)
        if seen is None:
            continue
        dead = _on_this_machine(seen) and not _lives(seen)
        if dead or time.time() - seen.beat / 1e9 > _LITTER_SECONDS:
            with contextlib.suppress(OSError):
                os.unlink(left)


def _identity(token: str) -> bytes:
    pid = os.getpid()
    return json.dumps(
        {"token": token, "machine": _machine(), "host": socket.gethostname(), "pid": pid, "started": _started(pid)}
    ).encode()


def _look(path: Path) -> _Sight | None:
    """What stands in the lock file, or None if there is none."""
    try:
        with path.open("rb") as stream:  # opening makes an NFS client ask the server
            beat = os.fstat(stream.fileno()).st_mtime_ns
            text = stream.read(4096)
    except FileNotFoundError:
        return None
    try:
        found = json.loads(text)
        return _Sight(
            str(found["token"]), str(found["machine"]), str(found["host"]), int(found["pid"]),
            str(found["started"]), beat,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return _Sight("", "", "", 0, "", beat)


@lru_cache(maxsize=1)
def _machine() -> str:
    """Equal for two processes exactly if each can ask the kernel about the other; empty if that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _on_this_machine(seen: _Sight) -> bool:
    return seen.machine != "" and seen.machine == _machine()


def _lives(seen: _Sight) -> bool:
    return _started(seen.pid) == seen.started


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot; empty if there is none, or if it is dead and unburied."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
