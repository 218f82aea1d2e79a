"""`fastdp certificates`: what it writes is taken by TLS at its strictest, and only by members of the same authority."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from pathlib import Path

import pytest

from fastdp_dask.commands import certificates
from fastdp_dask.commands.app import main
from fastdp_dask.errors import ArgumentError

HOUR = datetime.timedelta(hours=1)


def context(folder: Path, purpose: ssl.Purpose) -> ssl.SSLContext:
    made = ssl.create_default_context(purpose, cafile=str(folder / "ca.pem"))
    made.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def handshake(server: Path, client: Path, name: str = "node01") -> bytes:
    """What a client of one folder reads from a server of another; a refusal is an `ssl.SSLError` or a closed line."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with context(server, ssl.Purpose.CLIENT_AUTH).wrap_socket(ours, server_side=True) as talk:
                talk.sendall(b"in")
        except OSError:
            ours.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context(client, ssl.Purpose.SERVER_AUTH).wrap_socket(theirs, server_hostname=name) as talk:
            return talk.recv(2)
    finally:
        theirs.close()
        thread.join()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "ours"
    assert main(["certificates", str(folder), "--days", "2", "--name", "node01", "--name", "10.77.0.1"]) == 0
    return folder


def test_files_are_for_their_owner_alone(ours: Path) -> None:
    assert ours.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in ours.iterdir()) == sorted(certificates.FILES)  # no key of the authority
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in ours.iterdir())


def test_members_get_in_under_their_names(ours: Path) -> None:
    assert handshake(ours, ours) == b"in"
    assert handshake(ours, ours, "10.77.0.1") == b"in"
    with pytest.raises(ssl.SSLError, match="mismatch"):
        handshake(ours, ours, "node02")


def test_members_of_another_authority_do_not(ours: Path, tmp_path: Path) -> None:
    certificates.write(tmp_path / "others", lifetime=HOUR, names=["node01"])
    for server, client in ((ours, tmp_path / "others"), (tmp_path / "others", ours)):
        with pytest.raises(ssl.SSLError, match="certificate verify failed"):
            handshake(server, client)


def test_an_expired_one_does_not(tmp_path: Path) -> None:
    certificates.write(tmp_path / "old", lifetime=-datetime.timedelta(seconds=1), names=["node01"])
    with pytest.raises(ssl.SSLError, match="expired"):
        handshake(tmp_path / "old", tmp_path / "old")


@pytest.mark.parametrize("name", ["", "http://node01", "node01:8786", "a b", "-a", "10.0.0", "10.0.0.999", "a" * 64])
def test_a_name_that_is_none(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="--name must be a host name or an address"):
        certificates.write(tmp_path / "new", lifetime=HOUR, names=["node01", name])
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(ours: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (ours / "key.pem").read_bytes()
    assert main(["certificates", str(ours)]) == 1
    assert "DIR must be a new or an empty folder" in capsys.readouterr().err
    assert (ours / "key.pem").read_bytes() == before
