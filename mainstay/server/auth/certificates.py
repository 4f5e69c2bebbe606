"""Certificates for a server that was given none: an authority of its own, and what it signs.

In the data directory:

    ca.crt, ca.key          the authority; ten years. Made once and never replaced, because every client trusts it
    server.crt, server.key  what the server shows; one year
    agents.crt, agents.key  what the server shows to agents when it asks them something; one year
    service-account.key     what the tokens of service accounts are signed with (tokens.py)

A key is made before its certificate and then kept, and a certificate that is missing, about to expire, for other names,
of another key or of another authority is made again. So a crash halfway leaves nothing that the next start would not
put right. What certificates are made of, and how files are written, is in http/certificates.py.

Not here: who a certificate stands for (authentication.py), and the files in which clients have theirs (kubeconfig.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.env import Clock, Disk
from mainstay.http.certificates import (
    BACKDATED,
    RENEWED_BEFORE,
    BadCertificate,
    alternatives,
    build_subject_name,
    compute_fingerprint,
    ensure_key,
    key_pem,
    load_certificate,
    pem,
    read_certificate,
    tls_context,
    unsigned,
    usage,
    write_whole,
)
from mainstay.server.auth.authorization import SERVERS, User
from mainstay.server.auth.request_signer import AuthoritySigner, ClusterAuthority
from mainstay.server.services.addresses import API_SERVER_ADDRESS

__all__ = [
    "AUTHORITY_VALID",
    "BACKDATED",
    "RENEWED_BEFORE",
    "SERVERS",
    "VALID",
    "BadCertificate",
    "Certificates",
    "ClusterAuthority",
    "Issued",
    "ensure_certificates",
    "ensure_key",
    "find_digest",
    "issue_client",
    "load_certificate",
    "names_of_server",
    "open_authority",
    "tls_context",
    "write_whole",
]

AUTHORITY_VALID: Final = timedelta(days=3650)
VALID: Final = timedelta(days=365)

_WILDCARDS: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the data directory has, as PEM."""

    authority: bytes
    server: bytes
    agents: bytes
    agents_key: bytes


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate for a client, as PEM, and whose authority it is of."""

    authority: bytes
    certificate: bytes
    key: bytes


def names_of_server(listen_host: str, hostname: str, advertised_host: str = "") -> list[str]:
    """What clients may call this server: where it listens, the machine, the names and the address that it has inside a
    cluster, and that of a load balancer in front of it."""
    names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    names += ["kubernetes.default.svc.cluster.local", API_SERVER_ADDRESS, hostname]
    if listen_host not in _WILDCARDS:
        names.append(listen_host)
    names.append(advertised_host)
    return list(dict.fromkeys(name for name in names if name and name.isascii()))


def ensure_certificates(disk: Disk, clock: Clock, names: Sequence[str]) -> Certificates:
    """Make what is missing or no longer good, leave the rest. Blocks. Raises `BadCertificate`, `DiskFull`."""
    now = clock.wall()
    authority = _Authority.ensure(disk, now)
    server = _ensure_signed(disk, "server", authority, now, _SERVER_SUBJECT, ExtendedKeyUsageOID.SERVER_AUTH, names)
    agents = _ensure_signed(disk, "agents", authority, now, _AGENTS_SUBJECT, ExtendedKeyUsageOID.CLIENT_AUTH, ())
    return Certificates(
        authority=pem(authority.certificate),
        server=pem(server),
        agents=pem(agents),
        agents_key=disk.read("agents.key"),
    )


def find_digest(certificate: bytes) -> str:
    """How others know the first certificate of a PEM file. Raises `BadCertificate`."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise BadCertificate("the serving certificate is not in PEM format") from None
    return compute_fingerprint(found.public_bytes(serialization.Encoding.DER))


def issue_client(disk: Disk, clock: Clock, user: User, found: tuple[bytes, bytes] | None = None) -> Issued:
    """A certificate and key with which their holder is this user: what was found, if it is still good, or new ones.
    Neither is kept here.

    Blocks. Raises `BadCertificate`, `DiskFull`. Not while a server of the same directory starts for the first time:
    both would make the authority.
    """
    now = clock.wall()
    authority = _Authority.ensure(disk, now)
    if found is not None and _is_good_client(*found, user, authority, now):
        return Issued(pem(authority.certificate), *found)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(key, authority, now, _build_subject(user), ExtendedKeyUsageOID.CLIENT_AUTH, ())
    return Issued(pem(authority.certificate), pem(certificate), key_pem(key))


def open_authority(disk: Disk, clock: Clock, authorities: bytes, lifetime: timedelta) -> ClusterAuthority:
    """The authority of a data directory, which signs the requests of clients. They check the server with `authorities`
    (PEM). Blocks. Raises `BadCertificate`."""
    authority = _Authority.ensure(disk, clock.wall())
    return ClusterAuthority(authorities.decode(), AuthoritySigner(authority.certificate, authority.key, lifetime))


def _is_good_client(certificate: bytes, key: bytes, user: User, authority: "_Authority", now: datetime) -> bool:
    try:
        found = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError):
        return False
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        return False
    # An older release gave components full access.
    is_of_user = found.subject == build_subject_name(_build_subject(user))
    return is_of_user and _is_good(found, private, authority, now, ())


# The authority.


@dataclass(frozen=True, slots=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def ensure(cls, disk: Disk, now: datetime) -> "_Authority":
        found = read_certificate(disk, "ca.crt")
        if found is None:
            key = ensure_key(disk, "ca.key")
            certificate = _authority_certificate(key, now)
            write_whole(disk, "ca.crt", pem(certificate))
            return cls(certificate, key)
        if "ca.key" not in disk.names():
            raise BadCertificate("ca.crt exists without ca.key: restore ca.key, or remove both to create a new CA")
        key = ensure_key(disk, "ca.key")
        if found.public_key() != key.public_key():
            raise BadCertificate(
                "ca.key is not the key of ca.crt: restore the right one, or remove both to create a new authority"
            )
        if found.not_valid_after_utc <= now:
            raise BadCertificate(
                f"ca.crt has expired at {found.not_valid_after_utc:%Y-%m-%d}: remove ca.crt and ca.key to start with a"
                " new one, and give the new kubeconfig to all clients"
            )
        return cls(found, key)


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = build_subject_name({NameOID.COMMON_NAME: ["mainstay-ca"]})
    public = key.public_key()
    builder = unsigned(name, name, public, now, now + AUTHORITY_VALID)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    return builder.sign(key, hashes.SHA256())


# What it signs.

_SERVER_SUBJECT: Final = {NameOID.COMMON_NAME: ["kube-apiserver"]}
_AGENTS_SUBJECT: Final = {NameOID.ORGANIZATION_NAME: [SERVERS], NameOID.COMMON_NAME: ["kube-apiserver"]}


def _build_subject(user: User) -> Mapping[x509.ObjectIdentifier, Sequence[str]]:
    return {NameOID.ORGANIZATION_NAME: user.groups, NameOID.COMMON_NAME: [user.name]}


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
    found = read_certificate(disk, f"{stem}.crt")
    if found is not None and _is_good(found, key, authority, now, names):
        return found
    certificate = _signed(key, authority, now, subject, purpose, names)
    write_whole(disk, f"{stem}.crt", pem(certificate))
    return certificate


def _signed(
    key: ec.EllipticCurvePrivateKey,
    authority: _Authority,
    now: datetime,
    subject: Mapping[x509.ObjectIdentifier, Sequence[str]],
    purpose: x509.ObjectIdentifier,
    names: Sequence[str],
) -> x509.Certificate:
    public = key.public_key()
    until = min(now + VALID, authority.certificate.not_valid_after_utc)
    builder = unsigned(build_subject_name(subject), authority.certificate.subject, public, now, until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    # Clients that check strictly, as Python's do from 3.13 on, insist on this one.
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(signer, critical=False)
    if names:
        builder = builder.add_extension(alternatives(names), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


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
        named = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return named == alternatives(names)
