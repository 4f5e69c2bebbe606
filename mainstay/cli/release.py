"""`mainstay release`: let go of what somebody holds, before its time is over."""

from collections.abc import Sequence
from datetime import datetime

import click
from click.shell_completion import CompletionItem

from mainstay.api.holds import held_of
from mainstay.api.kind_names import HOLDS
from mainstay.cli.cluster_access import MANAGER, Command, Screen, ask, cluster_options, config_for
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import shown, target_of
from mainstay.cli.object_selection import completed, namespace_option
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import SystemClock


def _complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    async def look(client: Client, screen: Screen) -> list[str]:
        return [each["metadata"]["name"] for each in (await client.list(HOLDS)).items]

    return completed(context, look, incomplete)


@click.command(cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="NAME|WHAT…", shell_complete=_complete)
@namespace_option
@cluster_options
def release(words: tuple[str, ...], namespace: str, kubeconfig: str, context: str) -> int:
    """Let go of what is held, before its time is over. It goes on at once.

    NAME is that of the Hold, as `mainstay get holds` shows it; what was held will do as well, as it was given to
    `mainstay hold`.

    \b
        mainstay release controller.deployment
        mainstay release controller/deployment evictions rollout/deploy/web
    """
    config = config_for(kubeconfig, context)
    names = [name_of(word, namespace, config.namespace) for word in words]
    return ask(config, lambda client, screen: release_all(client, screen, names, SystemClock().wall()))


def name_of(word: str, said_namespace: str, usual_namespace: str) -> str:
    """The name of a Hold, given that or what it holds. Raises `click.UsageError`."""
    kind, _, name = word.partition("/")
    if kind in ("hold", "holds", "hold.mainstay.dev", "holds.mainstay.dev") and name:
        return name
    is_target = "/" in word or (word == "evictions" and said_namespace)
    return target_of(word, said_namespace, usual_namespace).hold_name if is_target else word


async def release_all(client: Client, screen: Screen, names: Sequence[str], now: datetime) -> int:
    """Do what the command does: one after the other. Raises `ApiError`."""
    code = Exit.SATISFIED
    for name in dict.fromkeys(names):
        try:
            found = await client.get(HOLDS, name)
            await client.delete(HOLDS, name, uid=found["metadata"]["uid"], write=WriteOptions(field_manager=MANAGER))
        except NotFound:
            screen.note(f"mainstay: {await _not_there(client, name)}")
            code = Exit.ERROR
            continue
        held = held_of(found)
        said = ""
        if held is not None:
            when = (
                f"it would have lasted until {held.until}" if held.is_in_force(now) else f"it was over at {held.until}"
            )
            said = f" ({held.owner}: {held.reason}; {when})"
        screen.say(f"{shown(name)} released{said}")
    return code


async def _not_there(client: Client, name: str) -> str:
    there = [each["metadata"]["name"] for each in (await client.list(HOLDS)).items]
    return f"there is no Hold {name!r}; " + (f"there are {', '.join(there)}" if there else "nothing is held")
