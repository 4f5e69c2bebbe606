"""The rows of Mainstay's own kinds, in `mainstay.dev`.

What a user asks for is in the spec and what has come of it in the status; where a kind may say a thing in either, the
status is newer and is read first.
"""

from datetime import datetime
from typing import Any

from mainstay.api.holds import HoldPhase, parse_hold
from mainstay.api.kind import Object
from mainstay.api.objectives import BURNING
from mainstay.api.tables.fields import at, flag, mapping, moment, text
from mainstay.api.tables.table import AGE, NAME, Cell, Filled, count_at, filled, flag_at, of, table, text_at
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


def _held(hold: Object, now: datetime) -> str:
    """What is held: `deployment`, `every namespace`, `shop/web`."""
    held = parse_hold(hold)
    return NONE if held is None else held.target_text


def _held_for(hold: Object, now: datetime) -> str:
    """How long it still holds, by the clock: nothing has to be written when it ends."""
    held = parse_hold(hold)
    if held is None:
        return NONE
    return human_duration(held.expires_at - now) if held.is_in_force(now) else str(HoldPhase.EXPIRED)


def _names_of_settings(settings: Object, now: datetime) -> str:
    """What it sets: `resyncSeconds,retriesPerSecond`."""
    return ",".join(sorted(mapping(settings, "spec.queue"))) or NONE


def _objective_target(slo: Object, now: datetime) -> str:
    return f"{text(slo, 'spec.target.kind')}/{text(slo, 'spec.target.name')}"


def _parts(found: Object, path: str) -> list[dict[str, Any]]:
    """The objects in a list, whatever else is there."""
    value = at(found, path)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _burning(name: str, otherwise: str) -> Cell:
    """A field of the condition."""

    def write(slo: Object) -> str:
        said = [each for each in _parts(slo, "status.conditions") if each.get("type") == BURNING]
        return plain(said[0].get(name)) or otherwise if said else otherwise

    return of(write)


def _budget_left(slo: Object, now: datetime) -> str:
    found = [each.get("budgetLeftPercent") for each in _parts(slo, "status.objectives")]
    left = [each for each in found if isinstance(each, int)]
    return f"{min(left)}%" if left else NONE


def _amounts(path: str) -> Cell:
    def write(quota: Object) -> str:
        amounts = mapping(quota, path)
        return ",".join(f"{name}={quantity(amounts[name])}" for name in sorted(amounts)) or NONE

    return of(write)


def _decided_on(decision: Object, now: datetime) -> str:
    """What a decision is about: `Pod/web-1`."""
    kind, name = text(decision, "subject.kind"), text(decision, "subject.name")
    return f"{kind}/{name}" if name else kind or NONE


def _wrote(decision: Object, now: datetime) -> str:
    """What it wrote, or how much: `pods/web-1@918812`, or `none` if all its writes failed."""
    writes = [each for each in at(decision, "writes") or [] if isinstance(each, dict)]
    done = [each for each in writes if each.get("revision")]
    if not done:
        return f"{len(writes)} failed" if writes else NONE
    first = f"{plain(done[0].get('kind'))}/{plain(done[0].get('name'))}@{plain(done[0].get('revision'))}"
    return first if len(done) == 1 else f"{first} and {len(done) - 1} more"


_ACTIVE: Filled = filled("Active", _is_active, "Whether it is in force.", holds="boolean")


def _certificates(credential: Object, now: datetime) -> str:
    """How many certificates were issued that have not expired."""
    return str(len(_list_unexpired(credential, now)))


def _last_expiry(credential: Object, now: datetime) -> str:
    ends = [end for each in _list_unexpired(credential, now) if (end := moment(each.get("notAfter"))) is not None]
    return human_duration(max(ends) - now) if ends else NONE


def _list_unexpired(credential: Object, now: datetime) -> list[Object]:
    listed: Any = at(credential, "status.certificates")
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in found if (end := moment(each.get("notAfter"))) is not None and end > now]


def _revoked(credential: Object) -> str:
    before, serials = text(credential, "spec.revokedBefore"), at(credential, "spec.revokedSerialNumbers")
    if before:
        return f"before {before}"
    return f"{len(serials)} by serial number" if isinstance(serials, list) and serials else NONE


TABLES = {
    (_GROUP, "Credential"): table(
        NAME,
        filled("Certificates", _certificates, "How many were issued and have not expired."),
        filled("Expires", _last_expiry, "How long the last of them is good."),
        filled("Revoked", of(_revoked), "Which certificates of the user are refused."),
        AGE,
    ),
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
        filled("Policy", text_at("spec.policy", NONE), "What is rolled out."),
        filled("Stage", _told("stage"), "How far it has come."),
        filled("Gate", text_at("status.reason", NONE), "What it waits for, or how it has ended."),
        AGE,
    ),
    (_GROUP, "Hold"): table(
        NAME,
        filled("What", _told("what"), "What is held."),
        filled("Target", _held, "Which of them."),
        filled("Owner", _told("owner"), "Who answers for it."),
        filled("Left", _held_for, "How long it still holds."),
        filled("Reason", _told("reason"), "Why."),
        AGE,
    ),
    (_GROUP, "SamplingPolicy"): table(
        NAME,
        filled("Rules", count_at("spec.rules"), "How many rules it has.", holds="integer"),
        filled("Dry Run", flag_at("spec.dryRun"), "Whether everything is kept all the same.", holds="boolean"),
        filled("Incident Until", text_at("spec.incident.until", NONE), "Until when an incident was declared."),
        AGE,
    ),
    (_GROUP, "ServiceLevelObjective"): table(
        NAME,
        filled("Target", _objective_target, "What it is about."),
        filled("Burning", _burning("status", "Unknown"), "Whether a budget burns faster than it lasts."),
        filled("Reason", _burning("reason", NONE), "Why its condition BudgetBurning has that status."),
        filled("Budget", _budget_left, "What is left of the smallest budget of the last hour."),
        AGE,
    ),
    (_GROUP, "ControllerSettings"): table(
        NAME,
        filled("Set", _names_of_settings, "The parameters that it sets."),
        AGE,
    ),
    (_GROUP, "ComponentState"): table(
        NAME,
        filled("Role", text_at("status.role", NONE), "What part of the control plane it is."),
        filled("Term", _told("term"), "The lease that it leads under, and since which revision."),
        filled("Build", _told("build"), "What it was built from."),
        AGE,
    ),
}

DECISION_TABLE = table(
    AGE,
    filled("Component", text_at("component"), "Who decided."),
    filled("Object", _decided_on, "What it is about."),
    filled("Outcome", text_at("outcome"), "How it ended."),
    filled("Reason", text_at("reason", NONE), "Why it ended like that."),
    filled("Wrote", _wrote, "The objects that it wrote, and their revisions."),
    NAME,
    filled("Message", text_at("message"), "Human-readable message.", wide=True),
    filled("Kept", text_at("kept", NONE), "By which rule of sampling the record was kept.", wide=True),
)
