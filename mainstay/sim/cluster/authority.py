"""An authority for simulated servers, keys for machines, and certificates that are shown without TLS.

All keys come from a name, and their signatures are always the same (Ed25519): runs with one seed are equal. There is no
TLS in a simulation, so a client shows its certificate as a token (`build_badge`), and the server takes it for what TLS
would have told it. Signatures are not verified: the code under test issues, records and revokes.
"""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from mainstay.server.auth.request_signer import NO_AUTHORITY, AuthoritySigner, ClusterAuthority

__all__ = ["NO_AUTHORITY", "ClusterAuthority", "build_authority", "build_badge", "build_key", "read_badge"]

LIFETIME: Final = timedelta(days=365)
_BADGE: Final = "certificate."
_NAMES: Final = {NameOID.COMMON_NAME: "commonName", NameOID.ORGANIZATION_NAME: "organizationName"}


def build_key(name: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def build_authority(lifetime: timedelta = LIFETIME) -> ClusterAuthority:
    key = build_key("authority")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated-ca")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=datetime(2000, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2100, 1, 1, tzinfo=UTC),
    )
    certificate = builder.sign(key, None)
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
    return ClusterAuthority(pem, AuthoritySigner(certificate, key, lifetime))


def build_badge(pem: str) -> str:
    """How a client shows this certificate."""
    return _BADGE + urlsafe_b64encode(pem.encode()).decode("ascii").rstrip("=")


def read_badge(token: str) -> dict[str, Any] | None:
    """What TLS would tell of the certificate, if the token is one."""
    if not token.startswith(_BADGE):
        return None
    text = token.removeprefix(_BADGE)
    found = x509.load_pem_x509_certificate(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return {
        "subject": tuple(((_NAMES[each.oid], str(each.value)),) for each in found.subject),
        "serialNumber": f"{found.serial_number:X}",
        "notBefore": f"{found.not_valid_before_utc:%b %d %H:%M:%S %Y} GMT",
    }
