"""What `hold` and `release` share: how users name the target of a Hold, and how its effect is described.

    controller/NAME          a controller, or `scheduler`
    evictions                in all namespaces, or in that of -n
    rollout/deploy/NAME      of a Deployment, in the namespace of -n or of the kubeconfig

The default name of a Hold comes from its target (`api.holds.build_hold_name`), so a second user who holds the same
target sees the first Hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from mainstay.api.holds import HoldScope, ParsedHold, build_hold_name, in_force
from mainstay.api.kind_names import HOLDS
from mainstay.api.times import human_duration
from mainstay.cli.kinds import KnownKind

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.client import Client

HOLD: Final = KnownKind(HOLDS, "hold", (), ("mainstay",), ())
FORMS: Final = "controller/NAME, evictions or rollout/deploy/NAME"
_DEPLOYMENT: Final = ("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps")
_EVICTIONS: Final = ("evictions", "eviction")


@dataclass(frozen=True, slots=True)
class HoldTarget:
    """What a Hold pauses."""

    what: HoldScope
    name: str = ""
    namespace: str = ""

    @property
    def hold_name(self) -> str:
        return build_hold_name(self.what, self.name, self.namespace)

    def spec(self) -> "Object":
        given = {"name": self.name, "namespace": self.namespace}
        if self.what is HoldScope.ROLLOUT:
            given["kind"] = "Deployment"
        return {"what": str(self.what), "target": {field: value for field, value in given.items() if value}}


def parse_target(word: str, given_namespace: str, default_namespace: str) -> HoldTarget:
    """Parse the target on a command line. Raises `click.UsageError`."""
    first, _, rest = word.partition("/")
    match first.lower():
        case "controller" | "controllers" if rest and "/" not in rest:
            if given_namespace:
                raise click.UsageError("a controller has no namespace: remove -n")
            return HoldTarget(HoldScope.CONTROLLER, rest)
        case each if each in _EVICTIONS and not rest:
            return HoldTarget(HoldScope.EVICTIONS, "", given_namespace)
        case "rollout" | "rollouts" if rest:
            kind, slash, name = rest.partition("/")
            if not slash:
                kind, name = _DEPLOYMENT[0], rest
            if kind.lower() not in _DEPLOYMENT:
                raise click.UsageError(f"a rollout must be of a Deployment, not {kind!r}: use rollout/deploy/NAME")
            if name and "/" not in name:
                return HoldTarget(HoldScope.ROLLOUT, name, given_namespace or default_namespace)
    raise click.UsageError(f"WHAT must be {FORMS}, not {word!r}")


def describe_effect(held: ParsedHold) -> str:
    """Describe what does not happen while the Hold is active."""
    match held.what:
        case HoldScope.CONTROLLER:
            return f"Controller {held.target} is paused until {held.until}. It catches up afterwards."
        case HoldScope.EVICTIONS:
            where = f" in namespace {held.namespace}" if held.namespace else ""
            return f"Evictions{where} are paused until {held.until}, by request and because of node failures."
        case HoldScope.ROLLOUT:
            return f"The rollout of {held.target_text} is paused until {held.until}. Scaling still works."


async def list_holds(client: "Client", now: datetime) -> tuple[ParsedHold, ...]:
    """List the active Holds; none if the server cannot answer."""
    from mainstay.client.errors import ApiError

    try:
        return tuple(in_force((await client.list(HOLDS)).items, now))
    except ApiError:
        return ()


def render_holds(holds: Sequence[ParsedHold], now: datetime) -> list[str]:
    """Render the Holds for `mainstay status`; empty without any."""
    if not holds:
        return []
    rows = [("HOLD", "OWNER", "LEFT", "REASON")]
    for held in holds:
        what = f"{held.what.lower()} {held.target_text}".replace("evictions every namespace", "evictions everywhere")
        rows.append((what, held.owner, human_duration(held.expires_at - now), held.reason))
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(3)]
    shown_rows = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[3] for row in rows]
    return ["", *shown_rows]


def shown(name: str) -> str:
    return HOLD.shown(name)
