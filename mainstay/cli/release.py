"""`mainstay release`: release a Hold early."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from mainstay.api.holds import parse_hold
from mainstay.api.kind_names import HOLDS
from mainstay.cli.cluster_access import MANAGER, Command, Screen, call_cluster, cluster_options, load_config
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import parse_target, shown
from mainstay.cli.object_selection import complete_from_cluster, namespace_option

if TYPE_CHECKING:
    from mainstay.client.client import Client


def _complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: "Client", screen: Screen) -> list[str]:
        return [each["metadata"]["name"] for each in (await client.list(HOLDS)).items]

    return complete_from_cluster(context, look, incomplete)


@click.command(cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="NAME|WHAT…", shell_complete=_complete)
@namespace_option
@cluster_options
def release(words: tuple[str, ...], namespace: str, kubeconfig: str, context: str) -> int:
    """Release a hold early.

    \b
        mainstay release controller.deployment
        mainstay release controller/deployment evictions rollout/deploy/web

    NAME is the name of the Hold (`mainstay get holds`); WHAT is its target, as given to `mainstay hold`.
    """
    from mainstay.env import SystemClock

    config = load_config(kubeconfig, context)
    names = [parse_hold_name(word, namespace, config.namespace) for word in words]
    return call_cluster(config, lambda client, screen: release_all(client, screen, names, SystemClock().wall()))


def parse_hold_name(word: str, given_namespace: str, default_namespace: str) -> str:
    """Find the name of a Hold from its name or its target. Raises `click.UsageError`."""
    kind, _, name = word.partition("/")
    if kind in ("hold", "holds", "hold.mainstay.dev", "holds.mainstay.dev") and name:
        return name
    is_target = "/" in word or (word == "evictions" and given_namespace)
    return parse_target(word, given_namespace, default_namespace).hold_name if is_target else word


async def release_all(client: "Client", screen: Screen, names: Sequence[str], now: datetime) -> int:
    """Do what the command does: one after the other. Raises `ApiError`."""
    from mainstay.client.call import WriteOptions
    from mainstay.client.errors import NotFound

    code = Exit.SATISFIED
    for name in dict.fromkeys(names):
        try:
            found = await client.get(HOLDS, name)
            await client.delete(HOLDS, name, uid=found["metadata"]["uid"], write=WriteOptions(field_manager=MANAGER))
        except NotFound:
            screen.note(f"mainstay: {await _describe_missing(client, name)}")
            code = Exit.ERROR
            continue
        held = parse_hold(found)
        said = ""
        if held is not None:
            when = f"until {held.until}" if held.is_in_force(now) else f"expired at {held.until}"
            said = f" ({held.owner}: {held.reason}; {when})"
        screen.say(f"{shown(name)} released{said}")
    return code


async def _describe_missing(client: "Client", name: str) -> str:
    existing = [each["metadata"]["name"] for each in (await client.list(HOLDS)).items]
    return f"Hold {name!r} not found: " + (f"existing are {', '.join(existing)}" if existing else "there are none")
