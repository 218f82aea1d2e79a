"""Who may talk to the scheduler and the workers: holders of a certificate of one authority, over TLS.

A Dask scheduler runs whatever a connected client sends, as the user who started it, and rows travel between workers.
So a plain connection is taken only from somebody who has said in so many words that the network is safe.
"""

from __future__ import annotations

import os
import re
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdp_dask.errors import ArgumentError, FastDPError

CaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Authority that signed the scheduler's certificate; fastdp certificates."),
]
CertFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate of this process.")]
KeyFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Take a tcp:// scheduler: anybody on the network can read rows and run code.")
]

_ADDRESS = re.compile(r"(?P<protocol>[a-z]+)://(?P<host>\[[0-9a-fA-F:.]+\]|[^/:\s]+):(?P<port>\d{1,5})")
_CONFIG = {
    "--tls-ca-file": "distributed.comm.tls.ca-file",
    "--tls-cert": "distributed.comm.tls.client.cert",
    "--tls-key": "distributed.comm.tls.client.key",
}


def checked_address(address: str) -> str:
    """Return the address of a scheduler if it has the form of one."""
    found = _ADDRESS.fullmatch(address)
    if found is None or found["protocol"] not in ("tls", "tcp") or not 0 < int(found["port"]) < 65536:
        raise ArgumentError(
            f"--scheduler must be an address such as tls://host:8786, or the .json file that dask scheduler "
            f"--scheduler-file writes, got {address!r}. Correct it."
        )
    return address


def security(
    address: str, *, ca_file: Path | None, cert: Path | None, key: Path | None, insecure: bool
) -> Any:
    """What a client needs to talk to `address`: a `distributed.Security`, or None for a plain connection.

    Files that are not given are those of Dask's configuration (`distributed.comm.tls`).

    Raises
    ------
    ArgumentError
        For a plain address without `insecure`, a file that is not named or not there, or a key that others can read.
    """
    if address.startswith("tcp:"):
        if not insecure:
            raise ArgumentError(
                f"--scheduler must be a tls:// address, got {address}: on a plain connection anybody on the network "
                "can read rows and run code. Write certificates with fastdp certificates DIR, start scheduler and "
                "workers with them, or give --insecure where the network itself is private."
            )
        return None
    import dask
    from distributed.security import Security

    files: dict[str, Path] = {}
    for name, given in {"--tls-ca-file": ca_file, "--tls-cert": cert, "--tls-key": key}.items():
        path = given or dask.config.get(_CONFIG[name], None)
        if path is None:
            raise ArgumentError(
                f"{name} must be given for {address}: expected a file, got none. fastdp certificates DIR writes the "
                f"three; {_CONFIG[name]} in Dask's configuration names them once and for all."
            )
        files[name] = _readable(name, Path(path))
    _refuse_open_key(files["--tls-key"])
    return Security(
        require_encryption=True,
        tls_ca_file=str(files["--tls-ca-file"]),
        tls_client_cert=str(files["--tls-cert"]),
        tls_client_key=str(files["--tls-key"]),
    )


def temporary() -> Any:
    """A `distributed.Security` for workers that this process starts; its keys exist in memory alone."""
    if find_spec("cryptography") is None:
        raise FastDPError(
            "cryptography is needed to start workers: they talk over TLS. Run: pip install 'fastdp-dask[cluster]'"
        )
    from distributed.security import Security

    return Security.temporary()


def _readable(name: str, path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ArgumentError(f"{name} must be a readable file, got {path}. Write it with fastdp certificates DIR.")
    return path


def _refuse_open_key(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & stat.S_IRWXO:
        raise ArgumentError(
            f"--tls-key must be readable by its owner alone, got {path} with mode {mode:04o}. Run: chmod 600 {path}"
        )
