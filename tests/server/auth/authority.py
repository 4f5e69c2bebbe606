"""An authority for tests, and machines that ask it for certificates. All keys come from a seed: runs are equal."""

from base64 import b64decode, b64encode
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from mainstay.sim.cluster.authority import build_authority, build_key

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CREDENTIALS = "/apis/mainstay.dev/v1/credentials"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT = "kubernetes.io/kube-apiserver-client"


a_key = build_key
an_authority = build_authority


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
