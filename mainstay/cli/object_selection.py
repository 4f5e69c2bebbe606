"""Options with which several commands select objects, and shell completion of their arguments.

Completion calls the cluster with a short deadline: a shell that hangs is worse than one without completion.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES, PODS
from mainstay.cli.cluster_access import Screen, call_cluster, load_config
from mainstay.cli.kinds import read_kinds
from mainstay.cli.output import Output

if TYPE_CHECKING:
    from mainstay.client.client import Client
    from mainstay.client.config import Config

F = TypeVar("F", bound=Callable[..., Any])

NAME_EVERYWHERE: Final = "a name and -A exclude each other: use -n NAMESPACE"
_COMPLETED_WITHIN: Final = timedelta(seconds=1)
_COMPLETED_MAX: Final = 500
"""How many names to offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSelection:
    """Which objects of a kind a command works on."""

    namespace: str = "default"
    """Empty: all namespaces."""
    labels: str = ""
    fields: str = ""

    @property
    def is_everywhere(self) -> bool:
        return not self.namespace

    def namespace_for(self, kind: KindName) -> str:
        return self.namespace if kind.namespaced else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """What `get` prints, of which objects."""

    selection: ObjectSelection = field(default_factory=ObjectSelection)
    output: Output = field(default_factory=Output)
    watch: bool = False
    watch_only: bool = False
    no_headers: bool = False
    show_labels: bool = False
    label_columns: tuple[str, ...] = ()
    ignore_not_found: bool = False
    show_managed_fields: bool = False


def make_selection(
    config: "Config", namespace: str, everywhere: bool, selector: str = "", field_selector: str = ""
) -> ObjectSelection:
    where = "" if everywhere else namespace or config.namespace
    return ObjectSelection(namespace=where, labels=selector, fields=field_selector)


def namespace_option(command: F) -> F:
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        shell_complete=_complete_namespaces,
        help="Namespace  [default: of the kubeconfig]",
    )(command)


def everywhere_option(command: F) -> F:
    return click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All namespaces")(command)


def selector_options(command: F) -> F:
    command = click.option(
        "--field-selector", default="", metavar="QUERY", help="Filter by field (status.phase=Running)"
    )(command)
    return click.option("-l", "--selector", default="", metavar="QUERY", help="Filter by label (app=web,tier!=cache)")(
        command
    )


def complete_objects(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete kinds, then names: for arguments of the forms `TYPE NAME…` and `TYPE/NAME…`."""
    words = list(context.params.get(param.name or "") or ())

    async def look(client: "Client", screen: Screen) -> list[str]:
        kinds = await read_kinds(client)
        kind, slash, _ = incomplete.rpartition("/")
        if not words and not slash:
            return ["all", *kinds.words()]
        wanted = kinds.find(kind or words[0].partition("/")[0])
        names = await _list_names(client, context, wanted.name)
        is_path = slash or (words and "/" in words[0])
        return [f"{kind or wanted.name.plural}/{name}" if is_path else name for name in names]

    return complete_from_cluster(context, look, incomplete)


def complete_pods(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: "Client", screen: Screen) -> list[str]:
        return await _list_names(client, context, PODS)

    return complete_from_cluster(context, look, incomplete)


def _complete_namespaces(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: "Client", screen: Screen) -> list[str]:
        return await _list_names(client, context, NAMESPACES)

    return complete_from_cluster(context, look, incomplete)


async def _list_names(client: "Client", context: click.Context, kind: KindName) -> list[str]:
    namespace = context.params.get("namespace") or client.config.namespace
    page = await client.list(kind, namespace if kind.namespaced else "", limit=_COMPLETED_MAX)
    return [each["metadata"]["name"] for each in page.items]


def complete_from_cluster(
    context: click.Context, look: "Callable[[Client, Screen], Awaitable[list[str]]]", incomplete: str
) -> list[CompletionItem]:
    """Complete with names from the cluster; with nothing if it does not answer in time."""
    from mainstay.api.retry_shape import RetryShape
    from mainstay.client.errors import ApiError
    from mainstay.client.limits import ClientLimits
    from mainstay.env import tasks

    found: list[str] = []

    async def in_time(client: "Client", screen: Screen) -> int:
        async with tasks.timeout(_COMPLETED_WITHIN):
            found.extend(await look(client, screen))
        return 0

    no_retry = RetryShape(
        attempts_max=1, first_delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=1), jitter=0.5
    )
    limits = ClientLimits(within=_COMPLETED_WITHIN, connect_within=_COMPLETED_WITHIN, retry=no_retry)
    try:
        config = load_config(context.params.get("kubeconfig") or "", context.params.get("context") or "")
        call_cluster(config, in_time, limits=limits)
    except (click.ClickException, ApiError, TimeoutError, OSError):
        return []  # A completing shell has no place for errors.
    return [CompletionItem(each) for each in found if each.startswith(incomplete)]
