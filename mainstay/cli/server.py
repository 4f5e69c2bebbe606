"""`mainstay server`: run an API server."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mainstay.cli.address import AddressParam
from mainstay.cli.component_options import log_options
from mainstay.cli.durations import Duration
from mainstay.cli.etcd_options import (
    EtcdFiles,
    EtcdUrls,
    build_etcd_choice,
    etcd_options,
    parse_etcd_urls,
    require_no_etcd_files,
)
from mainstay.cli.exits import Exit
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.sizes import Bytes

if TYPE_CHECKING:
    from mainstay.http.server import HttpLimits
    from mainstay.server.auth.authorization import User
    from mainstay.server.process import ServerProcess, Tls
    from mainstay.server.store_choice import KeySource, StoreChoice


class _StoreType(click.ParamType["StoreChoice | EtcdUrls"]):
    name = "store"

    def convert(
        self, value: "str | StoreChoice | EtcdUrls", param: click.Parameter | None, ctx: click.Context | None
    ) -> "StoreChoice | EtcdUrls":
        from mainstay.server.store_choice import MemoryChoice, SqliteChoice

        if not isinstance(value, str):
            return value
        if value == "sqlite":
            return SqliteChoice()
        if value == "memory":
            return MemoryChoice()
        if value.startswith("etcd=") and (urls := value.removeprefix("etcd=")):
            try:
                return parse_etcd_urls(urls)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return self.fail(f"{value!r} is not one of sqlite, memory, etcd=URL,URL,…", param, ctx)


C = TypeVar("C", bound=Callable[..., Any])

_FILES_FEW = 4096
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _setting(name: str, default: str | int, metavar: str, text: str, param: click.ParamType[Any]) -> Callable[[C], C]:
    """An option with a default that its help shows."""
    return click.option(name, type=param, default=default, show_default=True, metavar=metavar, help=text)


def _limit(name: str, default: int, text: str, least: int = 1) -> Callable[[C], C]:
    return _setting(name, default, "N", text, click.IntRange(least))


def _check_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from urllib.parse import urlsplit

    if value and (urlsplit(value).scheme not in ("https", "http") or not urlsplit(value).hostname):
        raise click.BadParameter(f"{value!r} is not a URL (for example https://api.example.com:6443)")
    return value.rstrip("/")


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Data directory, made if missing",
)
@_setting("--listen", "127.0.0.1:6443", "HOST:PORT", "Address to listen on; port 0 takes a free one", AddressParam())
@click.option(
    "--advertise-url",
    default="",
    metavar="URL",
    callback=_check_url,
    help="Address for clients, as of a load balancer",
)
@_setting("--store", "sqlite", "sqlite|memory|etcd=URL,…", "Storage of the objects", _StoreType())
@etcd_options
@click.option("--encryption-key-file", type=_FILE, multiple=True, metavar="FILE", help="Keys that seal Secrets at rest")
@click.option("--encryption-key-command", default="", metavar="CMD", help="Program that prints these keys")
@click.option("--replace-keys", is_flag=True, help="Replace the CA and keys of other servers")
@click.option("--token-file", type=_FILE, metavar="CSV", help="Users with static bearer tokens")
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="Serving certificate  [default: self-made]")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Key of --tls-cert")
@click.option("--client-ca", type=_FILE, metavar="FILE", help="Also accept client certificates of this CA")
@click.option("--insecure", is_flag=True, help="Serve plain HTTP, tokens readable by anyone")
@_limit("--max-connections", 20000, "Connections before the server answers 503")
@_limit("--max-connections-per-address", 1000, "Limit per address without certificate")
@_limit("--max-requests-inflight", 400, "Seats of flow control for reads", least=0)
@_limit("--max-mutating-requests-inflight", 200, "Seats of flow control for writes", least=0)
@_setting("--max-body", "3MiB", "SIZE", "Size of a request before it answers 413", Bytes())
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append a JSON line for each request",
)
@click.option("--journal/--no-journal", default=True, show_default=True, help="Record object history and decisions")
@_setting("--journal-keep", "7d", "DURATION", "Retention time of the journal", Duration())
@_setting("--journal-bytes", "2GiB", "SIZE", "Size limit for history, and for decisions", Bytes())
@_limit("--node-certificate-days", 365, "Lifetime of certificates that it signs")
@click.option(
    "--pod-security-default",
    type=click.Choice(["privileged", "baseline", "restricted"]),
    default="baseline",
    show_default=True,
    help="Pod Security level of unlabelled namespaces",
)
@click.option("--otlp-endpoint", default="", metavar="URL", help="Send decisions and writes as OTLP spans")
@log_options
def server(
    data_dir: Path,
    listen: tuple[str, int],
    advertise_url: str,
    store: "StoreChoice | EtcdUrls",
    etcd_files: EtcdFiles,
    encryption_key_file: tuple[Path, ...],
    encryption_key_command: str,
    replace_keys: bool,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    insecure: bool,
    max_connections: int,
    max_connections_per_address: int,
    max_requests_inflight: int,
    max_mutating_requests_inflight: int,
    max_body: int,
    audit_log: Path | None,
    journal: bool,
    journal_keep: timedelta,
    journal_bytes: int,
    node_certificate_days: int,
    pod_security_default: str,
    otlp_endpoint: str,
    log_format: str,
    verbose: int,
) -> int:
    """Run an API server.

    \b
        mainstay server --data-dir ./data
        kubectl --kubeconfig ./data/kubeconfig get namespaces

    The first start creates certificates, and an administrator's kubeconfig in the data directory. On SIGTERM or SIGINT
    the server finishes the requests in flight and stops.

    --store sqlite keeps objects in the data directory, memory forgets them at the end, etcd=URL,… uses an etcd cluster:
    with https:// URLs give --etcd-ca, and what etcd asks for of --etcd-cert, --etcd-key and --etcd-user. The server
    takes up files that are replaced.

    --encryption-key-file has lines of ID:BASE64, with 32 random bytes; the first key seals Secrets at rest, all of them
    unseal. It may be given several times.

    --token-file has lines of token,user,uid,"group1,group2". --otlp-endpoint is an OpenTelemetry collector, for example
    http://127.0.0.1:4318/v1/traces, and needs pip install 'mainstay[otel]'.
    """
    from mainstay.api.pod_security_checks import SecurityLevel
    from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, tasks
    from mainstay.server.decisions.journal import JournalLimits
    from mainstay.server.process import CannotGoOn, ServerCannotStart, ServerOptions, StoreDamaged, serve

    options = ServerOptions(
        data_dir=data_dir,
        host=listen[0],
        port=listen[1],
        advertise_url=advertise_url,
        replaces_keys=replace_keys,
        store=_store(store, etcd_files),
        encryption=_encryption(encryption_key_file, encryption_key_command, store),
        tls=_tls(tls_cert, tls_key, client_ca, insecure),
        tokens=_tokens(token_file),
        http=_limits(max_connections, max_connections_per_address, max_body),
        seats=max(1, max_requests_inflight + max_mutating_requests_inflight),
        audit_log=audit_log,
        journal=JournalLimits(journal_keep, journal_bytes) if journal else None,
        node_certificates=timedelta(days=node_certificate_days),
        security=SecurityLevel(pod_security_default),
        traces=otlp_endpoint,
    )
    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(data_dir))
    except OSError as error:
        raise click.ClickException(f"cannot use data directory {data_dir}: {error.strerror}") from None
    try:
        tasks.run(serve(options, env, _say_ready))
    except StoreDamaged as error:
        click.echo(f"mainstay: {error}", err=True)
        return Exit.BLOCKED
    except (CannotGoOn, ServerCannotStart) as error:
        raise click.ClickException(str(error)) from error
    return Exit.SATISFIED


def _store(choice: "StoreChoice | EtcdUrls", files: EtcdFiles) -> "StoreChoice":
    if isinstance(choice, EtcdUrls):
        return build_etcd_choice(choice, files)
    require_no_etcd_files(files)
    return choice


def _encryption(files: tuple[Path, ...], command: str, store: "StoreChoice | EtcdUrls") -> "KeySource | None":
    from mainstay.server.store_choice import KeyCommand, KeyFiles, MemoryChoice

    if not files and not command:
        return None
    if files and command:
        raise click.UsageError("--encryption-key-file excludes --encryption-key-command: remove one of them")
    if isinstance(store, MemoryChoice):
        raise click.UsageError("--store memory writes nothing down: remove the encryption keys")
    return KeyFiles(files) if files else KeyCommand(command)


def _say_ready(process: "ServerProcess") -> None:
    click.echo(f"mainstay server is ready at {process.url}, kubeconfig {process.kubeconfig}")


def _limits(connections: int, per_address: int, body_bytes: int) -> "HttpLimits":
    from mainstay.env import machine
    from mainstay.http.server import HttpLimits

    limits = HttpLimits(connections=connections, connections_per_address=per_address, body_bytes=body_bytes)
    files = machine.raise_file_limit()
    fitting = limits.fit(files)
    if files < _FILES_FEW and fitting.connections < connections:
        click.echo(
            f"at most {fitting.connections} connections instead of {connections}: this process may open only {files}"
            " files. Raise the hard limit (ulimit -Hn)",
            err=True,
        )
    return fitting


def _tls(certificate: Path | None, key: Path | None, client_authority: Path | None, insecure: bool) -> "Tls":
    from mainstay.server.process import GivenTls, NoTls, OwnTls

    given = (certificate, key, client_authority)
    if insecure:
        if given != (None, None, None):
            raise click.UsageError("--insecure excludes --tls-cert, --tls-key and --client-ca: remove them")
        return NoTls()
    match given:
        case (None, None, None):
            return OwnTls()
        case (Path(), None, _):
            raise click.UsageError("missing option --tls-key: the key of --tls-cert")
        case (None, Path(), _):
            raise click.UsageError("missing option --tls-cert: the certificate of --tls-key")
        case (None, None, _):
            raise click.UsageError("missing options --tls-cert and --tls-key: --client-ca requires them")
        case (Path() as certificate, Path() as key, _):
            return GivenTls(certificate, key, client_authority)
    raise AssertionError(given)


def _tokens(path: Path | None) -> "Mapping[str, User]":
    from mainstay.env.disk import read_text
    from mainstay.server.auth.authentication import BadTokenFile, read_token_file

    if path is None:
        return {}
    try:
        return read_token_file(read_text(path))
    except BadTokenFile as error:
        raise click.ClickException(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{path} is not UTF-8") from None
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
