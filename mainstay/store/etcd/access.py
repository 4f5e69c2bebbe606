"""How a client proves to etcd who it is, and knows that it is etcd: certificates, user and password, all from files.

Files are read again whenever they are needed: a new connection takes up renewed certificates, a new login a changed
password. `require_usable` looks at all of them once, before anything is sent, because etcd and TLS answer most mistakes
with little more than a closed connection.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from mainstay.env.disk import read_text
from mainstay.store.errors import StoreAccessDenied


@dataclass(frozen=True, slots=True)
class EtcdTlsFiles:
    """PEM files. With a certificate there is a key."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class EtcdLogin:
    user: str
    password_file: Path
    """Its first line is the password."""


@dataclass(frozen=True, slots=True)
class EtcdAccess:
    """Without TLS: plain HTTP. Without a login: what etcd lets anyone do, or the user that the certificate names."""

    tls: EtcdTlsFiles | None = None
    login: EtcdLogin | None = None


NO_ACCESS_CONTROL = EtcdAccess()


@dataclass(frozen=True, slots=True)
class EtcdTls:
    """Which CA to trust and who we are, each as the bytes of a PEM file."""

    authorities: bytes
    certificate: bytes | None = None
    key: bytes | None = None


def read_tls(files: EtcdTlsFiles) -> EtcdTls:
    """Raises `StoreAccessDenied` if a file cannot be read."""
    return EtcdTls(
        _read(files.authority, "--etcd-ca"),
        None if files.certificate is None else _read(files.certificate, "--etcd-cert"),
        None if files.key is None else _read(files.key, "--etcd-key"),
    )


def read_password(login: EtcdLogin) -> str:
    """Raises `StoreAccessDenied` if the file cannot be read, or has none."""
    lines = _read(login.password_file, "--etcd-password-file").decode().splitlines()
    if not lines or not lines[0]:
        raise StoreAccessDenied(f"--etcd-password-file {login.password_file} is empty: its first line is the password")
    return lines[0]


def require_usable(access: EtcdAccess, now: datetime) -> None:
    """Raise `StoreAccessDenied` unless every file can be read, is what it should be, and has not expired."""
    if access.login is not None:
        read_password(access.login)
    if access.tls is None:
        return
    tls = read_tls(access.tls)
    _certificates(tls.authorities, access.tls.authority, "--etcd-ca")
    if tls.certificate is None or tls.key is None or access.tls.certificate is None:
        return
    certificate = _certificates(tls.certificate, access.tls.certificate, "--etcd-cert")[0]
    if certificate.not_valid_after_utc <= now:
        raise StoreAccessDenied(
            f"--etcd-cert {access.tls.certificate} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC:"
            " replace it with a new one"
        )
    try:
        key = serialization.load_pem_private_key(tls.key, None)
    except (ValueError, TypeError) as error:
        raise StoreAccessDenied(
            f"--etcd-key {access.tls.key} is not a private key in PEM format without passphrase: {error}"
        ) from None
    if key.public_key() != certificate.public_key():
        raise StoreAccessDenied(f"--etcd-key {access.tls.key} is not the key of --etcd-cert {access.tls.certificate}")


def _certificates(pem: bytes, path: Path, option: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise StoreAccessDenied(f"{option} {path} has no certificate in PEM format") from None


def _read(path: Path, option: str) -> bytes:
    try:
        return read_text(path).encode()
    except UnicodeDecodeError:
        raise StoreAccessDenied(f"{option} {path} is not text in UTF-8") from None
    except OSError as error:
        raise StoreAccessDenied(f"cannot read {option} {path}: {error.strerror or error}") from None
