"""The credential of an agent that has joined: `credentials.json` in its data directory, readable by its owner alone.

It is a kubeconfig (JSON is YAML), complete in itself: `kubectl --kubeconfig` reads it too. It is written whole, so that
a crash leaves the one before or the one after. The key is made on this machine and never leaves it (`node.key` is the
one that a certificate is being asked for).
"""

import contextlib
import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from mainstay.api.system_users import find_node
from mainstay.client.config import BadConfig, Config, from_kubeconfig
from mainstay.env import Disk
from mainstay.http.certificates import write_whole

FILE: Final = "credentials.json"
KEY_FILE: Final = "node.key"
LEFT_FILE: Final = "left"
"""There after the node was removed from its cluster."""
_NAME: Final = "mainstay"


@dataclass(frozen=True, slots=True)
class NodeCredential:
    config: Config
    node: str
    not_before: datetime
    not_after: datetime


def read_credential(disk: Disk) -> NodeCredential | None:
    """None: this machine has not joined. Raises `BadConfig`. Blocks."""
    try:
        text = disk.read(FILE).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise BadConfig(f"{FILE} is not text: remove it, and join again") from None
    config = from_kubeconfig(text, Path())
    try:
        found = x509.load_pem_x509_certificate(config.tls.certificate.encode())
    except ValueError:
        raise BadConfig(f"{FILE} has no certificate: remove it, and join again") from None
    users = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    node = find_node(str(users[0].value)) if users else ""
    return NodeCredential(config, node, found.not_valid_before_utc, found.not_valid_after_utc)


def write_credential(disk: Disk, server: str, authorities: str, certificate: str, key: str) -> None:
    """Put it there, in place of the one before. All but `server` are PEM. Blocks. Raises `DiskFull`."""
    cluster: dict[str, Any] = {"server": server, "certificate-authority-data": _encode(authorities)}
    user = {"client-certificate-data": _encode(certificate), "client-key-data": _encode(key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    write_whole(disk, FILE, json.dumps(config, indent=1).encode() + b"\n")
    with contextlib.suppress(FileNotFoundError):
        disk.remove(KEY_FILE)


def remove_credential(disk: Disk) -> None:
    """Blocks."""
    for name in (FILE, KEY_FILE, "serving.key", "serving.crt"):
        with contextlib.suppress(FileNotFoundError):
            disk.remove(name)


def render_key(key: Any) -> str:
    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode("ascii")


def _encode(text: str) -> str:
    return b64encode(text.encode()).decode("ascii")
