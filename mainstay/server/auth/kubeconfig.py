"""The file with which the administrator of the server talks to it, in the form that all Kubernetes clients read.

`kubeconfig` in the data directory, readable by its owner alone, complete in itself: no other file is needed. Clients
written in Go send no credentials over plain HTTP, whatever the file says; others send the token.
"""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from mainstay.env import Disk
from mainstay.server.auth.certificates import ADMIN, write_whole

NAME: Final = "kubeconfig"
_CLUSTER: Final = "mainstay"


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


def kubeconfig_text(server: str, shown: ByCertificate | ByToken, *, user: str = ADMIN) -> str:
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


def write_kubeconfig(disk: Disk, server: str, admin: ByCertificate | ByToken) -> None:
    """Put it there, unless it is there already. Blocks."""
    wanted = kubeconfig_text(server, admin).encode()
    try:
        found = disk.read(NAME)
    except FileNotFoundError:
        found = b""
    if found != wanted:
        write_whole(disk, NAME, wanted)


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
