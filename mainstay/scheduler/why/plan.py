"""Which node each pod would get that waits for one: the scheduler's order and its `decide`, on columns kept up to date.

A round goes through all that wait, the highest priority first, namespaces in turn, within one first come, first served
(scheduler/queue/scheduling_queue.py); each is decided as if those before it were bound. Who is refused is looked at
again in the next round, when something has changed. Pods of one class are refused together, unless they are spread:
there the next one may fit where the last one did not.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import COMPONENT_STATES, NODES, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_resources import is_over
from mainstay.api.policy_scope import parse_scope
from mainstay.explain.moment import Moment
from mainstay.explain.plan.values import SIBLINGS_MAX, WaitingPods
from mainstay.explain.why.answer import Verdict
from mainstay.scheduler.active_policies import ActivePolicies, build_policies
from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.messages import render_message
from mainstay.scheduler.pod_class import PodToPlace, pod_to_place
from mainstay.scheduler.policy_class import class_under
from mainstay.scheduler.reasons import Placed, Unschedulable
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.cures.search import find_cures
from mainstay.scheduler.why.dominant_reason import judged
from mainstay.scheduler.why.ghosts import ghosts_at

GROUPS_MAX: Final = 3
"""Of pods that wait for different reasons, in one workload."""
OWN_SCHEDULERS = ("", "default-scheduler", "mainstay-scheduler")


@dataclass(frozen=True, slots=True)
class PlacementState:
    """What the scheduler goes by at a moment, besides the objects: makes a model for each run of a plan."""

    policies: ActivePolicies
    ghosts: Mapping[str, tuple[Object, ...]]

    def model(self, seed: str) -> "SchedulerModel":
        return SchedulerModel(self.policies, self.ghosts, seed)


async def placement_plan(moment: Moment) -> PlacementState:
    policies, components = await moment.all(PLACEMENT_POLICIES), await moment.all(COMPONENT_STATES)
    return PlacementState(build_policies(policies, _find_base(policies, components)), await ghosts_at(moment))


def _find_base(policies: Iterable[Object], components: Iterable[Object]) -> str:
    """The policy without a scope that the scheduler says it goes by; empty if it is not known."""
    named = {name for each in components for name in (each.get("status") or {}).get("policies") or ()}
    unscoped = [each["metadata"]["name"] for each in policies if parse_scope(each) is None]
    found = [name for name in unscoped if name in named]
    return found[0] if len(found) == 1 else ""


class SchedulerModel:
    """A scheduler in memory."""

    def __init__(self, policies: ActivePolicies, ghosts: Mapping[str, Iterable[Object]], seed: str) -> None:
        self.waiting: dict[str, Unschedulable] = {}
        """By uid, who was refused by all nodes, and why."""
        self._policies = policies
        self._seed = seed
        self._columns = NodeColumns()
        self._vectors = Vectors(self._columns)
        self._queue: dict[str, tuple[ObjectKey, PodToPlace, int]] = {}
        """By uid, in the order they came: who has no node yet, with its priority."""
        self._looked_at = (-1, -1)
        self._came = 0
        self._ghosts = {name: tuple(found) for name, found in ghosts.items()}
        self._are_ghosts_known = not self._ghosts

    def changed(self, kind: KindName, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        """Something is now like this."""
        if kind == NODES:
            self._columns.node_changed(new, key.name)
        elif kind == PODS:
            self._columns.pod_changed(old, new)
            self._line_up(key, old, new)
        elif kind == RESERVATIONS:
            self._columns.reservation_changed(old, new)
        elif kind == ZONE_QUOTAS:
            self._columns.zone_quota_changed(old, new)

    def _know_ghosts(self) -> None:
        """Pods that were removed by force and may still run. Their nodes have to be known first."""
        self._are_ghosts_known = True
        for node, ghosts in self._ghosts.items():
            self._columns.unconfirmed_changed(node, {each["uid"]: build_unconfirmed_charge(each) for each in ghosts})

    def place(self) -> list[tuple[ObjectKey, str]]:
        """One round: who gets which node. They are taken to be there from now on."""
        if not self._are_ghosts_known:
            self._know_ghosts()
        version = (self._columns.version, self._came)
        if not self._queue or version == self._looked_at:
            return []
        found = []
        refused: dict[bytes, Unschedulable] = {}
        for uid, key, pod in self._in_order():
            policy = self._policies.choose(pod).policy
            pod_class = class_under(pod, policy)
            known = refused.get(pod_class.key)
            if known is not None:
                self.waiting[uid] = known
                continue
            decision = decide(self._vectors, pod, policy, self._seed)
            if isinstance(decision, Placed):
                self._columns.assume(pod, decision.node)
                self.waiting.pop(uid, None)
                self._queue.pop(uid)
                found.append((key, decision.node))
            else:
                self.waiting[uid] = decision
                if not pod_class.spread:
                    refused[pod_class.key] = decision
        self._looked_at = (self._columns.version, self._came)
        return found

    def waits(self, pods: Sequence[Object], objects: Mapping[KindName, Sequence[Object]]) -> tuple[WaitingPods, ...]:
        """Why these wait, those first that are the most, with cures that were tried on these objects."""
        groups: dict[str, tuple[Unschedulable, list[Object]]] = {}
        for pod in pods:
            no = self.waiting[pod["metadata"]["uid"]]
            groups.setdefault(render_message(no), (no, []))[1].append(pod)
        kinds = (NODES, PODS, RESERVATIONS, ZONE_QUOTAS)
        nodes, placed, reservations, quotas = (tuple(objects[kind]) for kind in kinds)
        there = Objects(nodes, placed, reservations, quotas, unconfirmed=tuple(self._ghosts.items()))
        found = []
        for message, (no, alike) in sorted(groups.items(), key=lambda each: (-len(each[1][1]), each[0]))[:GROUPS_MAX]:
            policy = self._policies.choose(pod_to_place(alike[0])).policy
            verdict = judged(there, alike[0], policy, self._seed, no.refusals)
            found.append(
                WaitingPods(
                    count=len(alike),
                    cause=str(verdict.cause),
                    text=verdict.text,
                    message=message,
                    is_blocked=verdict.verdict is Verdict.BLOCKED,
                    cures=find_cures(there, alike[0], policy, self._seed, alike[1 : SIBLINGS_MAX + 1]),
                )
            )
        return tuple(found)

    def _line_up(self, key: ObjectKey, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._leave(old["metadata"]["uid"])
        if new is None:
            return
        uid, spec = new["metadata"]["uid"], new.get("spec") or {}
        is_ours = (spec.get("schedulerName") or "") in OWN_SCHEDULERS
        if (
            spec.get("nodeName")
            or is_over(new)
            or new["metadata"].get("deletionTimestamp")
            or spec.get("schedulingGates")
            or not is_ours
        ):
            self._leave(uid)
        else:
            self._queue[uid] = (key, pod_to_place(new), int(spec.get("priority") or 0))
            self._came += 1

    def _leave(self, uid: str) -> None:
        self._queue.pop(uid, None)
        self.waiting.pop(uid, None)

    def _in_order(self) -> list[tuple[str, ObjectKey, PodToPlace]]:
        by_priority: dict[int, dict[str, deque[tuple[str, ObjectKey, PodToPlace]]]] = {}
        for uid, (key, pod, priority) in self._queue.items():
            lines = by_priority.setdefault(priority, {})
            lines.setdefault(key.namespace, deque()).append((uid, key, pod))
        found = []
        for priority in sorted(by_priority, reverse=True):
            lines = by_priority[priority]
            while lines:
                for namespace in list(lines):
                    found.append(lines[namespace].popleft())
                    if not lines[namespace]:
                        del lines[namespace]
        return found
