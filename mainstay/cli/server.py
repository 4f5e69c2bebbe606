"""`mainstay server`: the API server."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import click

from mainstay.cli.address import Address
from mainstay.cli.durations import Duration
from mainstay.cli.log_output import set_up_logs
from mainstay.cli.sizes import Bytes
from mainstay.env import Chance, Env, SystemClock, SystemDisk, machine, tasks
from mainstay.env.disk import read_text
from mainstay.http.server import Limits as HttpLimits
from mainstay.server.auth.authentication import BadTokenFile, read_token_file
from mainstay.server.auth.authorization import User
from mainstay.server.decisions.journal import JournalLimits
from mainstay.server.process import (
    CannotGoOn,
    CannotStart,
    EtcdChoice,
    GivenTls,
    MemoryChoice,
    NoTls,
    OwnTls,
    ServerOptions,
    ServerProcess,
    SqliteChoice,
    StoreChoice,
    Tls,
    serve,
)


class _StoreType(click.ParamType[StoreChoice]):
    name = "store"

    def convert(
        self, value: str | StoreChoice, param: click.Parameter | None, ctx: click.Context | None
    ) -> StoreChoice:
        if not isinstance(value, str):
            return value
        if value == "sqlite":
            return SqliteChoice()
        if value == "memory":
            return MemoryChoice()
        if value.startswith("etcd=") and (urls := value.removeprefix("etcd=")):
            return EtcdChoice(tuple(self._endpoint(url.strip(), param, ctx) for url in urls.split(",")))
        return self.fail(f"{value!r} is none of sqlite, memory, etcd=URL,URL,…", param, ctx)

    def _endpoint(self, url: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        scheme, found, rest = url.rpartition("://")
        if found and scheme != "http":
            self.fail(f"{url!r}: only http:// is supported between Mainstay and etcd", param, ctx)
        endpoint = rest.rstrip("/")
        host, _, port = endpoint.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            self.fail(f"{url!r} is no address of etcd, as in http://127.0.0.1:2379", param, ctx)
        return endpoint


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Where the store, certificates and kubeconfig are. Made if it is not there.",
)
@click.option(
    "--listen",
    type=Address(),
    default="127.0.0.1:6443",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to listen. Port 0 takes any free one.",
)
@click.option(
    "--store",
    type=_StoreType(),
    default="sqlite",
    show_default=True,
    metavar="sqlite|memory|etcd=URL,…",
    help="Where objects are kept: in the data directory, nowhere for long, or in an etcd cluster.",
)
@click.option("--token-file", type=_FILE, metavar="CSV", help='Users with tokens: token,user,uid,"group1,group2".')
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="Show this certificate, instead of one made here.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The key of --tls-cert.")
@click.option("--client-ca", type=_FILE, metavar="FILE", help="Know clients by certificates of this authority, too.")
@click.option("--insecure", is_flag=True, help="Plain HTTP. Everything, tokens included, can be read on the way.")
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=HttpLimits().connections,
    show_default=True,
    metavar="N",
    help="Answer 503 to more clients at once.",
)
@click.option(
    "--max-body",
    type=Bytes(),
    default="3MiB",
    show_default=True,
    metavar="SIZE",
    help="Answer 413 to larger requests.",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Append a line of JSON for each request.",
)
@click.option(
    "--journal/--no-journal",
    default=True,
    show_default=True,
    help="Record all that happens to objects, and all decisions, in the data directory.",
)
@click.option(
    "--journal-keep",
    type=Duration(),
    default="7d",
    show_default=True,
    metavar="DURATION",
    help="For how long the journal keeps what it has recorded.",
)
@click.option(
    "--journal-bytes",
    type=Bytes(),
    default="2GiB",
    show_default=True,
    metavar="SIZE",
    help="How much room on disk history may take, and decisions as much again. The oldest goes first.",
)
@click.option(
    "--otlp-endpoint",
    default="",
    metavar="URL",
    help="Send decisions and writes as spans to an OpenTelemetry collector: http://127.0.0.1:4318/v1/traces. "
    "Needs pip install 'mainstay[otel]'.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Of standard error."
)
@click.option("-v", "--verbose", count=True, help="Say more. Twice: even more.")
def server(
    data_dir: Path,
    listen: tuple[str, int],
    store: StoreChoice,
    token_file: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    insecure: bool,
    max_connections: int,
    max_body: int,
    audit_log: Path | None,
    journal: bool,
    journal_keep: timedelta,
    journal_bytes: int,
    otlp_endpoint: str,
    log_format: str,
    verbose: int,
) -> None:
    """Serve the Kubernetes API.

    The first start makes certificates, and a kubeconfig in the data directory for whoever runs the server:

    \b
        mainstay server --data-dir ./data
        kubectl --kubeconfig ./data/kubeconfig get namespaces

    It stops on SIGTERM or SIGINT, after it has finished what it was asked before.
    """
    options = ServerOptions(
        data_dir=data_dir,
        host=listen[0],
        port=listen[1],
        store=store,
        tls=_tls(tls_cert, tls_key, client_ca, insecure),
        tokens=_tokens(token_file),
        http=HttpLimits(connections=max_connections, body_bytes=max_body),
        audit_log=audit_log,
        journal=JournalLimits(journal_keep, journal_bytes) if journal else None,
        traces=otlp_endpoint,
    )
    set_up_logs(log_format, verbose)
    machine.keep_files_private()
    try:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(data_dir))
    except OSError as error:
        raise click.ClickException(f"cannot use the data directory {data_dir}: {error.strerror}") from None
    try:
        tasks.run(serve(options, env, _say_ready))
    except (CannotGoOn, CannotStart) as error:
        raise click.ClickException(str(error)) from error


def _say_ready(process: ServerProcess) -> None:
    click.echo(f"mainstay server is ready at {process.url}, with its kubeconfig in {process.kubeconfig}")


def _tls(certificate: Path | None, key: Path | None, client_authority: Path | None, insecure: bool) -> Tls:
    given = (certificate, key, client_authority)
    if insecure:
        if given != (None, None, None):
            raise click.UsageError("--insecure is without TLS: leave out --tls-cert, --tls-key and --client-ca.")
        return NoTls()
    match given:
        case (None, None, None):
            return OwnTls()
        case (Path(), None, _):
            raise click.UsageError("--tls-cert needs the key of that certificate: add --tls-key.")
        case (None, Path(), _):
            raise click.UsageError("--tls-key needs the certificate of that key: add --tls-cert.")
        case (None, None, _):
            raise click.UsageError("--client-ca needs --tls-cert and --tls-key.")
        case (Path() as certificate, Path() as key, _):
            return GivenTls(certificate, key, client_authority)
    raise AssertionError(given)


def _tokens(path: Path | None) -> Mapping[str, User]:
    if path is None:
        return {}
    try:
        return read_token_file(read_text(path))
    except BadTokenFile as error:
        raise click.ClickException(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{path} is not in UTF-8") from None
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror}") from None
