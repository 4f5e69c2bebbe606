"""Finding state that has lost its owner, and correcting it where that is safe.

    a reservation whose workload or pod is gone      is released
    a pod on a node that is not there any more       is removed; an at-most-one pod, when it must have ended (fencing)
    a ledger that is not the sum of its pods         is recounted by the server (server/placement/ledger/recount.py)
    quotas that are not the sum of what is there     are recounted, too (server/quota/recount.py)
    an object that cannot go because of finalizers   is told of, and left alone: a controller has asked to be waited for

What is found is only acted on after it has been so for a while, by our own clock, and after a fresh look at the store:
what a cache does not show may not have reached it yet. Repairing what is right changes nothing, so it may be done again
at any time, by any process.

`decide` is a plain function; loop.py looks and acts. What came of it is said in the ComponentState `repair`: the
condition `RepairComplete`, and for each Deployment the generation that it holds for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api.annotations import is_at_most_one
from mainstay.api.holds import ParsedHold, freezing
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NAMESPACES, PODS, RESERVATIONS
from mainstay.api.object_key import ObjectKey
from mainstay.api.reservations import is_active
from mainstay.api.workloads import CONTROLLED
from mainstay.controllers.node_health.heartbeats import Heard, fence
from mainstay.controllers.node_health.plan import HOLDER, RemoveDeadPod, ReplacePods
from mainstay.loop.conditions import Condition, Truth

GONE_FOR: Final = timedelta(seconds=40)
"""How long something has to be missing before anything is done about it."""
STUCK_AFTER: Final = timedelta(minutes=10)
"""How long finalizers may take."""
STEPS_MAX: Final = 20
"""In one look."""
COMPLETE: Final = "RepairComplete"
WORKLOADS_MAX: Final = 500
"""Of which the generation is said."""
OWNERS: Final[Mapping[str, KindName]] = {kind.kind: kind for kind in (*CONTROLLED, PODS)}
"""The kinds of workloads that can be looked up. Reservations of others end with their time."""


class RepairFault(StrEnum):
    """What may be wrong. Shown to users: only add."""

    ORPHANED_RESERVATION = "OrphanedReservation"
    VANISHED_NODE = "VanishedNode"
    LEDGER_DRIFT = "LedgerDrift"
    QUOTA_DRIFT = "QuotaDrift"
    STUCK_FINALIZERS = "StuckFinalizers"


@dataclass(frozen=True, slots=True)
class RepairFinding:
    """One thing that is wrong."""

    fault: RepairFault
    kind: KindName
    key: ObjectKey
    uid: str
    message: str
    workload: str = ""
    """The uid of the workload that it holds up, if that is known."""

    @property
    def id(self) -> str:
        return f"{self.fault}/{self.uid}"


@dataclass(frozen=True, slots=True)
class RepairSnapshot:
    now_ns: int
    reservations: Sequence[Object] = ()
    owners: Mapping[tuple[str, ObjectKey], str] = field(default_factory=dict)
    """The uid of each workload and pod that a reservation names, by its kind and key. What is missing is not there."""
    stranded: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    """Pods on nodes that are not there, by node."""
    heard: Mapping[str, Heard] = field(default_factory=dict)
    """What is known of the leases of these nodes."""
    leaving: Sequence[tuple[KindName, Object]] = ()
    """Objects that are to go, and have finalizers."""
    drifted: Sequence[str] = ()
    """Nodes whose ledger could not be repaired."""
    miscounted: Sequence[str] = ()
    """Namespaces whose quotas could not be repaired."""
    frozen: tuple[ParsedHold, ...] = ()
    """Holds of evictions in force: pods stay where they are, also those whose node is gone."""


@dataclass(frozen=True, slots=True)
class RepairMemory:
    since: Mapping[str, int] = field(default_factory=dict)
    """When each finding was first found, by its id."""
    told: frozenset[str] = frozenset()
    """Of which people have been told."""


@dataclass(frozen=True, slots=True)
class ReleaseReservation:
    key: ObjectKey
    uid: str
    version: str
    owner: tuple[str, ObjectKey, str]
    """Kind, key and uid of what must not be there, by a fresh look."""


@dataclass(frozen=True, slots=True)
class RemoveStranded:
    """If its node is really not there."""

    node: str
    pod: RemoveDeadPod


@dataclass(frozen=True, slots=True)
class ReplaceStranded:
    """The same, for those of which there may be only one."""

    step: ReplacePods


@dataclass(frozen=True, slots=True)
class ReportFinding:
    finding: RepairFinding


Step = ReleaseReservation | RemoveStranded | ReplaceStranded | ReportFinding


@dataclass(frozen=True, slots=True)
class RepairPlan:
    steps: tuple[Step, ...]
    findings: tuple[RepairFinding, ...]
    memory: RepairMemory


def decide(snapshot: RepairSnapshot, memory: RepairMemory) -> RepairPlan:
    orphaned = _orphaned(snapshot)
    stranded = _stranded(snapshot)
    stuck = [_stuck(kind, obj) for kind, obj in snapshot.leaving]
    drifted = [
        RepairFinding(
            RepairFault.LEDGER_DRIFT,
            PODS,
            ObjectKey("", name),
            name,
            f"the ledger of {name} does not equal the sum of its pods",
        )
        for name in snapshot.drifted
    ]
    drifted += [_miscounted(name) for name in snapshot.miscounted]
    found = [*(each for each, _ in orphaned), *(each for each, _ in stranded), *stuck, *drifted]
    since = {each.id: memory.since.get(each.id, snapshot.now_ns) for each in found}
    for finding, (name, _) in stranded:
        # It may have been there between two looks.
        heard = snapshot.heard.get(name)
        since[finding.id] = max(since[finding.id], (heard.removed_ns if heard is not None else None) or 0)

    def lasts(finding: RepairFinding, duration: timedelta) -> bool:
        return snapshot.now_ns - since[finding.id] >= duration // timedelta(microseconds=1) * 1000

    late = [each for each in stuck if lasts(each, STUCK_AFTER)]
    steps: list[Step] = [step for each, step in orphaned if lasts(each, GONE_FOR)]
    due = [
        (each, name, pod)
        for each, (name, pod) in stranded
        if lasts(each, GONE_FOR) and freezing(snapshot.frozen, each.key.namespace) is None
    ]
    steps += [RemoveStranded(name, pod) for _, name, pod in due if pod is not None]
    steps += _fenced(snapshot, [each for each, _, pod in due if pod is None])
    untold = [each for each in late if each.id not in memory.told]
    told = frozenset(each.id for each in late)
    findings = [each for each in found if each.fault is not RepairFault.STUCK_FINALIZERS] + late
    return RepairPlan(
        (*steps[:STEPS_MAX], *[ReportFinding(each) for each in untold[:STEPS_MAX]]),
        tuple(findings),
        RepairMemory(since, told & (memory.told | {each.id for each in untold[:STEPS_MAX]})),
    )


def _orphaned(snapshot: RepairSnapshot) -> list[tuple[RepairFinding, ReleaseReservation]]:
    found = []
    for reservation in snapshot.reservations:
        owner = is_active(reservation) and missing_owner(reservation, snapshot)
        if not owner:
            continue
        metadata = reservation["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        message = f"its owner {owner[0]} {owner[1].name} does not exist"
        workload = reservation["spec"]["workload"]["uid"]
        finding = RepairFinding(RepairFault.ORPHANED_RESERVATION, RESERVATIONS, key, metadata["uid"], message, workload)
        found.append((finding, ReleaseReservation(key, metadata["uid"], metadata["resourceVersion"], owner)))
    return found


def find_owners(reservation: Object) -> list[tuple[str, ObjectKey, str]]:
    """What a reservation is for, as far as it can be looked up: kind, key and uid. The pod last."""
    namespace, spec = reservation["metadata"]["namespace"], reservation["spec"]
    workload: Mapping[str, Any] = spec["workload"]
    found = []
    if workload["kind"] in OWNERS:
        found.append((workload["kind"], ObjectKey(namespace, workload["name"]), workload["uid"]))
    pod = spec.get("pod") or {}
    if pod.get("uid"):
        found.append(("Pod", ObjectKey(namespace, pod["name"]), pod["uid"]))
    return found


def missing_owner(reservation: Object, snapshot: RepairSnapshot) -> tuple[str, ObjectKey, str] | None:
    """What it is for and is not there any more."""
    for kind, key, uid in find_owners(reservation):
        if snapshot.owners.get((kind, key)) != uid:
            return kind, key, uid
    return None


def _stranded(snapshot: RepairSnapshot) -> list[tuple[RepairFinding, tuple[str, RemoveDeadPod | None]]]:
    """None: it may still run, and there may be only one of it."""
    found = []
    for name, pods in sorted(snapshot.stranded.items()):
        for pod in pods:
            metadata = pod["metadata"]
            key = ObjectKey(metadata["namespace"], metadata["name"])
            owner = next((each["uid"] for each in metadata.get("ownerReferences") or () if each.get("controller")), "")
            message = f"its node {name} does not exist"
            if (held := freezing(snapshot.frozen, key.namespace)) is not None:
                message += f", and evictions are frozen by Hold {held.name}: {held.words}"
            finding = RepairFinding(RepairFault.VANISHED_NODE, PODS, key, metadata["uid"], message, owner)
            found.append((finding, (name, None if is_at_most_one(pod) else RemoveDeadPod(key, metadata["uid"]))))
    return found


def _fenced(snapshot: RepairSnapshot, due: Sequence[RepairFinding]) -> list[ReplaceStranded]:
    by_node: dict[str, list[RemoveDeadPod]] = {}
    for name, pods in sorted(snapshot.stranded.items()):
        uids = {pod["metadata"]["uid"] for pod in pods}
        by_node[name] = [RemoveDeadPod(each.key, each.uid) for each in due if each.uid in uids]
    found = []
    for name, due_there in by_node.items():
        heard = snapshot.heard.get(name)
        if not due_there or heard is None:
            continue
        is_ours = heard.has_lease and heard.holder == HOLDER
        may_take = fence(heard, snapshot.now_ns)
        if is_ours and heard.lease is not None:
            found.append(ReplaceStranded(ReplacePods(name, heard.lease.revision, is_ours, tuple(due_there))))
        elif may_take is not None:
            found.append(ReplaceStranded(ReplacePods(name, may_take.revision, is_ours, tuple(due_there))))
    return found


def _stuck(kind: KindName, obj: Object) -> RepairFinding:
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    names = list(metadata.get("finalizers") or ()) or list((obj.get("spec") or {}).get("finalizers") or ())
    message = f"it was deleted at {metadata['deletionTimestamp']} and is blocked by finalizers: {', '.join(names)}"
    return RepairFinding(RepairFault.STUCK_FINALIZERS, kind, key, metadata["uid"], message)


def _miscounted(namespace: str) -> RepairFinding:
    message = "the usage of its quotas does not equal the sum of its objects"
    return RepairFinding(RepairFault.QUOTA_DRIFT, NAMESPACES, ObjectKey("", namespace), namespace, message)


# What came of it.


def summarize(findings: Sequence[RepairFinding]) -> Condition:
    if not findings:
        return Condition(COMPLETE, Truth.TRUE, "NothingLeft", "nothing to repair")
    first, more = findings[0], len(findings) - 1
    message = f"{first.kind.kind} {first.key}: {first.message}" + (f"; and {more} more" if more else "")
    return Condition(COMPLETE, Truth.FALSE, str(first.fault), message)


def describe_workloads(
    deployments: Sequence[Object], sets: Sequence[Object], findings: Sequence[RepairFinding]
) -> dict[str, Object]:
    """For each Deployment, which generation of it was looked at, and whether there is nothing to put right about it."""
    owner_of = {
        each["metadata"]["uid"]: reference["uid"]
        for each in sets
        for reference in each["metadata"].get("ownerReferences") or ()
        if reference.get("controller")
    }
    broken: dict[str, RepairFault] = {}
    for finding in findings:
        broken.setdefault(owner_of.get(finding.workload, finding.workload), finding.fault)
    found = []
    for deployment in deployments:
        metadata = deployment["metadata"]
        fault = broken.get(metadata["uid"])
        said = {"observedGeneration": metadata.get("generation", 0), COMPLETE: "True" if fault is None else "False"}
        name = f"Deployment/{metadata['namespace']}/{metadata['name']}"
        found.append((fault is None, name, said if fault is None else {**said, "reason": str(fault)}))
    return {name: said for _, name, said in sorted(found, key=lambda each: each[:2])[:WORKLOADS_MAX]}
