"""The lock file: exclusion, takeover from the dead, patience with the living."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fastdp_dask import file_lock
from fastdp_dask.file_lock import FileLock, LockBusy


def write_owner(path: Path, **changed: Any) -> None:
    """A lock file as another process would have left it."""
    owner = json.loads(file_lock._identity("f" * 32))
    path.write_text(json.dumps({**owner, **changed}))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats and deaths within a second."""
    monkeypatch.setattr(file_lock, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(file_lock, "STALE_SECONDS", 0.4)


@pytest.mark.parametrize("links", [True, False])
def test_one_holds_and_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:

        def no_link(*_: Any) -> None:
            raise OSError(errno.ENOTSUP, "no hard links here")

        monkeypatch.setattr(os, "link", no_link)
    inside, most, turns = [0], [0], [0]

    def enter() -> None:
        for _ in range(10):
            with FileLock(tmp_path / "lock", wait=60):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                turns[0] += 1
                time.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=enter) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (turns[0], most[0]) == (60, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_live_holder_is_named_and_not_disturbed(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock", wait=0) as first:
        for wait in (0.0, 0.2):
            start = time.monotonic()
            second = FileLock(tmp_path / "lock", wait=wait)
            with pytest.raises(LockBusy, match=f"locked by process {os.getpid()} on "), second:
                pass
            assert wait <= time.monotonic() - start < wait + 5
        assert first.held
    assert not first.held


@pytest.mark.parametrize("owner", [{"pid": 2**22 + 1}, {"started": "1"}])
def test_the_dead_of_this_machine_are_followed_at_once(tmp_path: Path, owner: dict[str, Any]) -> None:
    """No process of that number, or one that was started at another time."""
    write_owner(tmp_path / "lock", **owner)
    write_owner(tmp_path / "lock.abcdef", **owner)  # died before linking
    start = time.monotonic()
    with FileLock(tmp_path / "lock", wait=0) as lock:
        assert lock.held
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert time.monotonic() - start < file_lock.STALE_SECONDS / 4
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_is_followed_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, time; from fastdp_dask.file_lock import FileLock\n"
        "with FileLock(sys.argv[1], wait=0): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(LockBusy, match=f"process {holder.pid}"), FileLock(tmp_path / "lock", wait=0):
        pass
    holder.send_signal(signal.SIGSTOP)  # it stands still but lives: nobody may take its place
    with pytest.raises(LockBusy), FileLock(tmp_path / "lock", wait=0.3):
        pass
    holder.kill()
    with FileLock(tmp_path / "lock", wait=10):
        pass
    holder.wait()
    holder.stdout.close()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"token": 1}'])
def test_the_dead_elsewhere_are_followed_when_their_heart_stands_still(tmp_path: Path, content: str | None) -> None:
    """On another machine, or never named."""
    if content is None:
        write_owner(tmp_path / "lock", machine="another boot", host="elsewhere", pid=1)
    else:
        (tmp_path / "lock").write_text(content)
    os.utime(tmp_path / "lock", (1, 1))  # clocks need not agree: only a change counts
    start = time.monotonic()
    with FileLock(tmp_path / "lock", wait=0) as lock:
        assert time.monotonic() - start >= 0.4
        assert lock.held


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_the_living_elsewhere_are_not_followed(tmp_path: Path, wait: float) -> None:
    write_owner(tmp_path / "lock", machine="another boot", host="elsewhere", pid=1)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.05):
            os.utime(tmp_path / "lock")

    heart = threading.Thread(target=beat)
    heart.start()
    try:
        with pytest.raises(LockBusy, match="process 1 on elsewhere"), FileLock(tmp_path / "lock", wait=wait):
            pass
    finally:
        done.set()
        heart.join()


@pytest.mark.usefixtures("impatient")
def test_a_holder_s_heart_beats_and_it_knows_when_it_was_taken_for_dead(tmp_path: Path) -> None:
    with FileLock(tmp_path / "lock", wait=0) as lock:
        os.utime(tmp_path / "lock", (1, 1))
        time.sleep(0.5)
        assert (tmp_path / "lock").stat().st_mtime > 1
        write_owner(tmp_path / "lock", token="another")
        assert not lock.held
        os.utime(tmp_path / "lock", (1, 1))
        time.sleep(0.2)
        assert (tmp_path / "lock").stat().st_mtime == 1  # another's heart is not ours to beat
    assert json.loads((tmp_path / "lock").read_text())["token"] == "another"  # nor its lock ours to free


def test_of_many_waiters_one_follows_a_dead_holder(tmp_path: Path) -> None:
    inside: list[int] = []
    together: list[int] = []

    def enter() -> None:
        with FileLock(tmp_path / "lock", wait=60):
            inside.append(1)
            together.append(len(inside))
            time.sleep(0.002)
            inside.pop()

    for _ in range(5):
        write_owner(tmp_path / "lock", pid=2**22 + 1, token=os.urandom(16).hex())
        threads = [threading.Thread(target=enter) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert together == [1] * 40
    assert list(tmp_path.iterdir()) == []


def test_two_that_found_the_same_holder_dead_do_not_both_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second tries at the moment when the first has looked for the last time and is about to replace the file."""
    write_owner(tmp_path / "lock", pid=2**22 + 1)
    replace = os.replace
    refused: list[bool] = []

    def interrupted(*args: Any) -> None:
        if not refused:
            refused.append(False)
            with pytest.raises(LockBusy), FileLock(tmp_path / "lock", wait=0):
                pass
            refused[0] = True
        replace(*args)

    monkeypatch.setattr(os, "replace", interrupted)
    with FileLock(tmp_path / "lock", wait=0) as lock:
        assert lock.held
    assert refused == [True]


@pytest.mark.usefixtures("impatient")
def test_who_dies_while_taking_over_is_followed_too(tmp_path: Path) -> None:
    write_owner(tmp_path / "lock", pid=2**22 + 1)
    write_owner(tmp_path / ("lock." + "f" * 12), pid=2**22 + 1, token="e" * 32)
    with FileLock(tmp_path / "lock", wait=0):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), FileLock(tmp_path / "no" / "lock", wait=0):
        pass
