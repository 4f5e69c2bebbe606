"""What came of proposals in memory, put together for each workload: who runs where, who waits and why, who goes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NODES, PODS, REPLICASETS, RESERVATIONS
from mainstay.api.kind_names import ZONE_QUOTAS as ZONE_QUOTA_KIND
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import controller_of
from mainstay.controllers.deployment import revisions
from mainstay.explain.cures.quota import quota_cures
from mainstay.explain.cures.search import CureFound, cures_of
from mainstay.explain.plan.admission import Proposal
from mainstay.explain.plan.projection import Expansion, workload_of
from mainstay.explain.plan.quotas import Limit
from mainstay.explain.plan.values import Other, RefusedPods, RemovedPods, Step, Wait, WorkloadPlan
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.refusals import judged
from mainstay.scheduler.messages import render_message
from mainstay.scheduler.policy import Policy
from mainstay.scheduler.reasons import Unschedulable
from mainstay.scheduler.what_if import Objects

GROUPS_MAX: Final = 3
"""Of pods that wait for different reasons, in one workload."""
SEED: Final = "plan"
SIBLINGS_MAX: Final = 50
"""So many of those that wait for the same are tried with each cure."""


Ghosts = Mapping[str, tuple[Object, ...]]


class Report:
    """Of what came of it. `runs` are all that were made of it, the first one included."""

    def __init__(
        self, policy: Policy, ghosts: Ghosts, before: Expansion, after: Expansion, runs: Sequence[Expansion]
    ) -> None:
        self._policy = policy
        self._ghosts = ghosts
        self._runs = [_by_workload(run) for run in runs]
        self._before = before
        self._after = after
        self._zones = {node["metadata"]["name"]: pod_state.zone_of(node) for node in after.all(NODES)}
        self._pods = _by_workload(after)
        self._worlds = runs
        self._unwell = {node["metadata"]["name"]: trouble for node in after.all(NODES) if (trouble := _trouble(node))}
        """What is wrong with nodes of which nobody can say that their pods run."""

    def workload(self, proposal: Proposal) -> WorkloadPlan:
        after = self._after
        key = ObjectKey(proposal.namespace, proposal.name)
        active = [pod for pod in self._pods.get((proposal.kind, key), ()) if pod_state.is_active(pod)]
        current = [pod for pod in active if _is_current(after, proposal.kind, key, pod)]
        placed = [pod for pod in current if pod_state.node_of(pod)]
        running = [pod for pod in placed if pod_state.node_of(pod) not in self._unwell]
        nodes = _counted(pod_state.node_of(pod) for pod in running)
        wanted = _wanted(after.get(proposal.kind, key) or proposal.object, proposal.kind)
        unplaced = [pod for pod in current if not pod_state.node_of(pod)]
        waiting = [pod for pod in unplaced if pod["metadata"]["uid"] in after.waiting]
        each = self._running(proposal.kind, key)
        notes = [
            f"{number} {'is' if number == 1 else 'are'} on {node}, which {self._unwell[node]}: not counted as running"
            for node, number in _counted(pod_state.node_of(pod) for pod in placed).items()
            if node in self._unwell
        ]
        if len(unplaced) > len(waiting):
            notes.append(f"{len(unplaced) - len(waiting)} pods are gated or left to another scheduler")
        if proposal.kind == JOBS:
            notes += _of_job(after.get(proposal.kind, key) or proposal.object)
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
            zones=_counted(zone for pod in running if (zone := self._zones.get(pod_state.node_of(pod), ""))),
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
                and pod_state.node_of(pod)
                and pod_state.node_of(pod) not in self._unwell
                and _is_current(world, kind, key, pod)
            )
            for world, pods in zip(self._worlds, self._runs, strict=True)
        ]

    def _objects(self) -> Objects:
        after = self._after
        kinds = (NODES, PODS, RESERVATIONS, ZONE_QUOTA_KIND)
        nodes, pods, reservations, quotas = (tuple(after.all(kind)) for kind in kinds)
        return Objects(nodes, pods, reservations, quotas, unconfirmed=tuple(self._ghosts.items()))

    def _waits(self, waiting: Sequence[Object]) -> tuple[Wait, ...]:
        groups: dict[str, tuple[Unschedulable, list[Object]]] = {}
        for pod in waiting:
            no = self._after.waiting[pod["metadata"]["uid"]]
            groups.setdefault(render_message(no), (no, []))[1].append(pod)
        if not groups:
            return ()
        objects = self._objects()
        found = []
        for message, (no, pods) in sorted(groups.items(), key=lambda each: (-len(each[1][1]), each[0]))[:GROUPS_MAX]:
            verdict = judged(objects, pods[0], self._policy, SEED, no.refusals)
            cures = cures_of(objects, pods[0], self._policy, SEED, pods[1 : SIBLINGS_MAX + 1])
            found.append(
                Wait(
                    count=len(pods),
                    cause=str(verdict.cause),
                    text=verdict.text,
                    message=message,
                    is_blocked=verdict.verdict is Verdict.BLOCKED,
                    cures=cures,
                )
            )
        return tuple(found)

    def _refused(self, kind: KindName, key: ObjectKey, missing: int) -> tuple[RefusedPods, ...]:
        found = []
        for refused in self._after.refused.values():
            owner = (refused.owner_kind, refused.owner)
            replica_set = self._after.get(*owner) if refused.owner_kind == REPLICASETS else None
            above = controller_of(replica_set) if replica_set is not None else None
            if above is not None:
                owner = (DEPLOYMENTS, ObjectKey(refused.owner.namespace, above["name"]))
            if owner != (kind, key):
                continue
            cures: tuple[CureFound, ...] = ()
            if refused.kind == PODS and "quota" in refused.message:
                limits = [_as_object(each) for each in self._after.quotas.all() if each.namespace == key.namespace]
                cures = quota_cures(limits, refused.object, max(missing, 1))
            found.append(RefusedPods(count=max(missing, 1), text=refused.message, cures=cures))
        return tuple(found)

    def _removed(self, kind: KindName, key: ObjectKey) -> tuple[RemovedPods, ...]:
        by_reason: dict[str, list[Object]] = {}
        for uid, removed in self._after.removed.items():
            owner = workload_of(self._after, removed.pod) or (PODS, _key(removed.pod))
            if owner == (kind, key) and uid not in self._before.removed:
                by_reason.setdefault(removed.why, []).append(removed.pod)
        return tuple(
            RemovedPods(
                why=why,
                nodes=_counted(pod_state.node_of(pod) or "no node" for pod in pods),
                pods=tuple(sorted(str(pod["metadata"]["name"]) for pod in pods)),
            )
            for why, pods in sorted(by_reason.items())
        )

    def _steps(self, kind: KindName, key: ObjectKey) -> tuple[Step, ...]:
        return tuple(
            Step(after_s=each.after / timedelta(seconds=1), text=each.text)
            for each in self._after.told
            if (each.kind, each.key) == (kind, key)
        )

    def others(self, proposals: Sequence[Proposal]) -> list[Other]:
        """Pods that were there, of what nobody proposals to change, for which it comes out differently."""
        own = {(proposal.kind, ObjectKey(proposal.namespace, proposal.name)) for proposal in proposals}
        was = {pod["metadata"]["uid"]: pod for pod in self._before.pods}
        found = []
        for uid, removed in self._after.removed.items():
            owner = workload_of(self._after, removed.pod) or (PODS, _key(removed.pod))
            if owner not in own and uid not in self._before.removed:
                where = pod_state.node_of(removed.pod)
                found.append(Other(pod=str(_key(removed.pod)), text=f"would go from {where}: {removed.why}"))
        for pod in self._after.pods:
            uid = pod["metadata"]["uid"]
            owner = workload_of(self._after, pod) or (PODS, _key(pod))
            before = was.get(uid)
            if owner in own or before is None or not pod_state.is_active(pod):
                continue
            node, node_before = pod_state.node_of(pod), pod_state.node_of(before)
            if node and not node_before:
                found.append(Other(pod=str(_key(pod)), text=f"would get a node: {node}"))
            elif node_before and not node:
                found.append(Other(pod=str(_key(pod)), text=f"would wait, instead of going to {node_before}"))
        return sorted(found, key=lambda each: (each.text, each.pod))


def _by_workload(world: Expansion) -> dict[tuple[KindName, ObjectKey], list[Object]]:
    found: dict[tuple[KindName, ObjectKey], list[Object]] = {}
    for pod in world.pods:
        found.setdefault(workload_of(world, pod) or (PODS, _key(pod)), []).append(pod)
    return found


def _is_current(world: Expansion, kind: KindName, key: ObjectKey, pod: Object) -> bool:
    """Whether a pod is made from the template that is wanted."""
    if kind != DEPLOYMENTS:
        return True
    deployment, owner = world.get(DEPLOYMENTS, key), controller_of(pod)
    if deployment is None or owner is None:
        return False
    new = revisions.new_set(deployment, world.owned_by(REPLICASETS, deployment["metadata"]["uid"]))
    return new is not None and new["metadata"]["uid"] == owner["uid"]


# Words and numbers.


def _trouble(node: Object) -> str:
    """Why its pods are not taken to run; empty if they are. One that is only planned says nothing yet."""
    ready = pod_state.condition_of(node, "Ready")
    if ready is None or ready.get("status") == "True":
        return ""
    return "is not heard of" if ready.get("status") == "Unknown" else "is not ready"


def _key(obj: Object) -> ObjectKey:
    return ObjectKey(obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def _counted(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))


def _wanted(obj: Object, kind: KindName) -> int:
    spec = obj.get("spec") or {}
    if kind == PODS:
        return 1
    if kind != JOBS:
        return int(spec.get("replicas", 1))
    if spec.get("suspend"):
        return 0
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    done = int((obj.get("status") or {}).get("succeeded") or 0)
    return parallelism if completions is None else max(0, min(parallelism, int(completions) - done))


def _of_job(job: Object) -> list[str]:
    spec = job.get("spec") or {}
    if spec.get("suspend"):
        return ["it is suspended: no pods are made"]
    parallelism, completions = int(spec.get("parallelism", 1)), int(spec.get("completions") or 1)
    if completions > parallelism:
        return [f"{parallelism} at a time, {completions} in all: the others are made as these complete"]
    return []


def _as_object(limit: Limit) -> Object:
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
