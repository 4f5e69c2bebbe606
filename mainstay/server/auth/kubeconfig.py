"""The files with which clients talk to the server, in the form that all Kubernetes clients read.

In the data directory: `kubeconfig` of the administrator, and `scheduler.kubeconfig` and `controllers.kubeconfig` for
components that are started by hand. `mainstay up` makes such files for its own processes. Each is readable by its owner
alone, and complete in itself: it has a certificate of its own, which is renewed well before it expires. Clients written
in Go send no credentials over plain HTTP, whatever the file says; others send the token.
"""

import binascii
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mainstay.env import Clock, Disk
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import issue_client, write_whole
from mainstay.server.auth.identities import ADMINISTRATOR, FILES

NAME: Final = "kubeconfig"
_CLUSTER: Final = "mainstay"
_SHOWN: Final = re.compile(rb"client-certificate-data: (\S+)\s+client-key-data: (\S+)")


@dataclass(frozen=True, slots=True)
class ByCertificate:
    """Over TLS. All are PEM; `authorities` is what the server's certificate is checked with."""

    authorities: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class ByToken:
    """Over plain HTTP."""

    token: str


def server_url(scheme: str, host: str, port: int) -> str:
    """Where clients on this machine find the server."""
    reachable = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{reachable}]:{port}" if ":" in reachable else f"{scheme}://{reachable}:{port}"


def kubeconfig_text(server: str, shown: ByCertificate | ByToken, *, user: str = ADMINISTRATOR.name) -> str:
    """The file for a client with these credentials. `user` is only what they are called in it."""
    if isinstance(shown, ByCertificate):
        authority = f"\n    certificate-authority-data: {_base64(shown.authorities)}"
        proof = f"client-certificate-data: {_base64(shown.certificate)}\n    client-key-data: {_base64(shown.key)}"
    else:
        authority = ""
        proof = f"token: {json.dumps(shown.token)}"
    return f"""\
apiVersion: v1
kind: Config
clusters:
- name: {_CLUSTER}
  cluster:
    server: {json.dumps(server)}{authority}
users:
- name: {user}
  user:
    {proof}
contexts:
- name: {user}@{_CLUSTER}
  context:
    cluster: {_CLUSTER}
    user: {user}
current-context: {user}@{_CLUSTER}
"""


def ensure_kubeconfig(
    own: Disk, name: str, user: User, server: str, authorities: bytes | None, disk: Disk, clock: Clock
) -> bool:
    """Put a kubeconfig of this user there, unless a good one is. Returns whether it is new: then its process has to
    restart. Blocks. Raises `BadCertificate`, `DiskFull`.

    `disk` is the data directory whose authority signs. With `authorities` the server is checked with these instead.
    """
    found = _read_if_there(own, name)
    shown = _SHOWN.search(found)
    issued = issue_client(disk, clock, user, None if shown is None else _decode_pair(*shown.groups()))
    proof = ByCertificate(authorities or issued.authority, issued.certificate, issued.key)
    return _write(own, name, found, kubeconfig_text(server, proof, user=user.name))


def write_kubeconfigs(disk: Disk, clock: Clock, server: str, authorities: bytes, *, has_tls: bool) -> None:
    """Put all of them there that differ. Blocks. Raises `BadCertificate`, `DiskFull`."""
    for stem, user in reversed(FILES.items()):  # That of the administrator is the last: scripts wait for it.
        name = NAME if stem == "admin" else f"{stem}.{NAME}"
        if has_tls:
            ensure_kubeconfig(disk, name, user, server, authorities, disk, clock)
        else:
            wanted = kubeconfig_text(server, ByToken(_ensure_token(disk, stem)), user=user.name)
            _write(disk, name, _read_if_there(disk, name), wanted)


def _read_if_there(disk: Disk, name: str) -> bytes:
    try:
        return disk.read(name)
    except FileNotFoundError:
        return b""


def _decode_pair(certificate: bytes, key: bytes) -> tuple[bytes, bytes] | None:
    try:
        return b64decode(certificate, validate=True), b64decode(key, validate=True)
    except binascii.Error:
        return None


def _write(disk: Disk, name: str, found: bytes, wanted: str) -> bool:
    if found == wanted.encode():
        return False
    write_whole(disk, name, wanted.encode())
    return True


def ensure_tokens(disk: Disk) -> dict[str, User]:
    """What these clients show where there is no TLS and hence no certificate. Made once. Blocks."""
    return {_ensure_token(disk, stem): user for stem, user in FILES.items()}


def find_token(tokens: Mapping[str, User]) -> str:
    """The administrator's, among these: how servers without TLS, which share these files, know each other."""
    return next((token for token, user in tokens.items() if user == ADMINISTRATOR), "")


def _ensure_token(disk: Disk, stem: str) -> str:
    name = f"{stem}.token"
    try:
        return disk.read(name).decode("ascii").strip()
    except FileNotFoundError:
        # A key is as good a secret as there is; `env.chance` is not for secrets.
        token = urlsafe_b64encode(AESGCM.generate_key(bit_length=256)).decode("ascii").rstrip("=")
        write_whole(disk, name, token.encode() + b"\n")
        return token


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
