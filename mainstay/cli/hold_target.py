"""What `hold` and `release` have in common: how people name what is held, and what that means in words.

    controller/NAME          a controller, or `scheduler`
    evictions                everywhere; with -n in one namespace
    rollout/deploy/NAME      of a Deployment, in the namespace of -n or of the kubeconfig

Two who hold the same meet, because a Hold is called by what it holds unless somebody names it (`api.holds.name_of`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import click

from mainstay.api.holds import Held, What, in_force, name_of
from mainstay.api.kind import Object
from mainstay.api.kind_names import HOLDS
from mainstay.api.times import human_duration
from mainstay.cli.kinds import KnownKind
from mainstay.client.client import Client
from mainstay.client.errors import ApiError

HOLD: Final = KnownKind(HOLDS, "hold", (), ("mainstay",), ())
FORMS: Final = "controller/NAME, evictions or rollout/deploy/NAME"
_DEPLOYMENT: Final = ("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps")
_EVICTIONS: Final = ("evictions", "eviction")


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be held."""

    what: What
    name: str = ""
    namespace: str = ""

    @property
    def hold_name(self) -> str:
        return name_of(self.what, self.name, self.namespace)

    def spec(self) -> Object:
        given = {"name": self.name, "namespace": self.namespace}
        if self.what is What.ROLLOUT:
            given["kind"] = "Deployment"
        return {"what": str(self.what), "target": {field: value for field, value in given.items() if value}}


def target_of(word: str, said_namespace: str, usual_namespace: str) -> Target:
    """What a word of the command line means. Raises `click.UsageError`."""
    first, _, rest = word.partition("/")
    match first.lower():
        case "controller" | "controllers" if rest and "/" not in rest:
            if said_namespace:
                raise click.UsageError("a controller has no namespace: leave out -n.")
            return Target(What.CONTROLLER, rest)
        case each if each in _EVICTIONS and not rest:
            return Target(What.EVICTIONS, "", said_namespace)
        case "rollout" | "rollouts" if rest:
            kind, slash, name = rest.partition("/")
            if not slash:
                kind, name = _DEPLOYMENT[0], rest
            if kind.lower() not in _DEPLOYMENT:
                raise click.UsageError(f"only rollouts of Deployments can be held, and {kind!r} is none.")
            if name and "/" not in name:
                return Target(What.ROLLOUT, name, said_namespace or usual_namespace)
    raise click.UsageError(f"{word!r} cannot be held: write {FORMS}.")


def meaning(held: Held) -> str:
    """What does not happen while it is held, as a sentence."""
    match held.what:
        case What.CONTROLLER:
            return f"{held.target} does nothing until {held.until}. What is to be done waits, and is done afterwards."
        case What.EVICTIONS:
            where = f" of namespace {held.namespace}" if held.namespace else ""
            return f"No pod{where} is evicted until {held.until}, by request or because of its node."
        case What.ROLLOUT:
            return f"The rollout of {held.target_text} stays as it is until {held.until}. It can still be scaled."


async def holds_of(client: Client, now: datetime) -> tuple[Held, ...]:
    """Those in force; none if the server cannot say for now."""
    try:
        return tuple(in_force((await client.list(HOLDS)).items, now))
    except ApiError:
        return ()


def holds_text(holds: Sequence[Held], now: datetime) -> list[str]:
    """For `mainstay status`: nothing if nothing is held."""
    if not holds:
        return []
    rows = [("HELD", "BY", "LEFT", "WHY")]
    for held in holds:
        what = f"{held.what.lower()} {held.target_text}".replace("evictions every namespace", "evictions everywhere")
        rows.append((what, held.owner, human_duration(held.expires_at - now), held.reason))
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(3)]
    shown_rows = ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[3] for row in rows]
    return ["", *shown_rows]


def shown(name: str) -> str:
    return HOLD.shown(name)
