"""Whom a client asks, and as whom: server addresses, trust, credentials. From a kubeconfig, or from inside a pod.

A `Config` is a value; nothing here talks to a server. Files that it names are read when it is made, except for a token
file, which others renew: that one is read again now and then (credentials.py).

Refused with `BadConfig` rather than half understood: programs that make credentials (`exec`, `auth-provider`),
passwords, impersonation, proxies. Ignoring one of these would send requests as another user, or to another server.
"""

import binascii
import os
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mainstay.api.errors import StatusError
from mainstay.api.yaml_body import parse_yaml
from mainstay.env.disk import read_text

IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes puts what a pod needs to talk to its API server."""

_PORTS: Final = {"http": 80, "https": 443}
_USER_KEYS_REFUSED: Final = ("exec", "auth-provider", "username", "password", "as", "as-uid", "as-groups")
_CLUSTER_KEYS_REFUSED: Final = ("proxy-url",)


class BadConfig(ValueError):
    """The configuration cannot be used. The message says what is wrong with which part of it."""


@dataclass(frozen=True, slots=True)
class ClientTls:
    """All certificates and keys are PEM."""

    authorities: str = ""
    """What the server's certificate is checked with. Empty: whom this machine trusts."""
    certificate: str = field(default="", repr=False)
    """The client's own. Empty: none is shown."""
    key: str = field(default="", repr=False)
    server_name: str = ""
    """What the server's certificate is to be for. Empty: the host of the address."""
    is_verified: bool = True
    """False: do not verify the server's certificate. For experiments only."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server. The prefix comes before every path: a server may be behind another one."""

    host: str
    port: int
    is_tls: bool
    prefix: str = ""

    @property
    def authority(self) -> str:
        """How a request names the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS["https" if self.is_tls else "http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.prefix}"


def parse_address(url: str) -> ServerAddress:
    """Take the address of a server apart. Raises `BadConfig`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadConfig(f"invalid server address {url!r}: {error}") from None
    host = parts.hostname or ""
    is_plain = host.isascii() and host.isprintable() and " " not in host
    if parts.scheme not in _PORTS or not host or not is_plain or parts.username is not None or parts.query:
        raise BadConfig(f"the server address {url!r} must have the form https://HOST[:PORT][/PATH]")
    path = parts.path.rstrip("/")
    if not path.isascii() or not path.isprintable() or " " in path:
        raise BadConfig(f"invalid server address {url!r}: escape the special characters in its path")
    return ServerAddress(host, port or _PORTS[parts.scheme], parts.scheme == "https", path)


@dataclass(frozen=True, slots=True)
class Config:
    """For example `Config(("https://10.0.0.1:6443",), tls=Tls(...), token="…")`."""

    servers: tuple[str, ...]
    """Each is as good as any other. One is asked until it fails, then the next."""
    tls: ClientTls = ClientTls()
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Goes before `token`, and is read again, because others renew it."""
    namespace: str = "default"
    """For those who do not say. The client itself never adds one."""
    user: str = field(default="", compare=False)
    """What the kubeconfig calls who asks; the server goes by the credentials."""

    def __post_init__(self) -> None:
        if not self.servers:
            raise BadConfig("no server address given")
        for server in self.servers:
            parse_address(server)
        if bool(self.tls.certificate) != bool(self.tls.key):
            raise BadConfig("client certificate and key must be given together; one of them is missing")

    @property
    def addresses(self) -> tuple[ServerAddress, ...]:
        return tuple(parse_address(server) for server in self.servers)


def from_kubeconfig(text: str, base_dir: Path, *, context: str = "") -> Config:
    """What a kubeconfig says: in its current context, or another one. Relative paths are seen from `base_dir`.

    Blocks while it reads the files that are named in it. Raises `BadConfig`.
    """
    whole = _Part("kubeconfig", _parsed(text))
    name = context or whole.text("current-context")
    if not name:
        raise BadConfig("kubeconfig: current-context is not set; set it, or name a context")
    chosen = whole.named("contexts", name, "context")
    cluster = whole.named("clusters", chosen.text("cluster"), "cluster")
    user = whole.named("users", chosen.text("user"), "user") if chosen.text("user") else _Part("no user", {})
    cluster.refuse(_CLUSTER_KEYS_REFUSED)
    user.refuse(_USER_KEYS_REFUSED)
    token_file = user.text("tokenFile")
    tls = ClientTls(
        authorities=cluster.pem("certificate-authority", base_dir),
        certificate=user.pem("client-certificate", base_dir),
        key=user.pem("client-key", base_dir),
        server_name=cluster.text("tls-server-name"),
        is_verified=not cluster.flag("insecure-skip-tls-verify"),
    )
    if not cluster.text("server"):
        raise BadConfig(f"{cluster.where}: server is missing")
    return Config(
        (cluster.text("server"),),
        tls,
        token=user.text("token"),
        token_file=base_dir / token_file if token_file else None,
        namespace=chosen.text("namespace") or "default",
        user=chosen.text("user"),
    )


def from_kubeconfig_file(path: Path, *, context: str = "") -> Config:
    """The same, of a file. Blocks. Raises `BadConfig`."""
    return from_kubeconfig(_read(path), path.parent, context=context)


def in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = IN_CLUSTER) -> Config:
    """For a program in a pod of the cluster it talks to. Blocks. Raises `BadConfig` anywhere else."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise BadConfig(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; this process does not run in a pod"
        )
    token_file = directory / "token"
    _read(token_file)  # To find out now, rather than with the first request.
    try:
        namespace = read_text(directory / "namespace").strip()
    except (OSError, UnicodeDecodeError):
        namespace = ""
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    tls = ClientTls(authorities=_read(directory / "ca.crt"))
    return Config((server,), tls, token_file=token_file, namespace=namespace or "default")


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapping of a kubeconfig, and how errors name it."""

    where: str
    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise BadConfig(f"{self.where}: {key} is not text")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise BadConfig(f"{self.where}: {key} is neither true nor false")
        return bool(value)

    def pem(self, key: str, base_dir: Path) -> str:
        """What is given in the file itself, which goes first, or in another one."""
        if data := self.text(f"{key}-data"):
            try:
                return b64decode(data, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise BadConfig(f"{self.where}: {key}-data is not base64 of text: {error}") from None
        path = self.text(key)
        return _read(base_dir / path) if path else ""

    def named(self, key: str, name: str, inner: str) -> "_Part":
        """One of a list of named things."""
        listed = self.values.get(key)
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and each.get("name") == name:
                found = each.get(inner)
                if isinstance(found, dict | None):
                    return _Part(f"kubeconfig: {inner} {name!r}", found or {})
        raise BadConfig(f"kubeconfig: {inner} {name!r} not found")

    def refuse(self, keys: tuple[str, ...]) -> None:
        for key in keys:
            if self.values.get(key):
                raise BadConfig(f"{self.where}: {key} is not supported; use a token or a client certificate")


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = parse_yaml(text.encode()).value
    except (StatusError, UnicodeEncodeError) as error:
        raise BadConfig(f"kubeconfig: invalid YAML: {error}") from None
    if not isinstance(value, dict):
        raise BadConfig("kubeconfig: must be a mapping")
    return value


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
