"""The rows of Mainstay's own kinds, in `mainstay.dev`.

What a user asks for is in the spec and what has come of it in the status; where a kind may say a thing in either, the
status is newer and is read first.
"""

from datetime import datetime
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.tables.fields import at, flag, mapping, moment, text
from mainstay.api.tables.table import AGE, NAME, Cell, Filled, filled, of, table
from mainstay.api.tables.texts import NONE, plain, quantity
from mainstay.api.times import human_duration

_GROUP = "mainstay.dev"


def _told(name: str, otherwise: str = NONE) -> Cell:
    """What the status says, or else the spec."""

    def write(found: Object) -> str:
        return plain(at(found, f"status.{name}")) or plain(at(found, f"spec.{name}")) or otherwise

    return of(write)


def _is_active(found: Object, now: datetime) -> bool:
    return flag(found, "status.active", flag(found, "spec.active"))


def _workload(reservation: Object, now: datetime) -> str:
    """Whom room is held for: `Deployment/web`, or a name alone."""
    named: Any = at(reservation, "spec.workload")
    if isinstance(named, dict):
        return "/".join(part for part in (text(named, "kind"), text(named, "name")) if part) or NONE
    return plain(named) or NONE


def _expires(reservation: Object, now: datetime) -> str:
    """How long it still holds."""
    ends = moment(at(reservation, "spec.expiresAt"))
    if ends is None:
        return NONE
    return "expired" if ends <= now else human_duration(ends - now)


def _amounts(path: str) -> Cell:
    def write(quota: Object) -> str:
        amounts = mapping(quota, path)
        return ",".join(f"{name}={quantity(amounts[name])}" for name in sorted(amounts)) or NONE

    return of(write)


_ACTIVE: Filled = filled("Active", _is_active, "Whether it is in force.", holds="boolean")

TABLES = {
    (_GROUP, "Reservation"): table(
        NAME,
        filled("Node", _told("nodeName"), "Where room is held."),
        filled("Workload", _workload, "Whom it is held for."),
        filled("Phase", _told("phase", ""), "Held, used or let go."),
        filled("Expires", _expires, "How long it still holds."),
        AGE,
    ),
    (_GROUP, "ZoneQuota"): table(
        NAME,
        filled("Zone", _told("zone"), "The zone it limits."),
        filled("Hard", _amounts("spec.hard"), "How much may be used there."),
        filled("Used", _amounts("status.used"), "How much is used."),
        AGE,
    ),
    (_GROUP, "PlacementPolicy"): table(
        NAME, filled("Version", _told("policyVersion"), "Which version of it."), _ACTIVE, AGE
    ),
    (_GROUP, "PolicyRollout"): table(
        NAME,
        filled("Policy", _told("policy"), "What is rolled out."),
        filled("Stage", _told("stage"), "How far it has come."),
        AGE,
    ),
    (_GROUP, "AdmissionPolicy"): table(NAME, _ACTIVE, AGE),
    (_GROUP, "ComponentState"): table(
        NAME,
        filled("Term", _told("term"), "The lease that it leads under, and since which revision."),
        filled("Build", _told("build"), "What it was built from."),
        AGE,
    ),
}
