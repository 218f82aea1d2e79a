"""A ledger that is damaged says so; it is never read as one with less spent."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastdp_dask.errors import LedgerError
from fastdp_dask.ledger import Ledger
from fastdp_dask.ledger import store as ledger_store
from fastdp_dask.ledger.layout import LAYOUT
from fastdp_dask.privacy import GaussianEvent

COUNT = 40  # enough for several pages


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Any]:
    """The bytes of a ledger with charges, and its state."""
    ledger = Ledger.create(tmp_path_factory.mktemp("intact") / "ledger.db", epsilon=10, delta=1e-4)
    for _ in range(COUNT):
        ledger.charge(0.1, 1e-7, mechanism="test", events=[GaussianEvent(noise_multiplier=80.0)])
    return ledger.path.read_bytes(), ledger.state()


@contextlib.contextmanager
def edited(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    for trigger in ("charges_stay", "charges_stand", "budget_stays", "budget_stands"):
        connection.execute(f"DROP TRIGGER {trigger}")
    yield connection
    connection.commit()
    connection.close()


def refused(path: Path) -> str:
    """What every way in says to the file at `path`, which stays as it is."""
    before = path.read_bytes() if path.exists() else None
    messages = set()
    for enter in (lambda: Ledger(path), lambda: ledger_store.LedgerStore(path).transaction().__enter__()):
        with pytest.raises(LedgerError) as caught:
            enter()
        messages.add(str(caught.value))
    assert (path.read_bytes() if path.exists() else None) == before
    (message,) = messages
    return message


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "damaged: it is empty"), (b"\0" * 8192, "it is not an SQLite file"), (b"number\n1\n", "not an SQLite"),
     (b"SQLite format 3\0", "damaged"), (b"SQLite format 3\0" + b"\0" * 5000, "damaged")],
)  # fmt: skip
def test_files_of_another_kind(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "ledger.db").write_bytes(content)
    assert reason in refused(tmp_path / "ledger.db")


def test_no_file_is_no_ledger_and_none_is_made(tmp_path: Path) -> None:
    assert "does not exist. Create it once for each data set" in refused(tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").mkdir()
    with pytest.raises(LedgerError, match="cannot be used"):
        Ledger(tmp_path / "ledger.db")


def test_another_database_and_another_layout(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE charges (a)")
    assert "must have layout 1 of this package, got application 0" in refused(path)
    path.unlink()
    Ledger.create(path, epsilon=1, delta=0)
    with edited(path) as connection:
        connection.execute(f"PRAGMA user_version={LAYOUT + 1}")
    assert "got application 1717858353, layout 2" in refused(path)


EDITS = {
    "last charge": "DELETE FROM charges WHERE number = 40",
    "first charge": "DELETE FROM charges WHERE number = 1",
    "a charge between": "DELETE FROM charges WHERE number = 7",
    "all charges": "DELETE FROM charges",
    "cheaper": "UPDATE charges SET epsilon = '0.01' WHERE number = 7",
    "other spelling": "UPDATE charges SET epsilon = '0.10' WHERE number = 7",
    "another run": "UPDATE charges SET run_id = 'x' WHERE number = 7",
    "another event": "UPDATE charges SET events = '[]' WHERE number = 7",
    "not text": "UPDATE charges SET epsilon = x'00' WHERE number = 40",
    "renumbered": "UPDATE charges SET number = 41 WHERE number = 40",
    "swapped hash": "UPDATE charges SET hash = (SELECT hash FROM charges WHERE number = 39) WHERE number = 40",
    "larger budget": "UPDATE budget SET epsilon = '100'",
    "no budget": "DELETE FROM budget",
    "two budgets": "INSERT INTO budget SELECT * FROM budget",
    "no head": "DELETE FROM head",
    "two heads": "INSERT INTO head SELECT * FROM head",
    "head before the last": "UPDATE head SET count = 39, hash = (SELECT hash FROM charges WHERE number = 39)",
    "no table": "DROP TABLE charges",
    "another table": "ALTER TABLE charges RENAME COLUMN delta TO d",
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_noticed(tmp_path: Path, intact: tuple[bytes, Any], edit: str) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(intact[0])
    Ledger(path)
    with edited(path) as connection:
        connection.execute(EDITS[edit])
    message = refused(path)
    assert "damaged" in message or "cannot be used (no such" in message
    assert "test" not in message.replace(str(tmp_path), "")


@pytest.mark.parametrize("statement", ["DELETE FROM charges", "UPDATE charges SET epsilon = '1'", "DELETE FROM budget",
                                       "UPDATE budget SET epsilon = '99'"])  # fmt: skip
def test_the_file_itself_refuses_to_forget(tmp_path: Path, intact: tuple[bytes, Any], statement: str) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(intact[0])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
        assert connection.execute("SELECT count(*) FROM charges").fetchone() == (COUNT,)


def test_a_tail_cut_off_together_with_its_head_needs_the_hash(tmp_path: Path, intact: tuple[bytes, Any]) -> None:
    """What the chain cannot know: an older whole copy put in its place.  The documentation says so."""
    path = tmp_path / "ledger.db"
    path.write_bytes(intact[0])
    with edited(path) as connection:
        connection.execute("DELETE FROM charges WHERE number = 40")
        connection.execute("UPDATE head SET count = 39, hash = (SELECT hash FROM charges WHERE number = 39)")
    assert len(Ledger(path).charges()) == COUNT - 1


def test_a_damaged_index_is_not_written_to(tmp_path: Path, intact: tuple[bytes, Any]) -> None:
    """Pages that no reading of the charges touches."""
    path = tmp_path / "ledger.db"
    path.write_bytes(intact[0])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'").fetchone()
    damaged = bytearray(intact[0])
    damaged[(root - 1) * 4096 + 3 : (root - 1) * 4096 + 5] = b"\0\0"  # the page says that it has no cells
    path.write_bytes(damaged)
    assert "its pages do not fit together" in refused(path)


def unharmed_or_refused(path: Path, state: Any) -> bool:
    """Whether the file is refused; if not, it must say exactly what it said."""
    try:
        found = Ledger(path).state()
    except LedgerError:
        return True
    assert found == state
    return False


def test_a_file_cut_at_any_length_is_refused(tmp_path: Path, intact: tuple[bytes, Any]) -> None:
    path, (whole, state) = tmp_path / "ledger.db", intact
    page = 4096
    cuts = {*range(0, len(whole), page), *range(1, len(whole), 1021), *range(page), len(whole) - 1} - {len(whole)}
    for cut in sorted(cuts)[:: 1 if os.environ.get("CI") else 7]:
        path.write_bytes(whole[:cut])
        assert unharmed_or_refused(path, state), cut


@settings(max_examples=150)
@given(data=st.data())
def test_changed_bytes_are_noticed_or_without_effect(
    tmp_path_factory: pytest.TempPathFactory, intact: tuple[bytes, Any], data: st.DataObject
) -> None:
    whole, state = intact
    path = tmp_path_factory.mktemp("damaged") / "ledger.db"
    changed = bytearray(whole)
    start = data.draw(st.integers(0, 2**16))
    for offset, byte in enumerate(data.draw(st.binary(min_size=1, max_size=64))):
        changed[(start + offset) % len(whole)] = byte
    path.write_bytes(changed)
    unharmed_or_refused(path, state)


# -- a disk that fails ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes: as a full disk, for this process alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("free", [0, 100, 512, 4096, 8192])
def test_a_full_disk_charges_nothing_and_spoils_nothing(tmp_path: Path, intact: tuple[bytes, Any], free: int) -> None:
    path, (whole, state) = tmp_path / "ledger.db", intact
    path.write_bytes(whole)
    ledger = Ledger(path)
    big = [GaussianEvent(noise_multiplier=1000.0 + i) for i in range(400)]  # several pages
    with file_size_limit(len(whole) + free), pytest.raises(LedgerError, match="nothing was charged"):
        ledger.charge(0.5, 1e-7, mechanism="test", events=big, run_id="a")
    assert ledger.state() == state
    ledger.charge(0.5, 1e-7, mechanism="test", events=big, run_id="a")
    assert ledger.verify() == COUNT + 1


@pytest.mark.parametrize("free", [0, 10, 5000])
def test_a_full_disk_makes_no_half_ledger(tmp_path: Path, free: int) -> None:
    with file_size_limit(free), pytest.raises(LedgerError, match="cannot be used"):
        Ledger.create(tmp_path / "ledger.db", epsilon=1, delta=0)
    assert not (tmp_path / "ledger.db").exists()
    Ledger.create(tmp_path / "ledger.db", epsilon=1, delta=0)


def test_a_crash_in_a_commit_is_rolled_back_by_the_next_reader(tmp_path: Path, intact: tuple[bytes, Any]) -> None:
    """Die inside SQLite's commit with the journal in place and the pages half written, by cutting the file size."""
    path, (whole, state) = tmp_path / "ledger.db", intact
    path.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size=1")  # pages are written before the commit, under the journal
        connection.execute("PRAGMA cache_spill=1")
        connection.execute("BEGIN IMMEDIATE")
        for number in range(COUNT + 1, COUNT + 400):
            row = (number, "9", "0", "m", "[]", f"r{number}", "t", "h")
            connection.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        torn, journal = path.read_bytes(), Path(f"{path}-journal").read_bytes()
        connection.execute("ROLLBACK")
    assert torn != whole
    path.write_bytes(torn)
    Path(f"{path}-journal").write_bytes(journal)
    assert Ledger(path).state() == state
    assert not Path(f"{path}-journal").exists()


def test_a_read_only_folder_can_be_read_but_not_charged(intact: tuple[bytes, Any], open_folder: Path) -> None:
    path, (whole, state) = open_folder / "ledger.db", intact
    path.write_bytes(whole)
    path.chmod(0o444)
    open_folder.chmod(0o555)
    with unprivileged():
        ledger = Ledger(path)
        assert ledger.state() == state
        with pytest.raises(LedgerError, match=r"cannot be used \(Permission denied\): nothing was charged"):
            ledger.charge(0.1, 0, mechanism="test")
        with pytest.raises(LedgerError, match=r"cannot be used \(Permission denied\)"):
            Ledger.create(open_folder / "new.db", epsilon=1, delta=0)
    assert path.read_bytes() == whole


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Without the right of root to write everywhere, if we are root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
