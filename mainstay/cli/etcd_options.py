"""The options that say how to reach an etcd cluster: its addresses, TLS, and the user.

A command with `@etcd_options` receives them as one value, `etcd_files`, and combines it with the addresses that were
given: `build_etcd_choice`.
"""

import functools
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mainstay.server.store_choice import EtcdChoice

R = TypeVar("R")

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class EtcdFiles:
    """The options besides the addresses, as given."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password_file: Path | None = None


@dataclass(frozen=True, slots=True)
class EtcdUrls:
    """The addresses, as given: `host:port` each, and whether TLS is asked for."""

    endpoints: tuple[str, ...]
    is_tls: bool


def etcd_options(command: Callable[..., R]) -> Callable[..., R]:
    @functools.wraps(command)
    def with_files(
        *args: Any,
        etcd_ca: Path | None,
        etcd_cert: Path | None,
        etcd_key: Path | None,
        etcd_user: str,
        etcd_password_file: Path | None,
        **options: Any,
    ) -> R:
        files = EtcdFiles(etcd_ca, etcd_cert, etcd_key, etcd_user, etcd_password_file)
        return command(*args, etcd_files=files, **options)

    for option in reversed(
        [
            click.option("--etcd-ca", type=_FILE, metavar="FILE", help="CA of etcd's certificates (https://)"),
            click.option("--etcd-cert", type=_FILE, metavar="FILE", help="Client certificate for etcd"),
            click.option("--etcd-key", type=_FILE, metavar="FILE", help="Key of --etcd-cert"),
            click.option("--etcd-user", default="", metavar="NAME", help="User of etcd"),
            click.option("--etcd-password-file", type=_FILE, metavar="FILE", help="Password of --etcd-user"),
        ]
    ):
        with_files = option(with_files)
    return with_files


def parse_etcd_urls(text: str) -> EtcdUrls:
    """Raises `ValueError` with a message for the user."""
    endpoints, schemes = [], set()
    for url in (each.strip() for each in text.split(",")):
        scheme, found, rest = url.rpartition("://")
        if found and scheme not in ("http", "https"):
            raise ValueError(f"{url!r}: only http:// and https:// are supported for etcd")
        endpoint = rest.rstrip("/")
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise ValueError(f"{url!r} is not an etcd address (for example http://127.0.0.1:2379)")
        endpoints.append(endpoint)
        schemes.add(scheme or "http")
    if len(schemes) > 1:
        raise ValueError("some addresses are http:// and some https://: use one for all members")
    return EtcdUrls(tuple(endpoints), schemes == {"https"})


def build_etcd_choice(urls: EtcdUrls, files: EtcdFiles) -> "EtcdChoice":
    """Raises `click.UsageError` if options do not fit together. Warns if everything is sent in plain text."""
    from mainstay.server.store_choice import EtcdAccess, EtcdChoice, EtcdLogin, EtcdTlsFiles

    tls, login = None, None
    if files.user and files.password_file:
        login = EtcdLogin(files.user, files.password_file)
    elif files.user:
        raise click.UsageError("missing option --etcd-password-file: the password of --etcd-user")
    elif files.password_file:
        raise click.UsageError("missing option --etcd-user: whose password is in --etcd-password-file")
    if urls.is_tls:
        if files.ca is None:
            raise click.UsageError("missing option --etcd-ca: the CA that has signed etcd's certificates")
        if (files.cert is None) != (files.key is None):
            missing = "--etcd-key" if files.key is None else "--etcd-cert"
            raise click.UsageError(f"missing option {missing}: --etcd-cert and --etcd-key belong together")
        tls = EtcdTlsFiles(files.ca, files.cert, files.key)
    elif files.ca or files.cert or files.key:
        raise click.UsageError("--etcd-ca, --etcd-cert and --etcd-key need https:// addresses of etcd")
    elif away := [each for each in urls.endpoints if not _is_loopback(each)]:
        click.echo(
            f"warning: {away[0]} is reached without TLS: anyone on the way reads and changes everything, Secrets"
            " and the etcd password included. Use https:// and --etcd-ca",
            err=True,
        )
    return EtcdChoice(urls.endpoints, EtcdAccess(tls, login))


def require_no_etcd_files(files: EtcdFiles) -> None:
    """Raise `click.UsageError` if something is said about an etcd that is not used."""
    if files != EtcdFiles():
        raise click.UsageError("--etcd-ca, --etcd-cert, --etcd-key, --etcd-user and --etcd-password-file need an etcd")


def _is_loopback(endpoint: str) -> bool:
    host = endpoint.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
