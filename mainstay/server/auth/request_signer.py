"""What the cluster's authority signs for clients, and what it must not: the rules of each signer, and the signature.

    kubernetes.io/kube-apiserver-client-kubelet   the agent of a node: O=system:nodes, CN=system:node:NAME
    kubernetes.io/kubelet-serving                 what an agent serves with; names and addresses besides
    kubernetes.io/kube-apiserver-client           any client but `system:masters` and the parts of the control plane

The rules are those of Kubernetes. A request is read once (`parse_request`), judged by a pure function (`find_problem`),
and signed by a `RequestSigner`. Who may have what they ask for is decided in node_claims.py and signing_point.py.
Requests for other signers are stored, and left to others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.api.signer_names import CLIENT_SIGNER, NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER
from mainstay.api.system_users import find_node
from mainstay.http.certificates import BACKDATED, compute_fingerprint, usage
from mainstay.server.auth.authorization import MASTERS, NODES

LIFETIME_DEFAULT: Final = timedelta(days=365)
SERIAL_BITS: Final = 159

SIGNERS: Final = (CLIENT_SIGNER, NODE_CLIENT_SIGNER, NODE_SERVING_SIGNER)

_RSA_BITS_MIN: Final = 2048
_RESERVED: Final = "system:"
_KEY_USAGES: Final = {"digital signature", "key encipherment"}
_PURPOSES: Final = {CLIENT_SIGNER: "client auth", NODE_CLIENT_SIGNER: "client auth", NODE_SERVING_SIGNER: "server auth"}
_PURPOSE_IDS: Final = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class BadSigningRequest(Exception):
    """This is no signing request that can be signed. The message says why."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What a PKCS#10 request asks for."""

    user: str
    groups: tuple[str, ...]
    has_other_attributes: bool
    """Of the subject, besides these two."""
    dns_names: tuple[str, ...]
    addresses: tuple[str, ...]
    has_other_names: bool
    """Mail addresses or URIs."""
    key: PublicKey

    @property
    def key_digest(self) -> str:
        """What tells its key, and so the machine that has made it, from any other."""
        return compute_key_digest(self.key)

    @property
    def node(self) -> str:
        """The node whose agent it is for; empty: none."""
        return find_node(self.user)


def compute_key_digest(key: PublicKey) -> str:
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return compute_fingerprint(der)


def parse_request(pem: bytes) -> ParsedRequest:
    """Raises `BadSigningRequest`."""
    try:
        found = x509.load_pem_x509_csr(pem)
        is_own = found.is_signature_valid
        key = found.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise BadSigningRequest(f"unable to parse the certificate request: {error}") from None
    if not is_own:
        raise BadSigningRequest("the signature of the request is not made with its key")
    if not isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey):
        raise BadSigningRequest("the key must be an elliptic curve, Ed25519 or RSA key")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS_MIN:
        raise BadSigningRequest(f"an RSA key must have at least {_RSA_BITS_MIN} bits")
    dns_names, addresses, has_other_names = _read_names(found)
    users = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = found.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return ParsedRequest(
        user=str(users[0].value) if len(users) == 1 else "",
        groups=tuple(str(each.value) for each in groups),
        has_other_attributes=len(users) + len(groups) != len(list(found.subject)),
        dns_names=dns_names,
        addresses=addresses,
        has_other_names=has_other_names,
        key=key,
    )


def _read_names(found: x509.CertificateSigningRequest) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    try:
        named = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), (), False
    except ValueError as error:
        raise BadSigningRequest(f"unable to parse the extensions of the certificate request: {error}") from None
    dns_names = tuple(named.get_values_for_type(x509.DNSName))
    addresses = tuple(map(str, named.get_values_for_type(x509.IPAddress)))
    return dns_names, addresses, len(dns_names) + len(addresses) != len(list(named))


def find_problem(signer: str, request: ParsedRequest, usages: Sequence[str]) -> str:
    """What keeps a signer from signing this request. Empty: nothing."""
    purpose = _PURPOSES[signer]
    if purpose not in usages or not {*usages} <= _KEY_USAGES | {purpose}:
        return f"usages must be {purpose!r}, and at most 'digital signature' and 'key encipherment' besides"
    if not request.user:
        return "the subject must have exactly one common name"
    if request.has_other_names:
        return "email and URI subject alternative names are not allowed"
    return _find_client_problem(request) if signer == CLIENT_SIGNER else _find_node_problem(signer, request)


def _find_client_problem(request: ParsedRequest) -> str:
    if MASTERS in request.groups:
        return f"the group {MASTERS} is not allowed: a certificate cannot be taken out of it"
    # Agents know API servers by such a group, and roles are bound to others.
    if any(name.startswith(_RESERVED) for name in (request.user, *request.groups)):
        return f"users and groups {_RESERVED}… are parts of the cluster: this signer does not sign for them"
    return ""


def _find_node_problem(signer: str, request: ParsedRequest) -> str:
    if request.groups != (NODES,) or request.has_other_attributes:
        return f"subject organization is not {NODES}"
    if not request.node:
        return "subject common name does not begin with system:node:"
    has_names = bool(request.dns_names or request.addresses)
    if signer == NODE_CLIENT_SIGNER and has_names:
        return "subject alternative names are not allowed"
    if signer == NODE_SERVING_SIGNER and not has_names:
        return "at least one DNS name or IP address is required"
    return ""


# The signature.


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    pem: str
    serial: str
    """In hexadecimal, as Credentials have it."""
    not_before: datetime
    not_after: datetime


@dataclass(frozen=True, slots=True)
class Validity:
    """When a certificate is good."""

    not_before: datetime
    not_after: datetime


def find_validity(now: datetime, lifetime: timedelta, asked_s: int | None, revoked_before: datetime | None) -> Validity:
    """For no longer than the server signs for, or than was asked. Not earlier than what was revoked of the user: what
    is issued after a revocation must not fall under it."""
    wanted = lifetime if asked_s is None else min(lifetime, timedelta(seconds=asked_s))
    begin = (now - BACKDATED).replace(microsecond=0)
    if revoked_before is not None:
        begin = max(begin, revoked_before.replace(microsecond=0) + timedelta(seconds=1))
    return Validity(begin, (now + wanted).replace(microsecond=0))


class RequestSigner(Protocol):
    lifetime: timedelta
    """How long the certificates of clients are good, at most."""

    def sign(self, request: ParsedRequest, signer: str, validity: Validity, serial: int) -> SignedCertificate: ...


@dataclass(frozen=True, slots=True)
class ClusterAuthority:
    """How a server is known, and what it signs with."""

    authorities: str = ""
    """The certificates with which clients check the server, as PEM. Empty: it has no TLS."""
    signer: RequestSigner | None = None


NO_AUTHORITY: Final = ClusterAuthority()


class AuthoritySigner:
    """Implements `RequestSigner` with the key of the cluster's authority, which never leaves this process."""

    def __init__(self, certificate: x509.Certificate, key: PrivateKey, lifetime: timedelta = LIFETIME_DEFAULT) -> None:
        self._certificate = certificate
        self._key = key
        self.lifetime = lifetime

    def sign(self, request: ParsedRequest, signer: str, validity: Validity, serial: int) -> SignedCertificate:
        until = min(validity.not_after, self._certificate.not_valid_after_utc)
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in request.groups]
        subject.append(x509.NameAttribute(NameOID.COMMON_NAME, request.user))
        builder = x509.CertificateBuilder(
            issuer_name=self._certificate.subject,
            subject_name=x509.Name(subject),
            public_key=request.key,
            serial_number=serial,
            not_valid_before=validity.not_before,
            not_valid_after=until,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(usage(signs_certificates=False), critical=True)
        purpose = x509.ExtendedKeyUsage([_PURPOSE_IDS[_PURPOSES[signer]]])
        builder = builder.add_extension(purpose, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if signer == NODE_SERVING_SIGNER:
            builder = builder.add_extension(_build_names(request), critical=False)
        algorithm = None if isinstance(self._key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        signed = builder.sign(self._key, algorithm)
        pem = signed.public_bytes(serialization.Encoding.PEM).decode("ascii")
        return SignedCertificate(pem, f"{serial:x}", validity.not_before, until)


def _build_names(request: ParsedRequest) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns_names]
    return x509.SubjectAlternativeName(names + [x509.IPAddress(ip_address(each)) for each in request.addresses])
