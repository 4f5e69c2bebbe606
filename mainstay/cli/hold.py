"""`mainstay hold`: pause a controller, evictions or a rollout, in your name and for a reason.

A Hold expires by itself; repeating the command extends it. The command does not change the Hold of another owner, but
names them.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mainstay.api.holds import LONGEST, HoldScope, ParsedHold, parse_hold
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, HOLDS, NAMESPACES
from mainstay.api.times import format_time
from mainstay.cli.cluster_access import MANAGER, Command, Screen, call_cluster, cluster_options, load_config
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.hold_target import HOLD, HoldTarget, describe_effect, parse_target, shown
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output, OutputFormat, OutputType, complete, print_objects

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.call import WriteOptions
    from mainstay.client.client import Client


class HoldDuration(Duration):
    """A duration that a Hold may have."""

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        length = super().convert(value, param, ctx)
        if not timedelta() < length <= LONGEST:
            self.fail(f"{value} must be more than 0 and at most {LONGEST.days} days", param, ctx)
        return length


def _complete(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mainstay.controllers.registry import CAN_BE_HELD

    words = ["evictions", "rollout/deploy/", *(f"controller/{name}" for name in sorted(CAN_BE_HELD))]
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


@click.command(cls=Command)
@click.argument("word", metavar="WHAT", shell_complete=_complete)
@click.option("--reason", required=True, metavar="TEXT", help="Reason, shown to everyone affected")
@click.option(
    "--for",
    "length",
    type=HoldDuration(),
    default="1h",
    show_default=True,
    metavar="DURATION",
    help="Duration: 30m, 2h, 3d (at most 7d)",
)
@click.option("--owner", default="", metavar="NAME", help="Responsible user  [default: your user name]")
@click.option("--name", default="", metavar="NAME", help="Name of the Hold  [default: from WHAT]")
@namespace_option
@click.option(
    "-o",
    "--output",
    type=OutputType(OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME),
    default=Output(),
    metavar="FORMAT",
    help="json, yaml, name  [default: a sentence]",
)
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    show_default=True,
    help="server: validate, but change nothing",
)
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
    """Pause a controller, evictions or a rollout.

    \b
        mainstay hold controller/deployment --reason "bad rollouts" --for 30m
        mainstay hold controller/scheduler --reason "moving nodes"
        mainstay hold evictions --reason "the switch flaps" --for 2h
        mainstay hold evictions -n shop --reason "sale weekend" --for 1d
        mainstay hold rollout/deploy/web --reason "5 % errors"

    A Hold expires by itself; `mainstay release` ends it earlier. `mainstay get holds` and `mainstay status` list the
    active ones.
    """
    from mainstay.env import SystemClock

    config = load_config(kubeconfig, context)
    target = parse_target(word, namespace, config.namespace)
    now, is_dry = SystemClock().wall(), dry_run == "server"
    new = build_hold(target, name, owner or find_user_name(config.user), reason, now, length)
    return call_cluster(config, lambda client, screen: create_hold(client, screen, new, now, output, is_dry=is_dry))


def find_user_name(
    of_kubeconfig: str, environ: Mapping[str, str] = os.environ, of_machine: Callable[[], str] | None = None
) -> str:
    """Find the user's name: from the shell, else from the machine, else from the kubeconfig.

    Cron and shells in containers set no variable, and a container may run as a user without a name. Raises
    `click.UsageError` if none of them knows it.
    """
    from mainstay.env import machine

    found = environ.get("USER") or environ.get("LOGNAME") or (of_machine or machine.user_name)() or of_kubeconfig
    if not found:
        raise click.UsageError("unknown user name: name the responsible user with --owner")
    return found


def build_hold(target: HoldTarget, name: str, owner: str, reason: str, now: datetime, length: timedelta) -> "Object":
    """Build the Hold. Its expiry is rounded up to a whole second, so that it is never too short."""
    until = format_time(now + length + timedelta(microseconds=999_999))
    spec = {**target.spec(), "owner": owner, "reason": reason, "expiresAt": until}
    return {
        "apiVersion": HOLDS.group_version,
        "kind": HOLDS.kind,
        "metadata": {"name": name or target.hold_name},
        "spec": spec,
    }


async def create_hold(
    client: "Client", screen: Screen, new: "Object", now: datetime, output: Output, *, is_dry: bool = False
) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    from mainstay.client.call import WriteOptions
    from mainstay.client.errors import AlreadyExists

    held = parse_hold(new)
    assert held is not None
    await _require_target(client, held)
    write = WriteOptions(field_manager=MANAGER, dry_run=is_dry)
    try:
        made, what = await client.create(HOLDS, new, write=write), "created"
    except AlreadyExists:
        made, what = await _extend(client, new, held, now, write), "changed"
    if not output.is_table:
        print_objects(screen, output, [(HOLD, complete(HOLD, made))], is_single=True)
        return Exit.SATISFIED
    screen.say(f"{shown(held.name)} {what}{' (server dry run)' if is_dry else ''}")
    if not is_dry:
        screen.note(f"{describe_effect(held)}\nTo end it earlier: mainstay release {held.name}")
    return Exit.SATISFIED


async def _extend(client: "Client", new: "Object", held: ParsedHold, now: datetime, write: "WriteOptions") -> "Object":
    """Extend the Hold of this name if it is the user's own, or has expired."""
    found = await client.get(HOLDS, held.name)
    before = parse_hold(found)
    if before is not None and (before.what, before.namespace, before.target) != (
        held.what,
        held.namespace,
        held.target,
    ):
        raise click.ClickException(
            f"Hold {held.name} exists for {before.what} {before.target_text}: choose another name with --name"
        )
    if before is not None and before.owner != held.owner and before.is_in_force(now):
        raise click.ClickException(
            f"Hold {held.name} is already active: {before.words}\n"
            f"Ask {before.owner}, end it with `mainstay release {held.name}`, or add a second one with --name."
        )
    fields = {field: new["spec"][field] for field in ("owner", "reason", "expiresAt")}
    metadata = {field: found["metadata"][field] for field in ("uid", "resourceVersion")}
    return await client.patch(HOLDS, held.name, "", {"metadata": metadata, "spec": fields}, write=write)


async def _require_target(client: "Client", held: ParsedHold) -> None:
    """Raises `ApiError` or `click.ClickException` if the target does not exist."""
    match held.what:
        case HoldScope.CONTROLLER:
            known = await _list_controllers(client)
            if held.target not in known:
                close = difflib.get_close_matches(held.target, known, n=1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise click.ClickException(
                    f"controller {held.target!r} not found{hint}\nKnown controllers: {', '.join(sorted(known))}"
                )
        case HoldScope.EVICTIONS if held.namespace:
            await client.get(NAMESPACES, held.namespace)
        case HoldScope.ROLLOUT:
            await client.get(DEPLOYMENTS, held.target, held.namespace)


async def _list_controllers(client: "Client") -> dict[str, None]:
    """List Mainstay's controllers, and those that other components report."""
    from mainstay.controllers.registry import CAN_BE_HELD

    known = dict.fromkeys(sorted(CAN_BE_HELD))
    for state in (await client.list(COMPONENT_STATES)).items:
        status: dict[str, Any] = state.get("status") or {}
        known |= dict.fromkeys(status.get("controllers") or ())
    return known
