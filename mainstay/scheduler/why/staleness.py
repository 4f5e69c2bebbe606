"""How old the view of a decision was, and whether that mattered.

A decision names the revision of each kind that it had seen. What was written to that kind after it, and before the
decision, it did not know of. That is usual, and lasts for milliseconds. It matters if, with what was missing, the
decision would have been another one: then the cause is not what the decision says, but that it was made too early.

A change from after the decision counts as well, once it is old enough that it should have been looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.explain.why.answer import Staleness
from mainstay.explain.why.case import Case
from mainstay.journal.keys import parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord, moment
from mainstay.scheduler.reasons import Placed
from mainstay.scheduler.what_if import Objects, what_if
from mainstay.scheduler.why.placement import Scheduling

SOON: Final = timedelta(seconds=2)
"""So long after a change that would help, a scheduler that has seen it has looked again."""
_PARTS: Final[dict[str, tuple[KindName, str]]] = {
    NODES.text: (NODES, "nodes"),
    PODS.text: (PODS, "pods"),
    RESERVATIONS.text: (RESERVATIONS, "reservations"),
    ZONE_QUOTAS.text: (ZONE_QUOTAS, "zone_quotas"),
}


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a decision did not know, of one kind."""

    kind: str
    seen: int
    changes: tuple[ChangeRecord, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of what has changed, the latest first."""
        found = [parse_object_key(each.key) for each in reversed(self.changes)]
        return tuple(dict.fromkeys(str(each) for each in found))


@dataclass(frozen=True, slots=True)
class Turned:
    """What would turn the decision."""

    kind: str
    names: tuple[str, ...]
    """The objects of that kind that were changed and not seen."""
    change: ChangeRecord
    """The one that is enough by itself, or the last of several."""
    seen: int
    node: str
    """Where the pod would go."""
    is_before: bool
    """It was there when the decision was made."""


async def staleness(case: Case, record: DecisionRecord) -> tuple[Staleness, ...]:
    """For each kind of the view that had moved on when the decision was made: how far it was behind."""
    decided_at = moment(record.now or record.at)
    found = []
    for seen in record.view:
        later = await case.changed_since(seen.kind, seen.revision)
        unseen = [each for each in later if moment(each.at) < decided_at]
        if unseen:
            behind = decided_at - moment(unseen[0].at)
            found.append(
                Staleness(seen.kind, seen.revision, unseen[-1].revision, int(behind / timedelta(milliseconds=1)))
            )
    return tuple(found)


async def unseen_until_now(case: Case, record: DecisionRecord) -> list[Unseen]:
    """All that was written since the view of a decision, kind by kind."""
    found = []
    for seen in record.view:
        if seen.kind in _PARTS:
            later = await case.changed_since(seen.kind, seen.revision)
            if later:
                found.append(Unseen(seen.kind, seen.revision, later))
    return found


async def objects_now(case: Case, scheduling: Scheduling) -> Objects:
    """What a scheduler would decide from at the moment, with all that is known. Ghosts are as it last knew them."""
    await case.moment.load([NODES, PODS, RESERVATIONS, ZONE_QUOTAS])
    pods = await case.all(PODS)
    waiting = {pod["metadata"].get("uid"): pod for pod in pods if not (pod.get("spec") or {}).get("nodeName")}
    assumed = tuple(
        (waiting[pod["metadata"].get("uid")], node)
        for pod, node in scheduling.objects.assumed
        if pod["metadata"].get("uid") in waiting
    )
    return Objects(
        tuple(await case.all(NODES)),
        tuple(pods),
        tuple(await case.all(RESERVATIONS)),
        tuple(await case.all(ZONE_QUOTAS)),
        assumed,
        scheduling.objects.unconfirmed,
    )


def turned(
    scheduling: Scheduling, now: Objects, pod: Object, unseen: Sequence[Unseen], decided_at: datetime
) -> Turned | None:
    """What turns a refusal into a placement, if the present does. The kind that is enough by itself is named."""
    node = _placed(now, pod, scheduling)
    if not node:
        return None
    enough = [each for each in unseen if _placed(_with_kind(scheduling.objects, now, each.kind), pod, scheduling)]
    # Pods come and go all the time; a change of anything else that is enough says more.
    chosen = min(enough or unseen, key=lambda each: (each.kind == PODS.text, each.kind), default=None)
    if chosen is None:
        return None
    change = _decisive(chosen, scheduling, now, pod)
    return Turned(chosen.kind, chosen.names, change, chosen.seen, node, is_before=moment(change.at) <= decided_at)


def _decisive(unseen: Unseen, scheduling: Scheduling, now: Objects, pod: Object) -> ChangeRecord:
    """The one object whose change is enough; else the last change."""
    _, part = _PARTS[unseen.kind]
    latest = {each.key: each for each in unseen.changes}
    for change in list(reversed(latest.values()))[:_TRIED_MAX]:
        key = parse_object_key(change.key)
        held = {_name(each): each for each in getattr(scheduling.objects, part)}
        newer = {_name(each): each for each in getattr(now, part)}
        name = (key.namespace, key.name)
        held.pop(name, None)
        if name in newer:
            held[name] = newer[name]
        changed = replace(scheduling.objects, **{part: tuple(held[each] for each in sorted(held))})
        if _placed(changed, pod, scheduling):
            return change
    return unseen.changes[-1]


_TRIED_MAX: Final = 20


def _name(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace") or "", obj["metadata"]["name"]


def _with_kind(then: Objects, now: Objects, kind: str) -> Objects:
    _, part = _PARTS[kind]
    return replace(then, **{part: getattr(now, part)})


def _placed(objects: Objects, pod: Object, scheduling: Scheduling) -> str:
    [decision] = what_if(objects, [pod], scheduling.policy, scheduling.seed)
    return decision.node if isinstance(decision, Placed) else ""
