"""What `get`, `apply`, `delete` and `logs` have in common: which cluster they ask, how they print, how they fail.

The cluster is that of a kubeconfig. Looked for, in this order: `--kubeconfig`; `$KUBECONFIG`; what `mainstay up` made;
`~/.kube/config`; and inside a pod, the account that it was given.

Each command is an `async` function over a `Client` and a `Screen`, so that it can be run against any server, in virtual
time too. `ask` runs one on the real loop and turns what the API says into words and exit codes for people.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import click

from mainstay.api.causes import FIELD_MANAGER_CONFLICT
from mainstay.cli.exits import Exit
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config, from_kubeconfig, in_cluster
from mainstay.client.errors import ApiError, Conflict, Forbidden, Unauthorized, Unavailable
from mainstay.client.limits import Limits
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.env.disk import read_text

MANAGER: Final = "mainstay"
"""As whom fields are owned that are set from here."""

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
    """Where a command writes."""

    @property
    def is_coloured(self) -> bool: ...

    def say(self, text: str) -> None:
        """A line of what was asked for."""

    def write(self, data: bytes) -> None:
        """The same, as it is: no line end is added."""

    def note(self, text: str) -> None:
        """A line about it, beside what was asked for."""


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
    command = click.option("--context", default="", metavar="NAME", help="The context of the kubeconfig to use.")(
        command
    )
    return click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="How to reach the cluster.  [default: $KUBECONFIG, else that of `mainstay up`, else ~/.kube/config]",
    )(command)


def ask(
    config: Config,
    work: Callable[[Client, Screen], Awaitable[int]],
    *,
    limits: Limits | None = None,
    is_endless: bool = False,
) -> int:
    """Run a command against a cluster. Returns its exit code; raises `click.ClickException` if it fails.

    `is_endless`: it goes on until it is interrupted, and then all is well.
    """
    try:
        return tasks.run(_asked(config, work, Terminal(), limits))
    except KeyboardInterrupt:
        if not is_endless:
            raise
        return Exit.SATISFIED
    except ApiError as error:
        raise click.ClickException(explained(error, config)) from error
    except BadConfig as error:
        raise click.ClickException(str(error)) from error


async def _asked(
    config: Config, work: Callable[[Client, Screen], Awaitable[int]], screen: Screen, limits: Limits | None
) -> int:
    # A disk is part of every environment. Clients leave nothing on it.
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(Path()))
    async with Client(config, env, user_agent="mainstay", limits=limits) as client:
        return await work(client, screen)


def explained(error: ApiError, config: Config | None = None) -> str:
    """An error with what to do about it."""
    if isinstance(error, Unavailable) and error.status == 0:
        servers = f" at {', '.join(config.servers)}" if config is not None else ""
        return f"{error}\nIs the cluster{servers} up? See `mainstay status`, or name another with --kubeconfig."
    if isinstance(error, Unauthorized):
        return f"{error}\nThe cluster does not know the user of this kubeconfig: name another with --kubeconfig."
    if isinstance(error, Forbidden):
        return f"{error}\nThe user of this kubeconfig may not do that."
    if isinstance(error, Conflict) and any(cause.reason == FIELD_MANAGER_CONFLICT for cause in error.causes):
        fields = "".join(f"\n  {cause.field}: {cause.message}" for cause in error.causes)
        return (
            f"others own fields that this would change:{fields}\n"
            "Leave these fields out, or take them over with --force-conflicts."
        )
    return str(error)


def config_for(kubeconfig: str, context: str = "", environ: Mapping[str, str] = os.environ) -> Config:
    """Whom to ask, and as whom. Raises `click.ClickException` that says what to do."""
    try:
        for path in kubeconfig_places(kubeconfig, environ):
            try:
                text = read_text(path)
            except FileNotFoundError:
                if kubeconfig:
                    raise click.ClickException(f"there is no kubeconfig {path}") from None
                continue
            except (OSError, UnicodeDecodeError) as error:
                raise click.ClickException(f"cannot read the kubeconfig {path}: {error}") from None
            try:
                return from_kubeconfig(text, path.parent, context=context)
            except BadConfig as error:
                raise BadConfig(f"{path}: {error}") from None
        if environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster(environ)
    except BadConfig as error:
        raise click.ClickException(str(error)) from None
    raise click.ClickException("no cluster is known: start one with `mainstay up`, or name a kubeconfig: --kubeconfig")


def kubeconfig_places(kubeconfig: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where a kubeconfig may be; the first one that is there is used, and others are not merged into it."""
    if kubeconfig:
        return [Path(kubeconfig)]
    if listed := environ.get("KUBECONFIG", ""):
        return [Path(each) for each in listed.split(":") if each]
    # Only here: it takes a moment to import what makes clusters, and mostly it is said where the cluster is.
    from mainstay.cli.cluster import default_data_dir

    places = [default_data_dir(environ) / "kubeconfig"]
    if home := environ.get("HOME", ""):
        places.append(Path(home) / ".kube" / "config")
    return places
