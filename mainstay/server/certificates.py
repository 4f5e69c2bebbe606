"""Certificates for a server that nobody gave any: an authority of its own, and what it signs.

In the data directory:

    ca.crt, ca.key          the authority; ten years. Made once and never replaced, because every client trusts it
    server.crt, server.key  what the server shows; one year
    admin.crt, admin.key    what whoever runs the server shows; one year
    service-account.key     what the tokens of service accounts are signed with (tokens.py)

A key is made before its certificate and then kept, and a certificate that is missing, about to expire, for other names,
of another key or of another authority is made again. So a crash halfway leaves nothing that the next start would not
put right. Files are written whole and then given their name.

Not here: who a certificate stands for (identity.py), and the file in which clients find all of this (kubeconfig.py).
"""

import contextlib
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.env import Clock, Disk
from mainstay.server.access import MASTERS

ADMIN: Final = "kubernetes-admin"

AUTHORITY_VALID: Final = timedelta(days=3650)
VALID: Final = timedelta(days=365)
RENEWED_BEFORE: Final = timedelta(days=60)
# Clocks differ a little. A certificate that is not valid yet is a hard error to understand.
BACKDATED: Final = timedelta(hours=1)

_UNFINISHED: Final = "unfinished"  # The one file that is being written; not even its name may hint at a kubeconfig.
_WILDCARDS: Final = ("", "0.0.0.0", "::")


class BadCertificate(Exception):
    """A certificate or key cannot be used. The message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the data directory has, as PEM."""

    authority: bytes
    server: bytes
    admin: bytes
    admin_key: bytes


def names_of_server(listen_host: str, hostname: str) -> list[str]:
    """What clients may call this server: where it listens, the machine, and the names it has inside a cluster."""
    names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    names += ["kubernetes.default.svc.cluster.local", hostname]
    if listen_host not in _WILDCARDS:
        names.append(listen_host)
    return list(dict.fromkeys(name for name in names if name and name.isascii()))


def ensure_certificates(disk: Disk, clock: Clock, names: Sequence[str]) -> Certificates:
    """Make what is missing or no longer good, leave the rest. Blocks. Raises `BadCertificate`, `DiskFull`."""
    now = clock.wall()
    authority = _Authority.ensure(disk, now)
    server = _ensure_signed(disk, "server", authority, now, _SERVER_SUBJECT, ExtendedKeyUsageOID.SERVER_AUTH, names)
    admin = _ensure_signed(disk, "admin", authority, now, _ADMIN_SUBJECT, ExtendedKeyUsageOID.CLIENT_AUTH, ())
    return Certificates(
        authority=_pem(authority.certificate), server=_pem(server), admin=_pem(admin), admin_key=disk.read("admin.key")
    )


def tls_context(certificate: Path, key: Path, client_authorities: bytes) -> ssl.SSLContext:
    """What a server needs to speak TLS. Clients may show a certificate; then it must be of one of these authorities.

    Raises `BadCertificate`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = ssl.CERT_OPTIONAL
    load_certificate(context, certificate, key)
    try:
        context.load_verify_locations(cadata=client_authorities.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise BadCertificate(f"the client authorities are no certificates in PEM form: {error}") from None
    return context


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Let new connections of a context see this certificate. Raises `BadCertificate`."""

    def password() -> str:
        # Without this OpenSSL would ask the terminal, and a server would hang.
        raise BadCertificate(f"{key} has a password: remove it, for example with `openssl pkey -in … -out …`")

    try:
        context.load_cert_chain(certificate, key, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadCertificate(f"{key} is not the key of {certificate}: give the two that belong together") from None
        raise BadCertificate(
            f"{certificate} and {key} are no certificate and key in PEM form: {error.reason or error}"
        ) from None
    except OSError as error:
        raise BadCertificate(f"cannot read {certificate} or {key}: {error.strerror or error}") from None


def write_whole(disk: Disk, name: str, data: bytes) -> None:
    """Give a file new contents, all or nothing. Only its owner may read it."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(_UNFINISHED)
    disk.append(_UNFINISHED, data)
    disk.sync(_UNFINISHED)
    disk.rename(_UNFINISHED, name)


# The authority.


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def ensure(cls, disk: Disk, now: datetime) -> "_Authority":
        found = _read_certificate(disk, "ca.crt")
        if found is None:
            key = ensure_key(disk, "ca.key")
            certificate = _authority_certificate(key, now)
            write_whole(disk, "ca.crt", _pem(certificate))
            return cls(certificate, key)
        if "ca.key" not in disk.names():
            raise BadCertificate("ca.crt is there without ca.key: put it back, or remove both to start with a new one")
        key = ensure_key(disk, "ca.key")
        if found.public_key() != key.public_key():
            raise BadCertificate(
                "ca.key is not the key of ca.crt: put back the right one, or remove both to start anew"
            )
        if found.not_valid_after_utc <= now:
            raise BadCertificate(
                f"ca.crt has expired at {found.not_valid_after_utc:%Y-%m-%d}: remove ca.crt and ca.key to start with a"
                " new one, and give the new kubeconfig to all clients"
            )
        return cls(found, key)


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name({NameOID.COMMON_NAME: ["mainstay-ca"]})
    public = key.public_key()
    builder = _builder(name, name, public, now, now + AUTHORITY_VALID)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    return builder.sign(key, hashes.SHA256())


# What it signs.

_SERVER_SUBJECT: Final = {NameOID.COMMON_NAME: ["kube-apiserver"]}
_ADMIN_SUBJECT: Final = {NameOID.ORGANIZATION_NAME: [MASTERS], NameOID.COMMON_NAME: [ADMIN]}


def _ensure_signed(
    disk: Disk,
    stem: str,
    authority: _Authority,
    now: datetime,
    subject: Mapping[x509.ObjectIdentifier, Sequence[str]],
    purpose: x509.ObjectIdentifier,
    names: Sequence[str],
) -> x509.Certificate:
    key = ensure_key(disk, f"{stem}.key")
    found = _read_certificate(disk, f"{stem}.crt")
    if found is not None and _is_good(found, key, authority, now, names):
        return found
    public = key.public_key()
    until = min(now + VALID, authority.certificate.not_valid_after_utc)
    builder = _builder(_name(subject), authority.certificate.subject, public, now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    # Clients that check strictly, as Python's do from 3.13 on, insist on this one.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(signer, critical=False)
    if names:
        builder = builder.add_extension(_alternatives(names), critical=False)
    certificate = builder.sign(authority.key, hashes.SHA256())
    write_whole(disk, f"{stem}.crt", _pem(certificate))
    return certificate


def _is_good(
    found: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    authority: _Authority,
    now: datetime,
    names: Sequence[str],
) -> bool:
    if found.public_key() != key.public_key() or found.not_valid_before_utc > now:
        return False
    if found.not_valid_after_utc - now < min(RENEWED_BEFORE, authority.certificate.not_valid_after_utc - now):
        return False
    try:
        found.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    if not names:
        return True
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return alternatives == _alternatives(names)


def _alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_alternative(name) for name in names])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - BACKDATED,
        not_valid_after=until,
    )


def _name(attributes: Mapping[x509.ObjectIdentifier, Sequence[str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, values in attributes.items() for value in values])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# Files.


def ensure_key(disk: Disk, name: str) -> ec.EllipticCurvePrivateKey:
    """The key in a file, which is made if it is not there. Blocks. Raises `BadCertificate`, `DiskFull`."""
    try:
        data = disk.read(name)
    except FileNotFoundError:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        write_whole(disk, name, pem)
        return key
    try:
        found = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        raise BadCertificate(f"{name} is no key in PEM form: put back the right one, or remove it") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise BadCertificate(f"{name} is no key for an elliptic curve: put back the right one, or remove it")
    return found


def _read_certificate(disk: Disk, name: str) -> x509.Certificate | None:
    try:
        data = disk.read(name)
    except FileNotFoundError:
        return None
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise BadCertificate(f"{name} is no certificate in PEM form: put back the right one, or remove it") from None


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
