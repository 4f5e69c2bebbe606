"""The debug view of a workload: everything that is said of it, joined around one object and one generation. (SPEC O5)

    view = await debug(moment, rooms, DEPLOYMENTS, "risk-api", "risk")

For each replica that waits, the scheduler's last decision is replayed: first as it was, then with all that it had not
seen. If only the second gives the replica a node, the cause is a cache that is behind, and not the quota that the
scheduler names; that is what tells the one from the other. `finding`, `cause` and `next` are plain conclusions from
what is in the view (concluded).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    AUTOSCALERS,
    COMPONENT_STATES,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICASETS,
    SERVICE_LEVEL_OBJECTIVES,
)
from mainstay.api.objectives import find_targets
from mainstay.api.owners import is_controlled_by
from mainstay.api.progress import read_progress
from mainstay.explain.debug.conclusion import command, concluded
from mainstay.explain.debug.evidence import (
    collect_about_placement,
    collect_about_pods,
    collect_about_workload,
    find_unobserved_since,
    is_unobserved,
    read_node_evidence,
    view_evidence,
)
from mainstay.explain.debug.view import (
    CacheSeen,
    ConditionView,
    DebugFinding,
    DebugView,
    HoldView,
    Pending,
    ReplicaCounts,
    Rollback,
    Writer,
)
from mainstay.explain.holds import holds_on
from mainstay.explain.moment import Moment
from mainstay.explain.placements import is_placement
from mainstay.explain.registry import Rooms
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.story.scope import Family, FollowedObject
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.why.answer import Verdict, WhyAnswer
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.explain.words import said
from mainstay.explain.writers import JournalLookup, Version
from mainstay.journal.record import DecisionRecord
from mainstay.loop.evidence import Evidence

PENDING_MAX: Final = 20
"""Replicas whose last decision is replayed."""
UNSEEN_MAX: Final = 50
"""Changes of a kind that are looked at, the latest ones."""
WRITERS_MAX: Final = 10
_VAGUE: Final = (DebugFinding.COMPLETE, DebugFinding.STARTING, DebugFinding.NOT_MADE, DebugFinding.UNKNOWN)
"""What counting replicas comes to; `why` looks at each of them."""


async def debug(
    moment: Moment, rooms: Rooms, kind: KindName, name: str, namespace: str = "", *, generation: int = 0
) -> DebugView:
    """The view at a moment; with a generation, as it was last seen. Raises `NothingKnown`."""
    known = JournalLookup(moment.journal, moment.revision)
    versions = await known.versions(kind.text, namespace, name)
    if generation:
        moment = await _find_moment(moment, versions, kind, name, generation)
        known = JournalLookup(moment.journal, moment.revision)
        versions = [each for each in versions if each.revision <= moment.revision]
    workload = await moment.get(kind, name, namespace)
    if workload is None:
        what = StoryObject(kind.text, name, namespace).words
        raise NothingKnown(
            f"{what} not found at that time: `mainstay timeline` shows deleted objects, --at selects another time"
        )
    view = await _Joining(moment, rooms, known, kind, workload, versions).view()
    return with_root_cause(view, await why(moment, rooms, kind, name, namespace))


def with_root_cause(view: DebugView, answer: WhyAnswer) -> DebugView:
    """The view, with what `why` says where the view itself only says that something is not there yet."""
    told = msgspec.structs.replace(view, root_cause=str(answer.cause), why_verdict=str(answer.verdict))
    if view.finding not in _VAGUE:
        return told
    if view.finding is DebugFinding.COMPLETE and answer.cause is Cause.FIGHTING_WRITERS:
        return told  # Who writes what in turn is in the view; what is complete stays so.
    if answer.verdict is Verdict.SATISFIED:
        if view.finding is DebugFinding.COMPLETE and view.counts.desired:
            return told
        # It has no replicas that could be missing, or needs none any more: a Service, a Node, a Job that is done.
        return msgspec.structs.replace(told, finding=DebugFinding.COMPLETE, cause=answer.sentence, next="nothing to do")
    return msgspec.structs.replace(
        told, finding=DebugFinding.ROOT_CAUSE, cause=answer.sentence, next=_advice(view, answer)
    )


def _advice(view: DebugView, answer: WhyAnswer) -> str:
    """What cures it, if `why` knows; and in any case how to see more of it."""
    if answer.cures:
        cure = answer.cures[0]
        first = f"{cure.text}{f': {cure.command}' if cure.command and cure.command not in cure.text else ''}"
    else:
        first = answer.advice
    more = f"{command('why', view.about)} shows more, {command('timeline', view.about)} the history."
    return f"{first.rstrip('.')}. {more}" if first else more


async def _find_moment(
    moment: Moment, versions: Sequence[Version], kind: KindName, name: str, generation: int
) -> Moment:
    """The last moment at which an object had a generation."""
    mine = [each for each in versions if _generation(each.after) == generation]
    if not mine:
        known = sorted({_generation(each.after) for each in versions} - {0})
        which = f"{known[0]} to {known[-1]}" if known else "none"
        raise NothingKnown(f"generation {generation} of {kind.kind} {name} not found: the journal has {which}")
    later = [each for each in versions if _generation(each.after) > generation]
    if not later:
        return moment
    return await Moment.at_revision(moment.journal, later[0].revision - 1)


class _Joining:
    """One view in the making."""

    def __init__(
        self,
        moment: Moment,
        rooms: Rooms,
        known: JournalLookup,
        kind: KindName,
        workload: Object,
        versions: Sequence[Version],
    ) -> None:
        self._moment = moment
        self._rooms = rooms
        self._known = known
        self._kind = kind
        self._workload = workload
        metadata = workload["metadata"]
        self._who = FollowedObject(kind.text, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
        self._versions = [each for each in versions if each.object["metadata"].get("uid") == self._who.uid]
        self._family = Family(known, moment.revision, None)
        self._records: dict[str, Sequence[DecisionRecord]] = {}
        """Of the placements of pods that are not ready, by uid."""

    async def view(self) -> DebugView:
        moment, workload = self._moment, self._workload
        states = {each["metadata"]["name"]: each for each in await moment.all(COMPONENT_STATES)}
        self._placements = self._rooms.pending().find_pending(moment, self._known, states)
        pods = await self._pods()
        pending, caches = await self._pending(pods)
        caches = [*caches, *await self._controllers()]
        status, metadata = workload.get("status") or {}, workload["metadata"]
        progress = read_progress(workload)
        counts = self._counts(pods)
        rollbacks = [*await self._placements.policies(self._who.namespace, pods), *self._rollbacks()]
        holds = await holds_on(moment, self._rooms, self._kind, self._who.name, self._who.namespace)
        generation = metadata.get("generation") or 0
        repair = self._rooms.repair().find_repair(states, self._kind, self._who, generation)
        autoscalers = self._rooms.autoscalers().find_autoscalers(await moment.all(AUTOSCALERS), self._kind, self._who)
        limit = progress.limited_by if progress is not None else None
        observed = status.get("observedGeneration")
        seen = int(observed) if observed is not None else generation
        held = tuple(HoldView(name=each.name, what=str(each.what), words=each.words) for each in holds)
        about = StoryObject(self._kind.text, self._who.name, self._who.namespace)
        finding, cause, advice = concluded(
            about, generation, seen, counts, held, tuple(rollbacks), tuple(pending), tuple(caches), repair
        )
        gaps = dict.fromkeys([*self._known.gaps, *moment.gaps])
        return DebugView(
            about=about,
            uid=self._who.uid,
            generation=generation,
            observed_generation=seen,
            revision=moment.revision,
            at=moment.at,
            verdict=str(progress.verdict) if progress is not None else "",
            limited_by=f"{limit.stage}: {limit.reason} ({limit.component})" if limit is not None else "",
            counts=counts,
            finding=finding,
            cause=cause,
            next=advice,
            rollbacks=tuple(rollbacks),
            pending=tuple(pending),
            caches=tuple(caches),
            writers=tuple(self._writers()),
            repair=repair,
            autoscalers=tuple(autoscalers),
            evidence=view_evidence(await self._evidence(pods, list(states.values()))),
            conditions=tuple(self._conditions(generation)),
            holds=held,
            gaps=tuple(str(gap) for gap in gaps),
            notes=tuple(self._known.notes),
        )

    async def _evidence(self, pods: Sequence[Object], states: Sequence[Object]) -> list[Evidence]:
        moment, uid = self._moment, self._who.uid
        sets = [
            each
            for each in (await moment.all(REPLICASETS) if self._kind == DEPLOYMENTS else ())
            if is_controlled_by(each, uid)
        ]
        owned = [each for each in sets if (each.get("spec") or {}).get("replicas")]
        since = {}
        for kind, each in [(self._kind, self._workload), *[(REPLICASETS, each) for each in owned]]:
            if not is_unobserved(each):
                continue
            metadata = each["metadata"]
            versions = await self._known.versions(kind.text, metadata.get("namespace", ""), metadata["name"])
            if at := find_unobserved_since(each, versions):
                since[metadata.get("uid", "")] = at
        target = f"{self._kind.kind}/{self._who.name}"
        slos = [
            each
            for each in await moment.all(SERVICE_LEVEL_OBJECTIVES)
            if each["metadata"].get("namespace") == self._who.namespace and target in find_targets(each.get("spec"))
        ]
        found = [
            *collect_about_workload(
                self._kind,
                self._workload,
                owned,
                states,
                slos,
                moment.at,
                set_uid=self._find_set_uid(sets),
                unobserved_since=since,
            ),
            *collect_about_pods(pods),
        ]
        for pod in [each for each in pods if pod_state.is_active(each) and not pod_state.get_node_name(each)]:
            found += collect_about_placement(pod, self._records.get(pod["metadata"].get("uid", ""), ()))
        for name in sorted({name for pod in pods if (name := pod_state.get_node_name(pod))}):
            node = await moment.get(NODES, name)
            found += () if node is None else read_node_evidence(node)
        return found

    def _find_set_uid(self, sets: Sequence[Object]) -> str:
        """Of the ReplicaSet of the present template; empty if there is none."""
        if self._kind == REPLICASETS:
            return self._who.uid
        room = self._rooms.debug(self._kind)
        current = None if room is None else room.find_current_set(self._workload, sets)
        return "" if current is None else str(current["metadata"]["uid"])

    # Replicas.

    async def _pods(self) -> list[Object]:
        """The pods of the workload that are there, by name."""
        if self._kind == PODS:
            return [self._workload]
        uids = {self._who.uid}
        owners = [self._who]
        while owners:
            owners = [each for owner in owners for each in await self._family.owned(owner) if each.kind != PODS.text]
            uids |= {each.uid for each in owners}
        return [
            pod
            for pod in await self._moment.all(PODS)
            if any(each.get("uid") in uids for each in pod["metadata"].get("ownerReferences") or ())
        ]

    def _counts(self, pods: Sequence[Object]) -> ReplicaCounts:
        spec = self._workload.get("spec") or {}
        active = [pod for pod in pods if pod_state.is_active(pod)]
        default = 1 if self._kind == PODS else len(active)
        desired = spec.get("replicas", spec.get("parallelism", default))
        bound = [pod for pod in active if pod_state.get_node_name(pod)]
        ready = [pod for pod in bound if pod_state.is_ready(pod)]
        return ReplicaCounts(
            desired=int(desired),
            ready=len(ready),
            pending=len(active) - len(bound),
            starting=len(bound) - len(ready),
        )

    async def _pending(self, pods: Sequence[Object]) -> tuple[list[Pending], list[CacheSeen]]:
        waiting = [pod for pod in pods if pod_state.is_active(pod) and not pod_state.is_ready(pod)]
        if len(waiting) > PENDING_MAX:
            text = f"{len(waiting)} replicas are not ready; only the first {PENDING_MAX} by name are shown"
            self._known.notes[text] = None
        found: list[Pending] = []
        caches: dict[tuple[str, str], CacheSeen] = {}
        for pod in waiting[:PENDING_MAX]:
            metadata = pod["metadata"]
            who = FollowedObject(PODS.text, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
            records = [each for each in await self._family.decisions(who) if is_placement(each)]
            records = [each for each in records if not each.subject.uid or each.subject.uid == who.uid]
            self._records[who.uid] = records
            if pod_state.get_node_name(pod) or not records:
                found.append(_not_started(pod) if pod_state.get_node_name(pod) else _not_decided(pod))
                continue
            one, seen = await self._placements.pending(pod, who, records)
            found.append(one)
            for each in seen:
                known = caches.get((each.component, each.kind))
                if known is None or (each.is_decisive and not known.is_decisive):
                    caches[each.component, each.kind] = each
        return found, list(caches.values())

    async def _controllers(self) -> list[CacheSeen]:
        """The kinds of which the workload's own controllers have missed something."""
        found: dict[tuple[str, str], CacheSeen] = {}
        records: dict[str, DecisionRecord] = {}
        for record in await self._family.decisions(self._who):
            if not is_placement(record):
                records[record.component] = record
        for record in records.values():
            for seen in record.view:
                if seen.kind != self._kind.text:
                    continue
                later = [each for each in self._versions if each.revision > seen.revision and _is_of_spec(each)]
                if later:
                    found[record.component, seen.kind] = CacheSeen(
                        component=record.component,
                        kind=seen.kind,
                        seen=seen.revision,
                        latest=later[-1].revision,
                        behind_ms=max(int((self._moment.at - later[0].at).total_seconds() * 1000), 0),
                        objects=(StoryObject(self._kind.text, self._who.name).words,),
                    )
        return list(found.values())

    # Who else.

    def _writers(self) -> list[Writer]:
        last: dict[str, Writer] = {}
        for version in self._versions:
            changes = [each for each in version.changes if each.path[0] == "spec"]
            if not changes or version.before is None or version.after is None:
                continue
            name = version.who.name
            text = "; ".join(each.text for each in said(version.kind, changes))
            writes = last[name].writes + 1 if name in last else 1
            last[name] = Writer(who=version.who, text=text, at=version.at, revision=version.revision, writes=writes)
        return sorted(last.values(), key=lambda each: -each.revision)[:WRITERS_MAX]

    def _rollbacks(self) -> list[Rollback]:
        room = self._rooms.debug(self._kind)
        return [] if room is None else room.rollbacks(self._kind, self._workload, self._versions)

    def _conditions(self, generation: int) -> list[ConditionView]:
        found = []
        for each in (self._workload.get("status") or {}).get("conditions") or ():
            observed = int(each.get("observedGeneration") or 0)
            found.append(
                ConditionView(
                    type=each.get("type", ""),
                    status=each.get("status", ""),
                    reason=each.get("reason") or "",
                    message=each.get("message") or "",
                    observed_generation=observed,
                    is_current=not observed or observed >= generation,
                )
            )
        return found


def _not_started(pod: Object) -> Pending:
    """It has a node, and is not ready: what its containers say."""
    status = pod.get("status") or {}
    reason, words = "Starting", []
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting or ended:
            reason = str(waiting.get("reason") or ended.get("reason") or reason)
            words.append(f"container {each.get('name', '')}: {reason} {waiting.get('message') or ''}".strip())
    return _waiting(pod, reason, tuple(words))


def _not_decided(pod: Object) -> Pending:
    return _waiting(pod, "NotDecidedYet", ("the journal has no scheduling decision about it",))


def _waiting(pod: Object, reason: str, words: tuple[str, ...]) -> Pending:
    metadata = pod["metadata"]
    created: datetime | None = pod_state.created_at(pod)
    return Pending(
        pod=metadata["name"],
        uid=metadata.get("uid", ""),
        since=created,
        reason=reason,
        words=words,
        node=pod_state.get_node_name(pod),
    )


def _is_of_spec(version: Version) -> bool:
    return any(change.path[0] == "spec" for change in version.changes)


def _generation(obj: Any) -> int:
    return int((obj or {}).get("metadata", {}).get("generation") or 0)


__all__ = ["DebugFinding", "DebugView", "debug"]
