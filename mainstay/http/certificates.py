"""Keys, certificates and TLS, as far as servers of both kinds need them: the API server, and agents.

An agent serves only API servers, and those find in its Node which certificate it has. So its
certificate is its own work, signed by itself (`ensure_self_signed`), and a client compares its digest
(`compute_fingerprint`, outgoing.py): no authority, name or date has to be looked at, and no other certificate will do.

A key is made before its certificate and then kept; files are written whole and then given their name. So a crash
halfway leaves nothing that the next start would not put right.

What the authority of a cluster signs is in server/auth/certificates.py.
"""

import contextlib
import hashlib
import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.env import Clock, Disk

# Clocks differ a little. A certificate that is not valid yet is a hard error to understand.
BACKDATED: Final = timedelta(hours=1)
RENEWED_BEFORE: Final = timedelta(days=60)
SELF_SIGNED_VALID: Final = timedelta(days=3650)

_UNFINISHED: Final = "unfinished"  # The one file that is being written; not even its name may hint at a kubeconfig.
_SERVING: Final = "serving"


class BadCertificate(Exception):
    """A certificate or key cannot be used. The message says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A self-signed certificate and its key, as PEM files."""

    certificate: Path
    key: Path
    digest: str
    """How others know it: `sha256:` and 64 hexadecimal digits."""


def ensure_self_signed(
    disk: Disk, directory: Path, clock: Clock, name: str, hosts: Sequence[str]
) -> ServingCertificate:
    """The certificate in `serving.crt`, made if it is not there or not good any more. `directory` is where the disk is.

    Blocks. Raises `BadCertificate`, `DiskFull`.
    """
    now = clock.wall()
    key = ensure_key(disk, f"{_SERVING}.key")
    found = read_certificate(disk, f"{_SERVING}.crt")
    if found is None or not _is_good(found, key, now, hosts):
        subject = build_subject_name(
            {NameOID.COMMON_NAME: [name[:64]]}
        )  # At most 64 characters are allowed, and clients ignore it.
        builder = unsigned(subject, subject, key.public_key(), now, now + SELF_SIGNED_VALID)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        builder = builder.add_extension(alternatives(hosts), critical=False)
        found = builder.sign(key, hashes.SHA256())
        write_whole(disk, f"{_SERVING}.crt", pem(found))
    digest = compute_fingerprint(found.public_bytes(serialization.Encoding.DER))
    return ServingCertificate(directory / f"{_SERVING}.crt", directory / f"{_SERVING}.key", digest)


def _is_good(found: x509.Certificate, key: ec.EllipticCurvePrivateKey, now: datetime, hosts: Sequence[str]) -> bool:
    if found.public_key() != key.public_key() or found.not_valid_after_utc - now < RENEWED_BEFORE:
        return False
    try:
        named = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return named == alternatives(hosts)


def compute_fingerprint(der: bytes) -> str:
    """What tells a certificate, given in DER form, from any other."""
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


# TLS.


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
        raise BadCertificate(f"the client CA file has no certificates in PEM format: {error}") from None
    return context


def load_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Let new connections of a context see this certificate. Raises `BadCertificate`."""

    def password() -> str:
        # Without this OpenSSL would ask the terminal, and a server would hang.
        raise BadCertificate(f"{key} has a passphrase; remove it, for example with `openssl pkey -in … -out …`")

    try:
        context.load_cert_chain(certificate, key, password=password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise BadCertificate(f"{key} is not the key of {certificate}") from None
        raise BadCertificate(
            f"{certificate} and {key} are not a certificate and key in PEM format: {error.reason or error}"
        ) from None
    except OSError as error:
        raise BadCertificate(f"cannot read {certificate} or {key}: {error.strerror or error}") from None


# Files.


def write_whole(disk: Disk, name: str, data: bytes) -> None:
    """Give a file new contents, all or nothing. Only its owner may read it."""
    with contextlib.suppress(FileNotFoundError):
        disk.remove(_UNFINISHED)
    disk.append(_UNFINISHED, data)
    disk.sync(_UNFINISHED)
    disk.rename(_UNFINISHED, name)


def ensure_key(disk: Disk, name: str) -> ec.EllipticCurvePrivateKey:
    """The key in a file, which is made if it is not there. Blocks. Raises `BadCertificate`, `DiskFull`."""
    try:
        data = disk.read(name)
    except FileNotFoundError:
        key = ec.generate_private_key(ec.SECP256R1())
        write_whole(disk, name, key_pem(key))
        return key
    try:
        found = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        raise BadCertificate(f"{name} is not a key in PEM format; restore or remove it") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise BadCertificate(f"{name} is not an elliptic curve key; restore or remove it")
    return found


def read_certificate(disk: Disk, name: str) -> x509.Certificate | None:
    try:
        data = disk.read(name)
    except FileNotFoundError:
        return None
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise BadCertificate(f"{name} is not a certificate in PEM format; restore or remove it") from None


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# What certificates are made of.


def alternatives(names: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_alternative(name) for name in names])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def unsigned(
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


def build_subject_name(attributes: Mapping[x509.ObjectIdentifier, Sequence[str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid, value) for oid, values in attributes.items() for value in values])


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
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
