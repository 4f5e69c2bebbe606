"""Options by which several commands say which objects they mean, and completion for what they name.

Completion asks the cluster, with a short deadline: a shell that hangs is worse than one that does not help.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from mainstay.api.retry_shape import RetryShape
from mainstay.cli.cluster_access import Screen, ask, config_for
from mainstay.cli.kinds import read_kinds
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.errors import ApiError
from mainstay.client.limits import Limits
from mainstay.env import tasks

F = TypeVar("F", bound=Callable[..., Any])

_COMPLETED_WITHIN: Final = timedelta(seconds=1)
_COMPLETED_MAX: Final = 500  # Names. More than that nobody looks through.
_NO_RETRY: Final = RetryShape(
    attempts_max=1, first_delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=1), jitter=0.5
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a kind."""

    namespace: str = "default"
    """Empty: all."""
    labels: str = ""
    fields: str = ""

    @property
    def is_everywhere(self) -> bool:
        return not self.namespace

    def of(self, namespaced: bool) -> str:
        return self.namespace if namespaced else ""


def selection_of(
    config: Config, namespace: str, everywhere: bool, selector: str = "", field_selector: str = ""
) -> Selection:
    where = "" if everywhere else namespace or config.namespace
    return Selection(namespace=where, labels=selector, fields=field_selector)


def namespace_option(command: F) -> F:
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        shell_complete=_complete_namespaces,
        help="Where to look.  [default: that of the kubeconfig]",
    )(command)


def everywhere_option(command: F) -> F:
    return click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in all namespaces.")(command)


def selector_options(command: F) -> F:
    command = click.option(
        "--field-selector", default="", metavar="QUERY", help="Only objects with such fields: status.phase=Running."
    )(command)
    return click.option(
        "-l", "--selector", default="", metavar="QUERY", help="Only objects with such labels: app=web,tier!=cache."
    )(command)


def complete_objects(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kinds, then names: for arguments of the forms `TYPE NAME…` and `TYPE/NAME…`."""
    words = list(context.params.get(param.name or "") or ())

    async def look(client: Client, screen: Screen) -> list[str]:
        kinds = await read_kinds(client)
        kind, slash, _ = incomplete.rpartition("/")
        if not words and not slash:
            return ["all", *kinds.words()]
        wanted = kinds.called(kind or words[0].partition("/")[0])
        names = await _names_of(client, context, wanted.name)
        is_path = slash or (words and "/" in words[0])
        return [f"{kind or wanted.name.plural}/{name}" if is_path else name for name in names]

    return completed(context, look, incomplete)


def complete_pods(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: Client, screen: Screen) -> list[str]:
        return await _names_of(client, context, (await read_kinds(client)).called("pods").name)

    return completed(context, look, incomplete)


def _complete_namespaces(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: Client, screen: Screen) -> list[str]:
        return await _names_of(client, context, (await read_kinds(client)).called("namespaces").name)

    return completed(context, look, incomplete)


async def _names_of(client: Client, context: click.Context, kind: Any) -> list[str]:
    namespace = context.params.get("namespace") or client.config.namespace
    page = await client.list(kind, namespace if kind.namespaced else "", limit=_COMPLETED_MAX)
    return [each["metadata"]["name"] for each in page.items]


def completed(
    context: click.Context, look: Callable[[Client, Screen], Awaitable[list[str]]], incomplete: str
) -> list[CompletionItem]:
    """What can be completed with, asked of the cluster; nothing if it does not answer in time."""
    found: list[str] = []

    async def in_time(client: Client, screen: Screen) -> int:
        async with tasks.timeout(_COMPLETED_WITHIN):
            found.extend(await look(client, screen))
        return 0

    limits = Limits(within=_COMPLETED_WITHIN, connect_within=_COMPLETED_WITHIN, retry=_NO_RETRY)
    try:
        config = config_for(context.params.get("kubeconfig") or "", context.params.get("context") or "")
        ask(config, in_time, limits=limits)
    except (click.ClickException, ApiError, TimeoutError, OSError):
        return []  # There is nobody to tell.
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]
