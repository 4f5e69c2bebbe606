"""An authority for tests, and machines that ask it for certificates. All keys come from a seed: runs are equal."""

import hashlib
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from mainstay.server.auth.request_signer import AuthoritySigner, ClusterAuthority

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CREDENTIALS = "/apis/mainstay.dev/v1/credentials"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT = "kubernetes.io/kube-apiserver-client"


def a_key(seed: str) -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())


def an_authority(lifetime: timedelta = timedelta(days=365)) -> ClusterAuthority:
    key = a_key("authority")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test-ca")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=datetime(2000, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2100, 1, 1, tzinfo=UTC),
    )
    certificate = builder.sign(key, None)
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return ClusterAuthority(pem, AuthoritySigner(certificate, key, lifetime))


def a_signing_request(user: str, groups: tuple[str, ...], machine: str, names: tuple[str, ...] = ()) -> str:
    """PKCS#10, signed with the key of a machine, in base64."""
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    builder = x509.CertificateSigningRequestBuilder(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), False)
    pem = builder.sign(a_key(machine), None).public_bytes(serialization.Encoding.PEM)
    return b64encode(pem).decode()


def a_node_request(node: str, machine: str, name: str = "", **spec: Any) -> dict[str, Any]:
    request = a_signing_request(f"system:node:{node}", ("system:nodes",), machine)
    usages = ["digital signature", "client auth"]
    return {
        "metadata": {"name": name or f"node-csr-{machine}"},
        "spec": {"request": request, "signerName": NODE_CLIENT, "usages": usages, **spec},
    }


def a_token(token_id: str = "abcdef", secret: str = "0123456789abcdef", **data: str) -> dict[str, Any]:
    given = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-authentication": "true",
        **{name.replace("_", "-"): value for name, value in data.items()},
    }
    return {
        "metadata": {"name": f"bootstrap-token-{token_id}"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": given,
    }


def a_certificate(request: dict[str, Any]) -> x509.Certificate:
    """What a signing request was answered with."""
    return x509.load_pem_x509_certificate(b64decode(request["status"]["certificate"]))
