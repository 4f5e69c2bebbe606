"""`mainstay top`: show what the parts of the control plane are busy with."""

from typing import TYPE_CHECKING, Any, Final

import click

from mainstay.cli.cluster_access import Command, Screen, call_cluster, cluster_options, load_config
from mainstay.cli.exits import Exit
from mainstay.cli.lazy_group import CommandEntry, LazyGroup

if TYPE_CHECKING:
    from datetime import datetime

    from mainstay.client.client import Client

TOP_COMMANDS: Final = (
    CommandEntry("Commands", "queues", "Show the work queues of controllers", "mainstay.cli.top:queues"),
)

TERMINAL_SHOWN: Final = 10
"""Objects of each queue."""


@click.group(cls=LazyGroup, table=TOP_COMMANDS)
def top() -> None:
    """Show the load of the control plane.

    \b
        mainstay top queues

    For pods and nodes use `kubectl top`.
    """


@click.command(cls=Command)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format"
)
@cluster_options
def queues(output: str, kubeconfig: str, context: str) -> int:
    """Show the work queues of controllers.

    \b
        mainstay top queues
        mainstay top queues -o json

    The longest queue comes first. Each process publishes its figures every 10 s while they change, and once a minute.
    A ControllerSettings object changes how a queue is paced: see docs/guides/work-queue.md.

    \b
    Exit codes: 0 no key is terminal, 1 error, 2 a controller has stopped retrying a key
    """
    from mainstay.env import SystemClock

    config = load_config(kubeconfig, context)
    return call_cluster(config, lambda client, screen: show_queues(client, screen, SystemClock().wall(), output))


async def show_queues(client: "Client", screen: Screen, now: "datetime", output: str = "text") -> int:
    """Do what the command does. Raises `ApiError`."""
    import msgspec

    from mainstay.api.kind_names import COMPONENT_STATES
    from mainstay.api.times import human_duration, parse_time
    from mainstay.cli.table_text import TableText

    found: list[dict[str, Any]] = []
    for state in (await client.list(COMPONENT_STATES)).items:
        status = state.get("status") or {}
        shared = {"component": state["metadata"]["name"], "observedAt": status.get("observedAt", "")}
        found += [{**shared, **queue} for queue in status.get("queues") or ()]
    found.sort(key=lambda queue: (-queue["ready"], -queue["terminal"], queue["component"], queue["name"]))
    if output == "json":
        screen.say(msgspec.json.format(msgspec.json.encode({"queues": found})).decode())
    elif not found:
        screen.note("No process has published its queues.")
    else:
        titles = ("queue", "ready", "oldest", "processing", "backing off", "terminal", "retries", "component", "age")
        rows = [
            (
                queue["name"],
                queue["ready"],
                f"{queue['oldestSeconds']:.1f}s" if queue["ready"] else "-",
                queue["processing"],
                queue["backingOff"],
                queue["terminal"],
                queue["retries"],
                queue["component"],
                human_duration(now - parse_time(queue["observedAt"])),
            )
            for queue in found
        ]
        for line in TableText(titles, is_coloured=screen.is_coloured).lines(rows, with_titles=True):
            screen.say(line)
        for name in dict.fromkeys(queue["name"] for queue in found if queue["terminal"]):
            for line in await _name_terminal(client, name):
                screen.note(line)
    return Exit.BLOCKED if any(queue["terminal"] for queue in found) else Exit.SATISFIED


async def _name_terminal(client: "Client", queue: str) -> list[str]:
    """The objects that a controller no longer retries: they have the condition `Stalled`. Raises `ApiError`."""
    from mainstay.api.object_key import ObjectKey
    from mainstay.api.pod_state import find_condition
    from mainstay.controllers.registry import CONTROLLERS
    from mainstay.loop.conditions import STALLED

    kind = next((each.kind for each in CONTROLLERS if each.name == queue), None)
    if kind is None:
        return [f"Terminal keys of {queue}: the condition {STALLED} of their objects says why."]
    lines = []
    for obj in (await client.list(kind)).items:
        said = find_condition(obj, STALLED) or {}
        if said.get("status") == "True":
            key = ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])
            lines.append(f"Terminal in {queue}: {kind.plural} {key}: {said.get('reason')}: {said.get('message')}")
    if len(lines) > TERMINAL_SHOWN:
        more = len(lines) - TERMINAL_SHOWN
        lines = [*lines[:TERMINAL_SHOWN], f"and {more} more {kind.plural} with the condition {STALLED}"]
    return lines
