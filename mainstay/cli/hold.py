"""`mainstay hold`: break glass. Stop a controller, evictions or a rollout for a while, in your name and for a reason.

A Hold ends by itself; who needs longer says so again. What somebody else holds is not taken over: they are named.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from mainstay.api.holds import LONGEST, Held, What, held_of
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import HOLDS
from mainstay.api.times import format_time
from mainstay.cli.cluster_access import MANAGER, Command, Screen, ask, cluster_options, config_for
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import HOLD, Target, meaning, shown, target_of
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Form, Output, OutputType, complete, print_objects
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.env import SystemClock, machine

_DEPLOYMENTS: Final = KindName("apps", "v1", "Deployment", "deployments", True)
_NAMESPACES: Final = KindName("", "v1", "Namespace", "namespaces", False)
_COMPONENT_STATES: Final = KindName("mainstay.dev", "v1", "ComponentState", "componentstates", False)


class Length(Duration):
    """A length of time, also in days."""

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, str) and value.endswith("d") and value[:-1].isdigit():
            length = timedelta(days=int(value[:-1]))
        else:
            length = super().convert(value, param, ctx)
        if not timedelta() < length <= LONGEST:
            self.fail(f"a Hold lasts for up to {LONGEST.days} days, and {value} is not in between", param, ctx)
        return length


def _complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mainstay.controllers.registry import CAN_BE_HELD

    words = ["evictions", "rollout/deploy/", *(f"controller/{name}" for name in sorted(CAN_BE_HELD))]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command(cls=Command)
@click.argument("word", metavar="WHAT", shell_complete=_complete)
@click.option("--reason", required=True, metavar="TEXT", help="Why. Whoever is held back by it will read this.")
@click.option(
    "--for",
    "length",
    type=Length(),
    default="1h",
    show_default=True,
    metavar="TIME",
    help="30m, 2h, 3d; a week at most.",
)
@click.option(
    "--owner",
    default="",
    metavar="NAME",
    help="Who answers for it.  [default: your user name]",
)
@click.option("--name", default="", metavar="NAME", help="Of the Hold.  [default: made of what is held]")
@namespace_option
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.JSON, Form.YAML, Form.NAME),
    default=Output(),
    metavar="FORM",
    help="json, yaml or name.  [default: a sentence]",
)
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", show_default=True)
@cluster_options
def hold(
    word: str,
    reason: str,
    length: timedelta,
    owner: str,
    name: str,
    namespace: str,
    output: Output,
    dry_run: str,
    kubeconfig: str,
    context: str,
) -> int:
    """Break glass: stop a controller, evictions or a rollout for a while.

    It ends by itself, or with `mainstay release`. What is held is shown by `mainstay get holds` and `mainstay status`.

    \b
        mainstay hold controller/deployment --reason "rollouts go wrong" --for 30m
        mainstay hold controller/scheduler --reason "nodes are being moved"
        mainstay hold evictions --reason "the switch flaps" --for 2h
        mainstay hold evictions -n shop --reason "a sale is on" --for 1d
        mainstay hold rollout/deploy/web --reason "errors at 5 %"
    """
    config = config_for(kubeconfig, context)
    target = target_of(word, namespace, config.namespace)
    now, is_dry = SystemClock().wall(), dry_run == "server"
    wish = wished(target, name, owner or user_name(config.user), reason, now, length)
    return ask(config, lambda client, screen: hold_it(client, screen, wish, now, output, is_dry=is_dry))


def user_name(
    of_kubeconfig: str, environ: Mapping[str, str] = os.environ, of_machine: Callable[[], str] = machine.user_name
) -> str:
    """Who is at work: as the shell says, as the machine says, else as whom the cluster is asked.

    Shells in containers and cron do not say, and a container may have a user that its machine has no name for. Raises
    `click.UsageError` if nobody says.
    """
    found = environ.get("USER") or environ.get("LOGNAME") or of_machine() or of_kubeconfig
    if not found:
        raise click.UsageError("it is not known who you are: name who answers for it, with --owner.")
    return found


def wished(target: Target, name: str, owner: str, reason: str, now: datetime, length: timedelta) -> Object:
    """The Hold that is asked for. Times are whole seconds: rounded up, so that it lasts as long as was said."""
    until = format_time(now + length + timedelta(microseconds=999_999))
    spec = {**target.spec(), "owner": owner, "reason": reason, "expiresAt": until}
    return {
        "apiVersion": HOLDS.group_version,
        "kind": HOLDS.kind,
        "metadata": {"name": name or target.hold_name},
        "spec": spec,
    }


async def hold_it(
    client: Client, screen: Screen, wish: Object, now: datetime, output: Output, *, is_dry: bool = False
) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    held = held_of(wish)
    assert held is not None
    await _require_target(client, held)
    write = WriteOptions(field_manager=MANAGER, dry_run=is_dry)
    try:
        made, what = await client.create(HOLDS, wish, write=write), "created"
    except AlreadyExists:
        made, what = await _anew(client, wish, held, now, write), "changed"
    if not output.is_table:
        print_objects(screen, output, [(HOLD, complete(HOLD, made))], is_single=True)
        return Exit.SATISFIED
    screen.say(f"{shown(held.name)} {what}{' (server dry run)' if is_dry else ''}")
    if not is_dry:
        screen.note(f"{meaning(held)}\nLet go of it earlier with: mainstay release {held.name}")
    return Exit.SATISFIED


async def _anew(client: Client, wish: Object, held: Held, now: datetime, write: WriteOptions) -> Object:
    """One of this name is there. What one holds oneself, or nobody any more, is held anew."""
    found = await client.get(HOLDS, held.name)
    before = held_of(found)
    if before is not None and (before.what, before.namespace, before.target) != (
        held.what,
        held.namespace,
        held.target,
    ):
        raise click.ClickException(
            f"Hold {held.name} holds something else: {before.what} {before.target_text}\nName this one with --name."
        )
    if before is not None and before.owner != held.owner and before.is_in_force(now):
        raise click.ClickException(
            f"it is held already, by Hold {held.name}: {before.words}\n"
            f"Talk to {before.owner}; or let go of it with `mainstay release {held.name}`; or hold it besides, so that "
            "it lasts until both are over, with --name."
        )
    fields = {field: wish["spec"][field] for field in ("owner", "reason", "expiresAt")}
    metadata = {field: found["metadata"][field] for field in ("uid", "resourceVersion")}
    return await client.patch(HOLDS, held.name, "", {"metadata": metadata, "spec": fields}, write=write)


async def _require_target(client: Client, held: Held) -> None:
    """Raises `ApiError` or `click.ClickException` if there is not what should be held."""
    match held.what:
        case What.CONTROLLER:
            known = await _controllers(client)
            if held.target not in known:
                close = difflib.get_close_matches(held.target, known, n=1)
                meant = f" Did you mean {close[0]}?" if close else ""
                raise click.ClickException(
                    f"there is no controller {held.target!r}.{meant} There are {', '.join(sorted(known))}"
                )
        case What.EVICTIONS if held.namespace:
            await client.get(_NAMESPACES, held.namespace)
        case What.ROLLOUT:
            await client.get(_DEPLOYMENTS, held.target, held.namespace)


async def _controllers(client: Client) -> dict[str, None]:
    """Ours, and those that others say they run."""
    from mainstay.controllers.registry import CAN_BE_HELD

    known = dict.fromkeys(sorted(CAN_BE_HELD))
    for state in (await client.list(_COMPONENT_STATES)).items:
        status: dict[str, Any] = state.get("status") or {}
        known |= dict.fromkeys(status.get("controllers") or ())
    return known
