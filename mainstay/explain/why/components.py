"""Which components run: the schedulers and controllers that report it, how far they have come, and who leads them.

A component publishes its ComponentState every few seconds, and renews its Lease if it leads. What is older than that is
itself a sign. All of it is read as of the moment that is asked about.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, LEASES
from mainstay.api.pod_state import parse_time_or_none
from mainstay.explain.why.answer import AnswerSource
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.found import NOTHING, ago, clock
from mainstay.journal.record import moment
from mainstay.loop.component import CONTROLLERS_LEASE, LEASE_NAMESPACE, SCHEDULER_LEASE

SILENT_AFTER: Final = timedelta(seconds=30)
"""Three times as long as a component takes to publish its state while anything happens in the cluster."""
AT_ONCE: Final = timedelta(seconds=5)
"""What no component has looked at for so long is not just in progress."""

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEDULED_FROM: Final = "reservations.mainstay.dev"
_CONTROLLED_FROM: Final = "replicasets.apps"


@dataclass(frozen=True, slots=True)
class ObservedComponent:
    """A process that decides, as it was last heard of."""

    name: str
    revisions: Mapping[str, int]
    """By kind, what its cache had completely applied when it last said so."""
    term: str
    said_at: datetime | None
    """When it last said how far it is."""
    heard_at: datetime | None
    """When it last gave any sign: also by a decision, or by renewing its lease."""
    revision: int
    """Of its ComponentState."""

    @property
    def is_scheduler(self) -> bool:
        # By its name, as long as its caches are not all there.
        return not self.is_controllers and (_SCHEDULED_FROM in self.revisions or "scheduler" in self.name)

    @property
    def is_controllers(self) -> bool:
        return _CONTROLLED_FROM in self.revisions or "controllers" in self.name

    def is_heard(self, now: datetime) -> bool:
        return self.heard_at is not None and now - self.heard_at < SILENT_AFTER

    @property
    def evidence(self) -> AnswerSource:
        return AnswerSource(source="ComponentState", component=self.name, at=self.said_at, revision=self.revision)


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Who leads, by the Lease."""

    lease: str
    holder: str
    renewed_at: datetime | None
    until: datetime | None
    revision: int

    @property
    def who(self) -> str:
        """The process, without the part that makes each of its runs unique."""
        return self.holder.rpartition("_")[0] or self.holder

    def is_in_office(self, now: datetime) -> bool:
        return bool(self.holder) and self.until is not None and now <= self.until

    def is_late(self, now: datetime) -> bool:
        """It is in office, and has not renewed its lease for longer than it should: two renewals are missing."""
        if self.renewed_at is None or self.until is None:
            return False
        return self.is_in_office(now) and now - self.renewed_at > (self.until - self.renewed_at) / 2

    @property
    def evidence(self) -> AnswerSource:
        return AnswerSource(
            source=f"Lease {self.lease}", component=self.who, at=self.renewed_at, revision=self.revision
        )


@dataclass(frozen=True, slots=True)
class Absence:
    """No component is there to do it."""

    cause: Cause
    text: str
    """A sentence's worth, without its full stop."""
    since: datetime | None
    evidence: tuple[AnswerSource, ...] = ()


async def components(case: Case) -> tuple[ObservedComponent, ...]:
    """All that have ever published their state, sorted by name."""
    known: tuple[ObservedComponent, ...] | None = case.memo.get("components")
    if known is None:
        known = case.memo["components"] = await _components(case)
    return known


async def _components(case: Case) -> tuple[ObservedComponent, ...]:
    found = []
    leases = await _leases(case)
    for obj in await case.all(COMPONENT_STATES):
        status: Mapping[str, Any] = obj.get("status") or NOTHING
        name = obj["metadata"]["name"]
        said_at = parse_time_or_none(status.get("observedAt"))
        signs = [said_at, *(each.renewed_at for each in leases.values() if each.who == name)]
        if status.get("revisions"):
            signs.append(await _last_decision(case, name))
        heard = [each for each in signs if each is not None]
        found.append(
            ObservedComponent(
                name=name,
                revisions=status.get("revisions") or {},
                term=status.get("term") or "",
                said_at=said_at,
                heard_at=max(heard, default=None),
                revision=int(obj["metadata"].get("resourceVersion") or 0),
            )
        )
    return tuple(sorted(found, key=lambda each: each.name))


async def _last_decision(case: Case, component: str) -> datetime | None:
    found = await case.journal.decisions(component=component, before=case.before, limit=1)
    return moment(found.records[-1].at) if found.records else None


async def _leases(case: Case) -> dict[str, LeaseHolder]:
    found = {}
    for lease in await case.all(LEASES):
        if lease["metadata"].get("namespace") == LEASE_NAMESPACE:
            found[lease["metadata"]["name"]] = _leader(lease)
    return found


def _leader(lease: Object) -> LeaseHolder:
    spec: Mapping[str, Any] = lease.get("spec") or NOTHING
    renewed_at = parse_time_or_none(spec.get("renewTime"))
    lasts = timedelta(seconds=float(spec.get("leaseDurationSeconds") or 0))
    return LeaseHolder(
        lease=lease["metadata"]["name"],
        holder=str(spec.get("holderIdentity") or ""),
        renewed_at=renewed_at,
        until=None if renewed_at is None else renewed_at + lasts,
        revision=int(lease["metadata"].get("resourceVersion") or 0),
    )


async def no_controllers(case: Case) -> Absence | None:
    """Why no controllers are running; None if some are."""
    leases = await _leases(case)
    everybody = [each for each in await components(case) if each.is_controllers]
    terms = {each.term.partition("=")[0].rpartition("/")[2] for each in everybody if each.term}
    leaders = [leases[name] for name in sorted({CONTROLLERS_LEASE, *terms}) if name in leases]
    return _absence("controllers", leaders, everybody, case.now, Cause.NO_CONTROLLER)


async def no_scheduler(case: Case) -> Absence | None:
    """Why no scheduler is running; None if one is, as far as is known."""
    leases = await _leases(case)
    everybody = [each for each in await components(case) if each.is_scheduler]
    leaders = [leases[SCHEDULER_LEASE]] if SCHEDULER_LEASE in leases else []
    return _absence("scheduler", leaders, everybody, case.now, Cause.NO_SCHEDULER)


def _absence(
    what: str, leaders: list[LeaseHolder], everybody: list[ObservedComponent], now: datetime, cause: Cause
) -> Absence | None:
    if any(each.is_in_office(now) and not each.is_late(now) for each in leaders):
        return None
    heard = [each for each in everybody if each.is_heard(now)]
    is_plural = what.endswith("s")
    none, are = f"no {what}", "are" if is_plural else "is"
    if not everybody and not leaders:
        return Absence(cause, f"{none} {are} running, and none has ever reported", None)
    if not leaders:
        if heard:
            return None  # Those that share the work need no lease.
        last = max(everybody, key=lambda each: (each.heard_at or _LONG_AGO, each.name))
        text = f"{none} {are} running: {last.name} was last active at {clock(last.heard_at)}"
        text += f", {ago(last.heard_at, now)} ago"
        return Absence(cause, text, last.heard_at, (last.evidence,))
    leader = max(leaders, key=lambda each: (each.until or _LONG_AGO, each.lease))
    if not leader.holder:
        text = f"{none} {are} running: the lease {leader.lease} was released at {clock(leader.renewed_at)}"
        text += ", and no other instance has acquired it"
        return Absence(cause, text, leader.renewed_at, (leader.evidence,))
    if leader.is_late(now):
        lead = f"the leader of the {what}" if is_plural else f"the leading {what}"
        text = f"{lead}, {leader.who}, has not renewed its lease since {clock(leader.renewed_at)}"
        text += f"; another instance can take over at {clock(leader.until)}"
        return Absence(Cause.LEADER_LOST, text, leader.renewed_at, (leader.evidence,))
    candidates = [each.name for each in heard if each.name != leader.who]
    text = f"the lease {leader.lease} of {leader.who} expired at {clock(leader.until)}, {ago(leader.until, now)} ago"
    if candidates:
        have, others = "have" if is_plural else "has", "has" if len(candidates) == 1 else "have"
        text = f"the {what} {have} no leader: {text}, and {', '.join(candidates)} {others} not taken over yet"
        return Absence(Cause.LEADER_LOST, text, leader.until, (leader.evidence,))
    return Absence(
        cause, f"{none} {are} running: {text}, and no other instance has taken over", leader.until, (leader.evidence,)
    )
