"""What came of proposals in memory, put together for each workload: who runs where, who waits and why, who goes."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller
from mainstay.explain.cures.quota import quota_cures
from mainstay.explain.cures.values import TriedCure
from mainstay.explain.plan.admission import Proposal
from mainstay.explain.plan.projection import Expansion, find_planned_workload
from mainstay.explain.plan.quotas import ProjectedQuota
from mainstay.explain.plan.values import Other, PlannedStep, RefusedPods, RemovedPods, WaitingPods, WorkloadPlan

SEED: Final = "plan"


class PlanReport:
    """Of what came of it. `runs` are all that were made of it, the first one included."""

    def __init__(self, before: Expansion, after: Expansion, runs: Sequence[Expansion]) -> None:
        self._runs = [_by_workload(run) for run in runs]
        self._before = before
        self._after = after
        self._zones = {node["metadata"]["name"]: pod_state.get_zone(node) for node in after.all(NODES)}
        self._pods = _by_workload(after)
        self._worlds = runs
        self._unwell = {node["metadata"]["name"]: trouble for node in after.all(NODES) if (trouble := _trouble(node))}
        """What is wrong with nodes whose pods may not run."""

    def workload(self, proposal: Proposal) -> WorkloadPlan:
        after = self._after
        key = ObjectKey(proposal.namespace, proposal.name)
        active = [pod for pod in self._pods.get((proposal.kind, key), ()) if pod_state.is_active(pod)]
        current = [pod for pod in active if _is_current(after, proposal.kind, key, pod)]
        placed = [pod for pod in current if pod_state.get_node_name(pod)]
        running = [pod for pod in placed if pod_state.get_node_name(pod) not in self._unwell]
        nodes = _counted(pod_state.get_node_name(pod) for pod in running)
        workload = after.get(proposal.kind, key) or proposal.object
        room = after.workloads.get(proposal.kind)
        wanted = 1 if room is None else room.wanted(workload)
        unplaced = [pod for pod in current if not pod_state.get_node_name(pod)]
        waiting = [pod for pod in unplaced if pod["metadata"]["uid"] in after.waiting]
        each = self._running(proposal.kind, key)
        notes = [
            f"{number} {'is' if number == 1 else 'are'} on {node}, which {self._unwell[node]}: not counted as running"
            for node, number in _counted(pod_state.get_node_name(pod) for pod in placed).items()
            if node in self._unwell
        ]
        if len(unplaced) > len(waiting):
            notes.append(f"{len(unplaced) - len(waiting)} pods have scheduling gates or another scheduler")
        notes += () if room is None else room.notes(workload)
        return WorkloadPlan(
            kind=proposal.kind.kind,
            namespace=proposal.namespace,
            name=proposal.name,
            wanted=wanted,
            running=len(running),
            running_least=min(each),
            running_most=max(each),
            kept=sum(1 for pod in running if after.was_there(pod["metadata"]["uid"])),
            old=len(active) - len(current),
            nodes=nodes,
            zones=_counted(zone for pod in running if (zone := self._zones.get(pod_state.get_node_name(pod), ""))),
            waits=self._waits(waiting),
            refused=self._refused(proposal.kind, key, wanted - len(current)),
            removed=self._removed(proposal.kind, key),
            steps=self._steps(proposal.kind, key),
            notes=tuple(notes),
        )

    def _running(self, kind: KindName, key: ObjectKey) -> list[int]:
        """How many would run, in each of the runs."""
        return [
            sum(
                1
                for pod in pods.get((kind, key), ())
                if pod_state.is_active(pod)
                and pod_state.get_node_name(pod)
                and pod_state.get_node_name(pod) not in self._unwell
                and _is_current(world, kind, key, pod)
            )
            for world, pods in zip(self._worlds, self._runs, strict=True)
        ]

    def _waits(self, waiting: Sequence[Object]) -> tuple[WaitingPods, ...]:
        objects = {kind: self._after.all(kind) for kind in (NODES, PODS, RESERVATIONS, ZONE_QUOTAS)}
        return self._after.placing.waits(waiting, objects) if waiting else ()

    def _refused(self, kind: KindName, key: ObjectKey, missing: int) -> tuple[RefusedPods, ...]:
        found = []
        for refused in self._after.refused.values():
            owner = (refused.owner_kind, refused.owner)
            obj = self._after.get(*owner)
            owner = (find_planned_workload(self._after, obj) if obj is not None else None) or owner
            if owner != (kind, key):
                continue
            cures: tuple[TriedCure, ...] = ()
            if refused.kind == PODS and refused.is_by_quota:
                limits = [_as_object(each) for each in self._after.quotas.all() if each.namespace == key.namespace]
                cures = quota_cures(limits, refused.object, max(missing, 1))
            found.append(RefusedPods(count=max(missing, 1), text=refused.message, cures=cures))
        return tuple(found)

    def _removed(self, kind: KindName, key: ObjectKey) -> tuple[RemovedPods, ...]:
        by_reason: dict[str, list[Object]] = {}
        for uid, removed in self._after.removed.items():
            owner = find_planned_workload(self._after, removed.pod) or (PODS, _key(removed.pod))
            if owner == (kind, key) and uid not in self._before.removed:
                by_reason.setdefault(removed.why, []).append(removed.pod)
        return tuple(
            RemovedPods(
                why=why,
                nodes=_counted(pod_state.get_node_name(pod) or "no node" for pod in pods),
                pods=tuple(sorted(str(pod["metadata"]["name"]) for pod in pods)),
            )
            for why, pods in sorted(by_reason.items())
        )

    def _steps(self, kind: KindName, key: ObjectKey) -> tuple[PlannedStep, ...]:
        return tuple(
            PlannedStep(after_s=each.after / timedelta(seconds=1), text=each.text)
            for each in self._after.told
            if (each.kind, each.key) == (kind, key)
        )

    def others(self, proposals: Sequence[Proposal]) -> list[Other]:
        """Pods that were there, of workloads that the proposals do not change, for which it comes out differently."""
        own = {(proposal.kind, ObjectKey(proposal.namespace, proposal.name)) for proposal in proposals}
        was = {pod["metadata"]["uid"]: pod for pod in self._before.pods}
        found = []
        for uid, removed in self._after.removed.items():
            owner = find_planned_workload(self._after, removed.pod) or (PODS, _key(removed.pod))
            if owner not in own and uid not in self._before.removed:
                where = pod_state.get_node_name(removed.pod)
                found.append(Other(pod=str(_key(removed.pod)), text=f"would be deleted on {where}: {removed.why}"))
        for pod in self._after.pods:
            uid = pod["metadata"]["uid"]
            owner = find_planned_workload(self._after, pod) or (PODS, _key(pod))
            before = was.get(uid)
            if owner in own or before is None or not pod_state.is_active(pod):
                continue
            node, node_before = pod_state.get_node_name(pod), pod_state.get_node_name(before)
            if node and not node_before:
                found.append(Other(pod=str(_key(pod)), text=f"would be scheduled to {node}"))
            elif node_before and not node:
                found.append(Other(pod=str(_key(pod)), text=f"would stay pending instead of running on {node_before}"))
        return sorted(found, key=lambda each: (each.text, each.pod))


def _by_workload(world: Expansion) -> dict[tuple[KindName, ObjectKey], list[Object]]:
    found: dict[tuple[KindName, ObjectKey], list[Object]] = {}
    for pod in world.pods:
        found.setdefault(find_planned_workload(world, pod) or (PODS, _key(pod)), []).append(pod)
    return found


def _is_current(world: Expansion, kind: KindName, key: ObjectKey, pod: Object) -> bool:
    """Whether a pod is made from the template that is wanted."""
    room, workload = world.workloads.get(kind), world.get(kind, key)
    if room is None:
        return True
    if workload is None or find_controller(pod) is None:
        return False
    owned = world.owned_by(room.owns, workload["metadata"]["uid"]) if room.owns is not None else []
    return room.is_current(workload, owned, pod)


# Words and numbers.


def _trouble(node: Object) -> str:
    """Why its pods are not taken to run; empty if they are. One that is only planned says nothing yet."""
    ready = pod_state.find_condition(node, "Ready")
    if ready is None or ready.get("status") == "True":
        return ""
    return "is unreachable" if ready.get("status") == "Unknown" else "is not ready"


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def _as_object(limit: ProjectedQuota) -> Object:
    return {
        "metadata": {"namespace": limit.namespace, "name": limit.name},
        "spec": {
            "hard": {name: str(amount) for name, amount in limit.hard.items()},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": term.scope, "operator": term.operator, "values": list(term.values)}
                    for term in limit.terms
                ]
            },
        },
        "status": {"used": {name: str(amount) for name, amount in limit.used.items()}},
    }
