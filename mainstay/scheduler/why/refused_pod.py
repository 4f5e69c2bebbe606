"""Why no node took a pod: the replayed decision, the dominant reason, and whether it still holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.explain.rebuild import CannotRebuild
from mainstay.explain.why.answer import AnswerSource, CureFound, Involved, Staleness, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.components import components, no_scheduler
from mainstay.explain.why.found import (
    Finding,
    ago,
    broken,
    build_source,
    clock,
    listed,
    sentence,
    shortened,
    unknown,
    waiting,
    written,
)
from mainstay.journal.keys import parse_object_key
from mainstay.journal.record import DecisionRecord, moment
from mainstay.scheduler.reasons import RefusalReason, Unschedulable, find_gravest
from mainstay.scheduler.report import PodConditionReason
from mainstay.scheduler.why.cures.search import find_cures
from mainstay.scheduler.why.dominant_reason import Judged, judged
from mainstay.scheduler.why.placement import ExplainedPlacement, Scheduling, explained, scheduling
from mainstay.scheduler.why.staleness import SOON, Turned, objects_now, staleness, turned, unseen_until_now

CURES_SHOWN: Final = 3


@dataclass(slots=True)
class UnplacedPod:
    """The last of some decisions about a pod, by which no node took it. `found` says why."""

    case: Case
    pod: Object
    who: str
    records: list[DecisionRecord]

    async def found(self) -> Finding:
        case, last = self.case, self.records[-1]
        stale = await staleness(case, last)
        try:
            then = await scheduling(case.journal, last, case.past)
        except CannotRebuild as error:
            return self._as_recorded(stale, f"decision {last.id} is not replayable: {error}")
        for missing in then.missing:
            case.notes[f"scheduler memory at {clock(moment(last.at))}: {missing}"] = None
        placement = explained(then)
        now = await objects_now(case, then)
        changed = turned(then, now, self.pod, await unseen_until_now(case, last), moment(last.now or last.at))
        if changed is not None:
            return await self._turned(then, placement, changed, stale)
        if not isinstance(placement.decision, Unschedulable):
            note = f"decision {last.id} replays differently: the journal lacks some of its inputs"
            return self._as_recorded(stale, note)
        heard = await case.rooms.nodes().last_heard(case, (node["metadata"]["name"] for node in then.objects.nodes))
        found = judged(then.objects, then.pod, then.policy, then.seed, placement.refusals, heard)
        cures = tuple(
            CureFound(each.sentence, verified=True, node=each.node, command=each.command)
            for each in find_cures(now, self.pod, then.policy, then.seed)[:CURES_SHOWN]
        )
        return await self._told(found, placement, stale, cures)

    async def _told(
        self, found: Judged, placement: ExplainedPlacement, stale: tuple[Staleness, ...], cures: tuple[CureFound, ...]
    ) -> Finding:
        last, since = self.records[-1], self._since()
        others = f" (others: {'; '.join(found.others[:2])})" if found.others else ""
        text = shortened(f"{self.who} has no node: {found.text}{others}", 360)
        if found.cause is Cause.NODE_AFFINITY and not found.others:
            text = f"{self.who} has no node: {found.text}"
        total = len(placement.verdicts)
        reasons = "; ".join(f"{each.count} {each.text}" for each in found.nodes[:4])
        link = broken("filters", f"0/{total} nodes: {reasons}", build_source(last))
        return Finding(
            cause=found.cause,
            sentence=sentence(text),
            verdict=found.verdict,
            since=since,
            chain=(link,),
            nodes=found.nodes,
            each_node=found.each_node,
            cures=cures,
            involved=await self._involved(found),
            staleness=stale,
        )

    def _since(self) -> datetime:
        """When the refusals in a row began."""
        since = self.records[-1]
        for each in reversed(self.records):
            if each.outcome.reason != PodConditionReason.UNSCHEDULABLE:
                break
            since = each
        return moment(since.at)

    async def _involved(self, found: Judged) -> tuple[Involved, ...]:
        """Who made it so: who cordoned or tainted a node, who set the quota."""
        case = self.case
        made: list[Involved] = []
        if found.quota:
            namespace = self.pod["metadata"].get("namespace") or ""
            versions = await case.versions("zonequotas.mainstay.dev", namespace, found.quota)
            if changes := [each for each in versions if any(one.path[:1] == ("spec",) for one in each.changes)]:
                last = changes[-1]
                text = f"set ZoneQuota {found.quota} at {clock(last.at)}"
                made.append(Involved(last.who.name, text, (written(last),)))
        if found.cause in (Cause.NODE_CORDONED, Cause.UNTOLERATED_TAINT):
            word = "cordoned" if found.cause is Cause.NODE_CORDONED else "tainted"
            field = "unschedulable" if found.cause is Cause.NODE_CORDONED else "taints"
            for name in found.about[:2]:
                versions = await case.versions(NODES.text, "", name)
                if changes := [each for each in versions if any(field in one.path for one in each.changes)]:
                    last = changes[-1]
                    made.append(Involved(last.who.name, f"{word} {name} at {clock(last.at)}", (written(last),)))
        return tuple(made)

    async def _turned(
        self, then: Scheduling, placement: ExplainedPlacement, changed: Turned, stale: tuple[Staleness, ...]
    ) -> Finding:
        """By now a node would take it, and no decision says so yet."""
        case, last = self.case, self.records[-1]
        kind = changed.kind.partition(".")[0]
        name = str(parse_object_key(changed.change.key))
        changed_at, decided_at = moment(changed.change.at), moment(last.now or last.at)
        age = case.now - changed_at
        absent = await no_scheduler(case)
        if absent is not None and age > SOON:
            text = f"{self.who} would fit on {changed.node} now, but {absent.text}"
            link = broken("scheduler", absent.text, *absent.evidence)
            return Finding(
                cause=absent.cause,
                sentence=sentence(text),
                verdict=Verdict.BLOCKED if absent.cause is Cause.NO_SCHEDULER else Verdict.WAITING,
                since=absent.since,
                chain=(link,),
                staleness=stale,
            )
        evidence = (
            build_source(last),
            AnswerSource(revision=changed.change.revision, at=changed_at, source=f"{kind} {name}"),
        )
        if not changed.is_before and age <= SOON:
            since = f"since {_one(kind)} {name} changed, {ago(changed_at, case.now)} ago"
            text = f"{self.who} would fit on {changed.node} {since}"
            link = waiting("scheduler", "has not retried yet", *evidence)
            return Finding(
                cause=Cause.QUEUED,
                sentence=sentence(f"{text}, and the scheduler has not retried yet"),
                verdict=Verdict.WAITING,
                chain=(link,),
                staleness=stale,
            )
        was = ""
        if isinstance(placement.decision, Unschedulable):
            was = judged(then.objects, then.pod, then.policy, then.seed, placement.refusals).text
        when = "before it decided" if changed.is_before else "after it last decided"
        text = (
            f"{self.who} has no node because the scheduler has not observed the change of {_one(kind)} {name} yet: "
            f"it has seen {kind} up to revision {changed.seen}, the change is {changed.change.revision}, made {when}, "
            f"{ago(changed_at, case.now)} ago; with it, the pod would fit on {changed.node}"
        )
        entry = Staleness(
            changed.kind,
            changed.seen,
            changed.change.revision,
            max(
                int((decided_at if changed.is_before else case.now).timestamp() * 1000 - changed_at.timestamp() * 1000),
                0,
            ),
            is_decisive=True,
        )
        rest = tuple(each for each in stale if each.kind != changed.kind)
        link = broken("view", f"{kind} at {changed.seen}, and {name} changed at {changed.change.revision}", *evidence)
        notes = (f"last decision: {shortened(was, 200)}",) if was else ()
        behind = [each for each in await components(case) if each.is_scheduler]
        return Finding(
            cause=Cause.STALE_VIEW,
            sentence=sentence(text),
            verdict=Verdict.WAITING,
            since=changed_at,
            chain=(link,),
            staleness=(entry, *rest),
            notes=notes,
            involved=tuple(
                Involved(
                    each.name,
                    f"reported at {clock(each.said_at)} that it has seen {kind} up to {known}",
                    (each.evidence,),
                )
                for each in behind
                if (known := each.revisions.get(changed.kind)) is not None
            ),
        )

    def _as_recorded(self, stale: tuple[Staleness, ...], why_not: str) -> Finding:
        """The words of the record itself: without the objects nothing more can be said."""
        last = self.records[-1]
        cause = _cause_in(last.reasons)
        message = shortened(last.outcome.message or listed(last.reasons), 240)
        self.case.gaps[why_not] = None
        return Finding(
            cause=cause,
            sentence=sentence(f"{self.who} has no node: {message}"),
            verdict=Verdict.WAITING if cause is not Cause.NOT_RECORDED else Verdict.INCOMPLETE,
            since=self._since(),
            chain=(unknown("filters", listed(last.reasons, 4), build_source(last)),),
            staleness=stale,
        )


def _one(kind: str) -> str:
    return {"zonequotas": "zonequota", "nodes": "node", "pods": "pod", "reservations": "reservation"}.get(kind, kind)


_CAUSES: Final[Mapping[str, Cause]] = {
    RefusalReason.INSUFFICIENT_RESOURCE: Cause.INSUFFICIENT_RESOURCES,
    RefusalReason.NODE_TOO_SMALL: Cause.NODE_TOO_SMALL,
    RefusalReason.HELD_BY_GHOSTS: Cause.HELD_BY_GHOSTS,
    RefusalReason.NODE_AFFINITY: Cause.NODE_AFFINITY,
    RefusalReason.UNTOLERATED_TAINT: Cause.UNTOLERATED_TAINT,
    RefusalReason.UNSCHEDULABLE_NODE: Cause.NODE_CORDONED,
    RefusalReason.PORT_TAKEN: Cause.PORT_TAKEN,
    RefusalReason.ZONE_QUOTA_EXCEEDED: Cause.ZONE_QUOTA_EXCEEDED,
    RefusalReason.RESERVED_ELSEWHERE: Cause.RESERVED_ELSEWHERE,
    RefusalReason.TOPOLOGY_LABEL_MISSING: Cause.TOPOLOGY_LABEL_MISSING,
    RefusalReason.SKEW_TOO_LARGE: Cause.TOPOLOGY_SPREAD,
    RefusalReason.ZONE_SKEW_TOO_LARGE: Cause.POLICY_SPREAD,
    RefusalReason.NO_NODES: Cause.NO_NODES,
}


def cause_of_reason(reason: str) -> Cause:
    """What a reason of the scheduler comes to."""
    return _CAUSES.get(reason, Cause.NOT_RECORDED)


def _cause_in(reasons: tuple[str, ...]) -> Cause:
    """The gravest of the reasons that a record names: `ZoneQuotaExceeded zone-c/cpu ×4`."""
    return cause_of_reason(find_gravest([each.partition(" ")[0] for each in reasons]))
