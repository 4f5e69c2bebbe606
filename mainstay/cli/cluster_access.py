"""What the commands that call a cluster share: which cluster, how they print, how they fail.

The cluster comes from a kubeconfig, the first of: `--kubeconfig`; `$KUBECONFIG`; the one of `mainstay up`;
`~/.kube/config`; inside a pod, its service account.

Each command is an `async` function over a `Client` and a `Screen`, so it runs against any server, in virtual time too.
`call_cluster` runs one on the real loop and turns API errors into messages and exit codes. The client is imported when
a command runs, so that help and completion of commands need neither asyncio nor TLS.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click

from mainstay.cli.exits import Exit

if TYPE_CHECKING:
    from mainstay.client.client import Client
    from mainstay.client.config import Config
    from mainstay.client.errors import ApiError
    from mainstay.client.limits import ClientLimits

MANAGER: Final = "mainstay"
"""The field manager of everything that is set from here."""

F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command whose flags may be written as kubectl's: `--wait=false`, `--follow=true`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [each for arg in args for each in self._plain(arg)])

    def _plain(self, arg: str) -> list[str]:
        name, equals, value = arg.partition("=")
        if not equals or value not in ("true", "false"):
            return [arg]
        for option in self.params:
            if isinstance(option, click.Option) and option.is_flag and name in option.opts:
                return [name] if value == "true" else option.secondary_opts[:1]
        return [arg]


class Screen(Protocol):
    """What a command writes to."""

    @property
    def is_coloured(self) -> bool: ...

    def say(self, text: str) -> None:
        """Write a line of the answer."""

    def write(self, data: bytes) -> None:
        """Write a part of the answer as it is, without a line end."""

    def note(self, text: str) -> None:
        """Write a line about the answer, on standard error."""


class Terminal:
    """Standard output and standard error."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        is_wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.is_coloured = is_wanted and sys.stdout.isatty()

    def say(self, text: str) -> None:
        click.echo(text, color=self.is_coloured)

    def write(self, data: bytes) -> None:
        click.echo(data, nl=False)

    def note(self, text: str) -> None:
        click.echo(text, err=True)


def cluster_options(command: F) -> F:
    """`--kubeconfig` and `--context`."""
    command = click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig")(command)
    return click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="Cluster to use  [default: $KUBECONFIG, else of `mainstay up`, else ~/.kube/config]",
    )(command)


def call_cluster(
    config: "Config",
    work: "Callable[[Client, Screen], Awaitable[int]]",
    *,
    limits: "ClientLimits | None" = None,
    is_endless: bool = False,
) -> int:
    """Run a command against a cluster. Returns its exit code; raises `click.ClickException` if it fails.

    `is_endless`: it runs until Ctrl-C, which is then no error.
    """
    from mainstay.client.config import BadConfig
    from mainstay.client.errors import ApiError
    from mainstay.env import tasks

    try:
        return tasks.run(_call(config, work, Terminal(), limits))
    except KeyboardInterrupt:
        if not is_endless:
            raise
        return Exit.SATISFIED
    except ApiError as error:
        raise click.ClickException(describe_error(error, config)) from error
    except BadConfig as error:
        raise click.ClickException(str(error)) from error


async def _call(
    config: "Config", work: "Callable[[Client, Screen], Awaitable[int]]", screen: Screen, limits: "ClientLimits | None"
) -> int:
    from mainstay.client.client import Client
    from mainstay.env import Chance, Env, SystemClock, SystemDisk

    # A disk is part of every environment. Clients leave nothing on it.
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(Path()))
    async with Client(config, env, user_agent="mainstay", limits=limits) as client:
        client.on_warning = lambda text: screen.note(f"Warning: {text}")
        return await work(client, screen)


def describe_error(error: "ApiError", config: "Config | None" = None) -> str:
    """Render an API error with what to do about it."""
    from mainstay.api.causes import FIELD_MANAGER_CONFLICT
    from mainstay.client.errors import Conflict, Forbidden, Unauthorized, Unavailable

    if isinstance(error, Unavailable) and error.status == 0:
        servers = f" at {', '.join(config.servers)}" if config is not None else ""
        return f"{error}\nIs the cluster{servers} running? Check `mainstay status`, or use another with --kubeconfig."
    if isinstance(error, Unauthorized):
        return (
            f"{error}\nThe cluster does not accept the credentials of this kubeconfig: use another with --kubeconfig."
        )
    if isinstance(error, Forbidden):
        return f"{error}\nThe user of this kubeconfig has no permission for that."
    if isinstance(error, Conflict) and any(cause.reason == FIELD_MANAGER_CONFLICT for cause in error.causes):
        fields = "".join(f"\n  {cause.field}: {cause.message}" for cause in error.causes)
        return (
            f"conflict: other field managers own fields that this would change:{fields}\n"
            "Remove these fields from the manifest, or take them over with --force-conflicts."
        )
    return str(error)


def load_config(kubeconfig: str, context: str = "", environ: Mapping[str, str] = os.environ) -> "Config":
    """Find the kubeconfig and read it. Raises `click.ClickException` that says what to do."""
    from mainstay.client.config import BadConfig, from_kubeconfig, in_cluster
    from mainstay.env.disk import read_text

    try:
        for path in kubeconfig_places(kubeconfig, environ):
            try:
                text = read_text(path)
            except FileNotFoundError:
                if kubeconfig:
                    raise click.ClickException(f"kubeconfig {path} not found") from None
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise click.ClickException(f"cannot read kubeconfig {path}: {error}") from None
            try:
                return from_kubeconfig(text, path.parent, context=context)
            except BadConfig as error:
                raise BadConfig(f"{path}: {error}") from None
        if environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster(environ)
        if listed := environ.get("KUBECONFIG", ""):
            raise click.ClickException(f"kubeconfig {listed} not found: correct KUBECONFIG, or use --kubeconfig")
    except BadConfig as error:
        raise click.ClickException(str(error)) from None
    raise click.ClickException("no kubeconfig found: start a cluster with `mainstay up`, or name one with --kubeconfig")


def kubeconfig_places(kubeconfig: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """List where a kubeconfig may be. The first file that exists is used; files are not merged."""
    if kubeconfig:
        return [Path(kubeconfig)]
    if listed := environ.get("KUBECONFIG", ""):
        return [Path(each) for each in listed.split(":") if each]
    from mainstay.cli.data_dir import default_data_dir

    places = [default_data_dir(environ) / "kubeconfig"]
    if home := environ.get("HOME", ""):
        places.append(Path(home) / ".kube" / "config")
    return places
