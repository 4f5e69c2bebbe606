"""What the debug view says of pods without a node: the last decision, replayed as it was and with all that it missed.

If only the second gives the pod a node, the cause is a cache that is behind, and not what the scheduler named: that is
what tells the one from the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.api.pod_state import parse_time_or_none
from mainstay.api.policy_scope import parse_scope, selects
from mainstay.api.scoped_pods import read_scoped_pod
from mainstay.explain.debug.view import CacheSeen, ObservedRevision, Pending, Rollback
from mainstay.explain.moment import Moment
from mainstay.explain.placements import recorded_words
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.story.scope import FollowedObject
from mainstay.explain.writers import JournalLookup, Version
from mainstay.journal.keys import parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord
from mainstay.scheduler.reasons import RefusalReason
from mainstay.scheduler.why.refusals import Placing, placing, refusal_words, would_place
from mainstay.scheduler.why.relevance import READ_BY_SCHEDULERS, matters

UNSEEN_MAX: Final = 50
"""Changes of a kind that are looked at, the latest ones."""


def _may_select(policy: Object, namespace: str, pods: Sequence[Object]) -> bool:
    """Whether a policy may apply to one of these pods, whatever its limit; without pods, to those of the namespace. One
    without a scope may: a scheduler names it."""
    scope = parse_scope(policy)
    if scope is None:
        return True
    if not pods:
        return not scope.namespaces or namespace in scope.namespaces
    whole = replace(scope, limit=None)
    return any(selects(whole, read_scoped_pod(pod)) for pod in pods)


class PendingPodViews:
    """For one view. `states` are the ComponentStates, by name."""

    def __init__(self, moment: Moment, known: JournalLookup, states: Mapping[str, Object]) -> None:
        self._moment = moment
        self._known = known
        self._states = states
        self._lasts: dict[str, DecisionRecord] = {}
        """The last decision of each scheduler about one of the pods."""
        self._later: dict[tuple[str, int], Sequence[ChangeRecord]] = {}
        """Of a kind, after a revision."""
        self._unseen: dict[tuple[str, int], list[Version]] = {}

    async def pending(
        self, pod: Object, who: FollowedObject, records: Sequence[DecisionRecord]
    ) -> tuple[Pending, list[CacheSeen]]:
        """A pod that schedulers have decided about, and how far their caches were."""
        last = records[-1]
        self._lasts[last.component] = last
        made = await placing(self._moment.journal, last, self._known.past)
        words = recorded_words(last)
        if made is not None and made.is_same:
            words = refusal_words(made.refusals, made.nodes, made.scheduling.pod)
        elsewhere, seen = await self._with_all_seen(last, made)
        found = Pending(
            pod=who.name,
            uid=who.uid,
            since=pod_state.created_at(pod),
            reason=await self._reason(last, made),
            words=words,
            decision=last.id,
            component=last.component,
            at=parse_time_or_none(last.now or last.at),
            attempts=last.attempts,
            would_go_to=elsewhere,
        )
        return found, seen

    async def policies(self, namespace: str, pods: Sequence[Object]) -> list[Rollback]:
        """The policies that pods of a workload may go by, active or not: when they were last changed, and who knows."""
        found = []
        for policy in await self._moment.all(PLACEMENT_POLICIES):
            name = policy["metadata"]["name"]
            if not _may_select(policy, namespace, pods):
                continue
            versions = await self._known.versions(PLACEMENT_POLICIES.text, "", name)
            changed = [each for each in versions if each.before is None or _is_of_spec(each)]
            if not changed:
                continue
            last = changed[-1]
            earlier = [(each.after or {}).get("spec") for each in changed[:-2]]
            found.append(
                Rollback(
                    about=StoryObject(PLACEMENT_POLICIES.text, name),
                    version=str((policy.get("spec") or {}).get("policyVersion") or ""),
                    revision=last.revision,
                    at=last.at,
                    who=last.who,
                    is_rollback=(last.after or {}).get("spec") in earlier,
                    observed=tuple(self._policy_seen(name, last.revision)),
                )
            )
        return found

    def _policy_seen(self, name: str, revision: int) -> list[ObservedRevision]:
        seen: dict[str, ObservedRevision] = {}
        for component, state in self._states.items():
            policies = (state.get("status") or {}).get("policies") or {}
            if name in policies:
                at = int(policies[name])
                seen[component] = ObservedRevision(
                    component=component, revision=at, is_observed=at >= revision, source="ComponentState"
                )
        for component, record in self._lasts.items():
            for policy in record.policies:
                if policy.name == name and policy.revision >= seen.get(component, _NOT_SEEN).revision:
                    seen[component] = ObservedRevision(
                        component=component,
                        revision=policy.revision,
                        is_observed=policy.revision >= revision,
                        source=record.id,
                    )
        return sorted(seen.values(), key=lambda each: each.component)

    async def _reason(self, record: DecisionRecord, made: Placing | None) -> str:
        """The reason that counts: a quota before a zone's skew, and so on, as the filters are told."""
        if made is None or not made.refusals or not made.is_same:
            return record.reasons[0] if record.reasons else record.outcome.reason
        by_quota = [each for each in made.refusals if each.reason is RefusalReason.ZONE_QUOTA_EXCEEDED]
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
                    objects=tuple(dict.fromkeys(StoryObject(each.kind, each.key.name).words for each in unseen)),
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
                where = parse_object_key(change.key)
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


def find_pending(moment: Moment, known: JournalLookup, states: Mapping[str, Object]) -> PendingPodViews:
    """For one debug view."""
    return PendingPodViews(moment, known, states)


_NOT_SEEN: Final = ObservedRevision(component="", revision=0, is_observed=False, source="")


def _is_of_spec(version: Version) -> bool:
    return any(change.path[0] == "spec" for change in version.changes)
