"""The debug view of a workload: everything that is said of it, joined around one object and one generation. (SPEC O5)

    view = await debug(moment, DEPLOYMENTS, "risk-api", "risk")

For each replica that waits, the scheduler's last decision is made again: first as it was, then with all that it had not
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
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, PLACEMENT_POLICIES, PODS
from mainstay.api.progress import progress_of
from mainstay.controllers.repair.decide import COMPLETE
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.explain.debug.conclusion import command, concluded
from mainstay.explain.debug.view import (
    CacheSeen,
    Condition,
    Counts,
    DebugView,
    Finding,
    Held,
    Observed,
    Pending,
    Repair,
    Rollback,
    Writer,
)
from mainstay.explain.holds import holds_on
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import About
from mainstay.explain.story.refusals import Placing, is_placement, placing, recorded_words, refusal_words, would_place
from mainstay.explain.story.relevance import READ_BY_SCHEDULERS, matters
from mainstay.explain.story.scope import Family, Followed
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.why.answer import Answer, Verdict
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.explain.words import said
from mainstay.explain.writers import Known, Version
from mainstay.journal.keys import object_key_of
from mainstay.journal.record import ChangeRecord, DecisionRecord
from mainstay.journal.record import moment as time_of
from mainstay.scheduler.reasons import Reason

PENDING_MAX: Final = 20
"""Replicas whose last decision is made again."""
UNSEEN_MAX: Final = 50
"""Changes of a kind that are looked at, the latest ones."""
WRITERS_MAX: Final = 10
_VAGUE: Final = (Finding.COMPLETE, Finding.STARTING, Finding.NOT_MADE, Finding.UNKNOWN)
"""What counting replicas comes to; `why` looks at each of them."""


async def debug(moment: Moment, kind: KindName, name: str, namespace: str = "", *, generation: int = 0) -> DebugView:
    """The view at a moment; with a generation, as it was last seen. Raises `NothingKnown`."""
    known = Known(moment.journal, moment.revision)
    versions = await known.versions(kind.text, namespace, name)
    if generation:
        moment = await _moment_of(moment, versions, kind, name, generation)
        known = Known(moment.journal, moment.revision)
        versions = [each for each in versions if each.revision <= moment.revision]
    workload = await moment.get(kind, name, namespace)
    if workload is None:
        what = About(kind.text, name, namespace).words
        raise NothingKnown(
            f"there is no {what} at that moment. `mainstay timeline` tells of what is gone; --at names another moment."
        )
    view = await _Joining(moment, known, kind, workload, versions).view()
    return with_root_cause(view, await why(moment, kind, name, namespace))


def with_root_cause(view: DebugView, answer: Answer) -> DebugView:
    """The view, with what `why` says where the view itself only says that something is not there yet."""
    told = msgspec.structs.replace(view, root_cause=str(answer.cause), why_verdict=str(answer.verdict))
    if view.finding not in _VAGUE:
        return told
    if view.finding is Finding.COMPLETE and answer.cause is Cause.FIGHTING_WRITERS:
        return told  # Who writes what in turn is in the view; what is complete stays so.
    if answer.verdict is Verdict.SATISFIED:
        if view.finding is Finding.COMPLETE and view.counts.desired:
            return told
        # It has no replicas that could be missing, or needs none any more: a Service, a Node, a Job that is done.
        return msgspec.structs.replace(told, finding=Finding.COMPLETE, cause=answer.sentence, next="nothing")
    return msgspec.structs.replace(told, finding=Finding.ROOT_CAUSE, cause=answer.sentence, next=_advice(view, answer))


def _advice(view: DebugView, answer: Answer) -> str:
    """What cures it, if `why` knows; and in any case how to see more of it."""
    if answer.cures:
        cure = answer.cures[0]
        first = f"{cure.text}{f': {cure.command}' if cure.command and cure.command not in cure.text else ''}"
    else:
        first = answer.advice
    more = f"{command('why', view.about)} says more, {command('timeline', view.about)} how it came to this."
    return f"{first.rstrip('.')}. {more}" if first else more


async def _moment_of(moment: Moment, versions: Sequence[Version], kind: KindName, name: str, generation: int) -> Moment:
    """The last moment at which an object had a generation."""
    mine = [each for each in versions if _generation(each.after) == generation]
    if not mine:
        known = sorted({_generation(each.after) for each in versions} - {0})
        which = f"{known[0]} to {known[-1]}" if known else "none"
        raise NothingKnown(f"the journal has generation {which} of {kind.kind} {name}, and not {generation}")
    later = [each for each in versions if _generation(each.after) > generation]
    if not later:
        return moment
    return await Moment.at_revision(moment.journal, later[0].revision - 1)


class _Joining:
    """One view in the making."""

    def __init__(
        self, moment: Moment, known: Known, kind: KindName, workload: Object, versions: Sequence[Version]
    ) -> None:
        self._moment = moment
        self._known = known
        self._kind = kind
        self._workload = workload
        metadata = workload["metadata"]
        self._who = Followed(kind.text, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
        self._versions = [each for each in versions if each.object["metadata"].get("uid") == self._who.uid]
        self._family = Family(known, moment.revision, None)
        self._states: dict[str, Object] = {}
        self._lasts: dict[str, DecisionRecord] = {}
        """The last decision of each scheduler about one of the pods."""
        self._later: dict[tuple[str, int], Sequence[ChangeRecord]] = {}
        """Of a kind, after a revision."""
        self._unseen: dict[tuple[str, int], list[Version]] = {}

    async def view(self) -> DebugView:
        moment, workload = self._moment, self._workload
        self._states = {each["metadata"]["name"]: each for each in await moment.all(COMPONENT_STATES)}
        pods = await self._pods()
        pending, caches = await self._pending(pods)
        caches = [*caches, *await self._controllers()]
        status, metadata = workload.get("status") or {}, workload["metadata"]
        progress = progress_of(workload)
        counts = self._counts(pods)
        rollbacks = [*await self._policies(), *self._template()]
        holds = await holds_on(moment, self._kind, self._who.name, self._who.namespace)
        generation = metadata.get("generation") or 0
        repair = self._repair(generation)
        limit = progress.limited_by if progress is not None else None
        observed = status.get("observedGeneration")
        seen = int(observed) if observed is not None else generation
        held = tuple(Held(name=each.name, what=str(each.what), words=each.words) for each in holds)
        about = About(self._kind.text, self._who.name, self._who.namespace)
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
            conditions=tuple(self._conditions(generation)),
            holds=held,
            gaps=tuple(str(gap) for gap in gaps),
            notes=tuple(self._known.notes),
        )

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

    def _counts(self, pods: Sequence[Object]) -> Counts:
        spec = self._workload.get("spec") or {}
        active = [pod for pod in pods if pod_state.is_active(pod)]
        default = 1 if self._kind == PODS else len(active)
        desired = spec.get("replicas", spec.get("parallelism", default))
        bound = [pod for pod in active if pod_state.node_of(pod)]
        ready = [pod for pod in bound if pod_state.is_ready(pod)]
        return Counts(
            desired=int(desired),
            ready=len(ready),
            pending=len(active) - len(bound),
            starting=len(bound) - len(ready),
        )

    async def _pending(self, pods: Sequence[Object]) -> tuple[list[Pending], list[CacheSeen]]:
        waiting = [pod for pod in pods if pod_state.is_active(pod) and not pod_state.is_ready(pod)]
        if len(waiting) > PENDING_MAX:
            text = f"{len(waiting)} replicas are not ready; the first {PENDING_MAX} by name are told of"
            self._known.notes[text] = None
        found: list[Pending] = []
        caches: dict[tuple[str, str], CacheSeen] = {}
        for pod in waiting[:PENDING_MAX]:
            metadata = pod["metadata"]
            who = Followed(PODS.text, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))
            records = [each for each in await self._family.decisions(who) if is_placement(each)]
            records = [each for each in records if not each.subject.uid or each.subject.uid == who.uid]
            if pod_state.node_of(pod) or not records:
                found.append(_not_started(pod) if pod_state.node_of(pod) else _not_decided(pod))
                continue
            last = records[-1]
            self._lasts[last.component] = last
            made = await placing(self._moment.journal, last, self._known.past)
            words = recorded_words(last)
            if made is not None and made.is_same:
                words = refusal_words(made.refusals, made.nodes, made.scheduling.pod)
            elsewhere, seen = await self._with_all_seen(last, made)
            for each in seen:
                known = caches.get((each.component, each.kind))
                if known is None or (each.is_decisive and not known.is_decisive):
                    caches[each.component, each.kind] = each
            found.append(
                Pending(
                    pod=who.name,
                    uid=who.uid,
                    since=pod_state.created_at(pod),
                    reason=await self._reason(last, made),
                    words=words,
                    decision=last.id,
                    component=last.component,
                    at=time_of(last.now or last.at),
                    attempts=last.attempts,
                    would_go_to=elsewhere,
                )
            )
        return found, list(caches.values())

    async def _reason(self, record: DecisionRecord, made: Placing | None) -> str:
        """The reason that counts: a quota before a zone's skew, and so on, as the filters are told."""
        if made is None or not made.refusals or not made.is_same:
            return record.reasons[0] if record.reasons else record.outcome.reason
        by_quota = [each for each in made.refusals if each.reason is Reason.ZONE_QUOTA_EXCEEDED]
        if by_quota:
            zones = {each.detail.partition("/")[0] for each in by_quota}
            quotas = [
                each["metadata"]["name"]
                for each in made.scheduling.objects.zone_quotas
                if each["metadata"].get("namespace") == record.subject.namespace
                and (each.get("spec") or {}).get("zone") in zones
            ]
            return f"quota/{','.join(quotas)}"
        first = made.refusals[0]
        by = f"{first.plugin or 'scheduler'}/" if first.plugin != first.reason else ""
        return f"{by}{first.reason}{f' {first.detail}' if first.detail else ''}"

    # Caches.

    async def _with_all_seen(self, record: DecisionRecord, made: Placing | None) -> tuple[str, list[CacheSeen]]:
        """Where the pod would go with all that has changed since, and how far each cache was."""
        found: list[CacheSeen] = []
        everything: list[Version] = []
        for seen in record.view:
            if seen.kind not in READ_BY_SCHEDULERS:
                continue
            unseen = await self._changed_since(seen.kind, seen.revision)
            everything += unseen
            latest = await self._latest(seen.kind, seen.revision)
            is_decisive = bool(made is not None and made.is_same and unseen and would_place(made, unseen))
            behind = (self._moment.at - unseen[0].at).total_seconds() * 1000 if unseen else 0
            found.append(
                CacheSeen(
                    component=record.component,
                    kind=seen.kind,
                    seen=seen.revision,
                    says=self._says(record.component, seen.kind),
                    latest=latest,
                    behind_ms=max(int(behind), 0),
                    objects=tuple(dict.fromkeys(About(each.kind, each.key.name).words for each in unseen)),
                    is_decisive=is_decisive,
                )
            )
        node = would_place(made, everything) if made is not None and made.is_same and everything else ""
        return node, found

    async def _changed_since(self, kind: str, revision: int) -> list[Version]:
        """Writes that change what is decided from."""
        if (kind, revision) not in self._unseen:
            versions = []
            for change in (await self._changes(kind, revision))[-UNSEEN_MAX:]:
                where = object_key_of(change.key)
                version = await self._known.version(kind, where.namespace, where.name, change.revision)
                if version is not None and matters(version):
                    versions.append(version)
            self._unseen[kind, revision] = versions
        return self._unseen[kind, revision]

    async def _latest(self, kind: str, seen: int) -> int:
        """The last change of a kind that there has been; what was seen, if there was none since."""
        changes = await self._changes(kind, seen)
        return changes[-1].revision if changes else seen

    async def _changes(self, kind: str, after: int) -> Sequence[ChangeRecord]:
        if (kind, after) not in self._later:
            answer = await self._moment.journal.changes(kind=kind, after=after, until=self._moment.revision)
            self._known.gaps |= dict.fromkeys(answer.gaps)
            self._later[kind, after] = answer.records
        return self._later[kind, after]

    def _says(self, component: str, kind: str) -> int:
        status = (self._states.get(component) or {}).get("status") or {}
        return int((status.get("revisions") or {}).get(kind) or 0)

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
                        objects=(About(self._kind.text, self._who.name).words,),
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

    async def _policies(self) -> list[Rollback]:
        """The policies that the scheduler goes by, or that there are: when they were last changed, and who knows."""
        found = []
        for policy in await self._moment.all(PLACEMENT_POLICIES):
            name = policy["metadata"]["name"]
            versions = await self._known.versions(PLACEMENT_POLICIES.text, "", name)
            changed = [each for each in versions if each.before is None or _is_of_spec(each)]
            if not changed:
                continue
            last = changed[-1]
            earlier = [(each.after or {}).get("spec") for each in changed[:-2]]
            found.append(
                Rollback(
                    about=About(PLACEMENT_POLICIES.text, name),
                    version=str((policy.get("spec") or {}).get("policyVersion") or ""),
                    revision=last.revision,
                    at=last.at,
                    who=last.who,
                    is_rollback=(last.after or {}).get("spec") in earlier,
                    observed=tuple(self._policy_seen(name, last.revision)),
                )
            )
        return found

    def _policy_seen(self, name: str, revision: int) -> list[Observed]:
        seen: dict[str, Observed] = {}
        for component, state in self._states.items():
            policies = (state.get("status") or {}).get("policies") or {}
            if name in policies:
                at = int(policies[name])
                seen[component] = Observed(
                    component=component, revision=at, is_observed=at >= revision, source="ComponentState"
                )
        for component, record in self._lasts.items():
            for policy in record.policies:
                if policy.name == name and policy.revision >= seen.get(component, _NOT_SEEN).revision:
                    seen[component] = Observed(
                        component=component,
                        revision=policy.revision,
                        is_observed=policy.revision >= revision,
                        source=record.id,
                    )
        return sorted(seen.values(), key=lambda each: each.component)

    def _template(self) -> list[Rollback]:
        """Whether the workload itself went back to an earlier template."""
        if self._kind != DEPLOYMENTS:
            return []
        changed = [
            each
            for each in self._versions
            if each.after is not None and any(change.path[:2] == ("spec", "template") for change in each.changes)
        ]
        if not changed:
            return []
        last = changed[-1]
        earlier = [_template(each.before) for each in changed[:-1]]
        if _template(last.after) not in earlier:
            return []
        status = self._workload.get("status") or {}
        generation, observed = _generation(last.after), int(status.get("observedGeneration") or 0)
        return [
            Rollback(
                about=About(self._kind.text, self._who.name, self._who.namespace),
                revision=last.revision,
                at=last.at,
                who=last.who,
                is_rollback=True,
                observed=(
                    Observed(
                        component="deployment",
                        revision=last.revision if observed >= generation else 0,
                        is_observed=observed >= generation,
                        source="status.observedGeneration",
                    ),
                ),
            )
        ]

    def _repair(self, generation: int) -> Repair | None:
        state = self._states.get(REPAIR.name)
        if state is None:
            return None
        condition = pod_state.condition_of(state, COMPLETE)
        if condition is None:
            return None
        workloads = (state.get("status") or {}).get("workloads") or {}
        own = workloads.get(f"{self._kind.kind}/{self._who.namespace}/{self._who.name}") or {}
        observed = int(own.get("observedGeneration") or 0)
        return Repair(
            status=str(own.get(COMPLETE) or condition.get("status", "")),
            reason=str(own.get("reason") or condition.get("reason", "")),
            message=str(condition.get("message", "")),
            observed_generation=observed,
            is_current=bool(observed) and observed >= generation,
        )

    def _conditions(self, generation: int) -> list[Condition]:
        found = []
        for each in (self._workload.get("status") or {}).get("conditions") or ():
            observed = int(each.get("observedGeneration") or 0)
            found.append(
                Condition(
                    type=each.get("type", ""),
                    status=each.get("status", ""),
                    reason=each.get("reason") or "",
                    message=each.get("message") or "",
                    observed_generation=observed,
                    is_current=not observed or observed >= generation,
                )
            )
        return found


_NOT_SEEN: Final = Observed(component="", revision=0, is_observed=False, source="")


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
    return _waiting(pod, "NotDecidedYet", ("no scheduler has decided about it, as far as the journal knows",))


def _waiting(pod: Object, reason: str, words: tuple[str, ...]) -> Pending:
    metadata = pod["metadata"]
    created: datetime | None = pod_state.created_at(pod)
    return Pending(
        pod=metadata["name"],
        uid=metadata.get("uid", ""),
        since=created,
        reason=reason,
        words=words,
        node=pod_state.node_of(pod),
    )


def _is_of_spec(version: Version) -> bool:
    return any(change.path[0] == "spec" for change in version.changes)


def _template(obj: Any) -> Any:
    return ((obj or {}).get("spec") or {}).get("template")


def _generation(obj: Any) -> int:
    return int((obj or {}).get("metadata", {}).get("generation") or 0)


__all__ = ["DebugView", "Finding", "debug"]
