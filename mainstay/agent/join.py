"""How a machine becomes a node: it checks the server, asks for a certificate with a token, and keeps what it gets.

    1. read the certificates of the cluster's authority from the ConfigMap cluster-info, as anyone may
    2. compare the hash of each one's public key with those that the administrator gave us; the token is not sent before
    3. connect again, check the server with them, and send a signing request for the node
    4. store certificate, key and authorities (credential_file.py); the token is not needed any more

A crash or a lost answer at any point is no harm: the key is on disk before it is asked for, the request is named after
key and token, and asking again finds what was issued.

Step 3 with the credential that there is renews it: credential_rotation.py says when.
"""

import binascii
import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from mainstay.api.kind import Object
from mainstay.api.kind_names import SIGNING_REQUESTS
from mainstay.api.signer_names import NODE_CLIENT_SIGNER
from mainstay.api.system_users import build_node_user
from mainstay.api.yaml_body import parse_yaml
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, ClientTls, Config, parse_address
from mainstay.client.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unauthorized, Unavailable
from mainstay.env import Env, tasks

CLOCK_SKEW_MAX: Final = timedelta(minutes=5)
ANSWERED_WITHIN: Final = timedelta(minutes=10)
ASKED_EVERY: Final = timedelta(seconds=2)
HASH_PREFIX: Final = "sha256:"

_CLUSTER_INFO: Final = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_NODES: Final = "system:nodes"
_USAGES: Final = ("digital signature", "client auth")

NodeKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
Say = Callable[[str], None]


class CannotJoin(Exception):
    """This machine is no node of the cluster. The message says why, and what to do."""


# The server.


async def fetch_authorities(url: str, hashes_given: Sequence[str], env: Env) -> str:
    """The certificates (PEM) with which to check the server. Raises `CannotJoin`.

    The connection is not checked, so nothing is believed but what has one of these hashes.
    """
    if not parse_address(url).is_tls:
        raise CannotJoin(f"{url} is not https: a node joins over TLS only")
    config = Config((url,), ClientTls(is_verified=False))
    async with Client(config, env, user_agent="mainstay-agent") as client:
        try:
            response = await client.request("GET", _CLUSTER_INFO)
        except Unavailable as error:
            raise CannotJoin(f"cannot reach the API server at {url}: {error}") from None
        except (NotFound, Forbidden, Unauthorized) as error:
            text = f"{url} has no ConfigMap kube-public/cluster-info that anyone can read ({error})"
            raise CannotJoin(f"{text}: is it an API server of Mainstay, and up to date?") from None
        except ApiError as error:
            raise CannotJoin(f"the API server at {url} refuses: {error}") from None
    _require_clock(response.headers.get("date", ""), env.clock.wall(), url)
    authorities = _read_authorities(response.body, url)
    _require_hashes(authorities, hashes_given, url)
    return authorities


def _require_clock(date: str, now: datetime, url: str) -> None:
    try:
        theirs = parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        return
    skew = abs(theirs - now)
    if skew > CLOCK_SKEW_MAX:
        text = f"the clock of this machine says {now:%Y-%m-%d %H:%M:%S}, that of {url} {theirs:%Y-%m-%d %H:%M:%S} (UTC)"
        raise CannotJoin(f"{text}: set it, for example with an NTP service, and join again")


def _read_authorities(body: bytes, url: str) -> str:
    try:
        found: Object = msgspec.json.decode(body)
        config = _find_cluster(found["data"]["kubeconfig"])
        return b64decode(config, validate=True).decode("ascii")
    except (KeyError, TypeError, ValueError, BadConfig, binascii.Error, msgspec.MsgspecError):
        raise CannotJoin(f"the ConfigMap kube-public/cluster-info of {url} has no certificate authority") from None


def _find_cluster(text: str) -> str:
    found: Any = parse_yaml(text.encode()).value
    return str(found["clusters"][0]["cluster"]["certificate-authority-data"])


def _require_hashes(authorities: str, given: Sequence[str], url: str) -> None:
    try:
        found = [compute_ca_hash(each) for each in x509.load_pem_x509_certificates(authorities.encode())]
    except ValueError:
        raise CannotJoin(f"{url} shows an authority that is no certificate in PEM format") from None
    wanted = [each.lower() for each in given]
    unknown = [each for each in found if each not in wanted]
    if not found or unknown:
        shown = "\n  ".join(["it shows:", *found, "--ca-hash says:", *wanted])
        raise CannotJoin(
            f"the server at {url} is not the one that --ca-hash names: another cluster, or someone in between (man in"
            f" the middle). The token was not sent.\n  {shown}"
        )


def compute_ca_hash(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate's public key, as kubeadm's `--discovery-token-ca-cert-hash`."""
    key = certificate.public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return HASH_PREFIX + hashlib.sha256(der).hexdigest()


# The certificate.


def build_request(node: str, key: NodeKey) -> bytes:
    """PKCS#10 for the agent of a node, as PEM."""
    name = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, _NODES)]
    name.append(x509.NameAttribute(NameOID.COMMON_NAME, build_node_user(node)))
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    signed = x509.CertificateSigningRequestBuilder(x509.Name(name)).sign(key, algorithm)
    return signed.public_bytes(serialization.Encoding.PEM)


async def request_certificate(client: Client, node: str, key: NodeKey, say: Say, token: str = "") -> str:
    """A certificate (PEM) of the node for this key. Asking again finds what was issued. Raises `CannotJoin`, and
    `ApiError` for failures that may pass."""
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    name = f"node-csr-{hashlib.sha256(public + token.partition('.')[0].encode()).hexdigest()[:40]}"
    request = b64encode(build_request(node, key)).decode("ascii")
    spec = {"request": request, "signerName": NODE_CLIENT_SIGNER, "usages": list(_USAGES)}
    try:
        made = await client.create(SIGNING_REQUESTS, {"metadata": {"name": name}, "spec": spec})
    except AlreadyExists:
        made = await client.get(SIGNING_REQUESTS, name)
    except Unauthorized:
        text = "the API server does not accept the token: it has expired or was revoked, or is mistyped"
        raise CannotJoin(f"{text}. Create another with `mainstay token create`") from None
    except Forbidden as error:
        raise CannotJoin(str(error).partition(" is forbidden: ")[2] or str(error)) from None
    return await _wait_for_certificate(client, made, say)


async def _wait_for_certificate(client: Client, made: Object, say: Say) -> str:
    name, left = made["metadata"]["name"], ANSWERED_WITHIN
    while not (certificate := (made.get("status") or {}).get("certificate")):
        for condition in (made.get("status") or {}).get("conditions") or ():
            if condition.get("type") in ("Denied", "Failed"):
                why = condition.get("message") or condition.get("reason") or "no reason given"
                raise CannotJoin(f"the request {name} was {condition['type'].lower()}: {why}")
        if left == ANSWERED_WITHIN:
            say(f"waiting for an administrator to approve the request: kubectl certificate approve {name}")
        if left <= timedelta(0):
            raise CannotJoin(f"no administrator has approved the request {name}: join again when one has")
        await tasks.sleep(ASKED_EVERY)
        left -= ASKED_EVERY
        made = await client.get(SIGNING_REQUESTS, name)
    return b64decode(certificate).decode("ascii")
