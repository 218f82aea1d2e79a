"""`fastdp certificates`: an authority of one's own, and the certificate by which members of a cluster know each other.

Every holder of a certificate of that authority may run code on the cluster, so the authority signs one and its
private key is then forgotten: nobody can sign another.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdp_dask.durable import sync_folder
from fastdp_dask.errors import ArgumentError, FastDPError

FILES = ("ca.pem", "cert.pem", "key.pem")

_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE)
_BACK = datetime.timedelta(minutes=5)  # for clocks that are not quite together


def certificates(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder, on a file system that all hosts see.")],
    days: Annotated[
        float, typer.Option(min=1 / 1440, max=825, help="How long they are valid. Short is safe: write new ones.")
    ] = 30.0,
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Name or address to put into the certificate; repeatable.")
    ] = None,
) -> None:
    """Write ca.pem, cert.pem and key.pem, with which scheduler, workers and driver know each other over TLS.

    Whoever can read key.pem can run code on the cluster: files are 0600, the folder 0700.
    """
    until = write(folder, lifetime=datetime.timedelta(days=days), names=name or [])
    ca, cert, key = (folder / file for file in FILES)
    print(f"{folder}: valid until {until:%Y-%m-%d %H:%M} UTC")
    print(f"Scheduler and workers: --protocol tls --tls-ca-file {ca} --tls-cert {cert} --tls-key {key}")
    print(f"fastdp fit: --scheduler tls://HOST:PORT --tls-ca-file {ca} --tls-cert {cert} --tls-key {key}")


def write(folder: Path, *, lifetime: datetime.timedelta, names: list[str]) -> datetime.datetime:
    """Write the three files and return the end of their validity.

    Parameters
    ----------
    folder : Path
        New or empty; becomes 0700.
    lifetime : timedelta
    names : list of str
        Host names or addresses.  Dask compares the authority only, other programs these too.

    Raises
    ------
    ArgumentError
        If a name is none, or the folder holds something.
    FastDPError
        If `cryptography` is not installed or a file cannot be written.
    """
    hosts = [_host(name) for name in names]
    if find_spec("cryptography") is None:
        raise FastDPError("cryptography is needed to write certificates. Run: pip install 'fastdp-dask[cluster]'")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ArgumentError(f"DIR must be a new or an empty folder, got {folder}. Choose another or empty it.")
    end = datetime.datetime.now(datetime.UTC) + lifetime
    contents = _signed(end, hosts)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        for file, content in zip(FILES, contents, strict=True):
            descriptor = os.open(folder / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(descriptor)
        sync_folder(folder)
    except OSError as error:
        raise FastDPError(
            f"DIR must be a folder that can be written, got {folder} ({error.strerror}). Choose another."
        ) from None
    return end


def _host(name: str) -> str | ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    if len(name) > 253 or not _HOST.fullmatch(name) or name.replace(".", "").isdigit():
        raise ArgumentError(f"--name must be a host name or an address, got {name!r}. Leave out protocol and port.")
    return name


def _signed(end: datetime.datetime, hosts: list[Any]) -> tuple[bytes, bytes, bytes]:
    """Authority, certificate and private key as PEM; P-256 throughout."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    begin = datetime.datetime.now(datetime.UTC) - _BACK

    def certificate(subject: str, key: Any, *, signs: bool) -> x509.CertificateBuilder:
        usage = x509.KeyUsage(
            digital_signature=not signs, key_cert_sign=signs, crl_sign=signs, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        builder = x509.CertificateBuilder(named("fastdp cluster authority"), named(subject), key.public_key())
        return (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        )

    alternatives = [x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host) for host in hosts]
    member = certificate("fastdp cluster member", own, signs=False).add_extension(
        x509.SubjectAlternativeName(alternatives or [x509.DNSName("fastdp-cluster")]), critical=False
    )
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # a worker is both to its peers
    member = member.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    root = certificate("fastdp cluster authority", authority, signs=True)
    return (
        root.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM),
        member.sign(authority, hashes.SHA256()).public_bytes(Encoding.PEM),
        own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
