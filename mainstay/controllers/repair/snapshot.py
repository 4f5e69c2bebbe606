"""What repair went by: a snapshot made from caches and from what no cache has. The same at work and in a replay."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, assert_never

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    EVENTS,
    HOLDS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESERVATIONS,
)
from mainstay.api.node_health import LEASE_NAMESPACE
from mainstay.api.object_key import ObjectKey
from mainstay.api.workloads import CONTROLLED
from mainstay.client.cache import Cache
from mainstay.client.indexes import NODE, Index
from mainstay.controllers.node_health.heartbeats import Heard
from mainstay.controllers.node_health.snapshot import frozen_by
from mainstay.controllers.repair.decide import (
    OWNERS,
    ReleaseReservation,
    RemoveStranded,
    RepairMemory,
    RepairSnapshot,
    ReplaceStranded,
    ReportFinding,
    Step,
    decide,
    find_owners,
)
from mainstay.journal.record import Subject
from mainstay.loop.controller import Reads
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "repair"
LEAVING: Final = Index("leaving", ("metadata", "deletionTimestamp"), lambda at: ("true",) if at else ())
"""Objects that are to go."""
WATCHED: Final = (PODS, NAMESPACES, NODES, *CONTROLLED)
"""Those whose finalizers are looked at: what the other controllers have in their caches anyway."""
LOOKED_AT: Final[Mapping[KindName, tuple[Index, ...]]] = {
    kind: (LEAVING, NODE) if kind == PODS else (LEAVING,) for kind in (*WATCHED, RESERVATIONS, HOLDS)
}
"""What is in caches for this, and how it is found there."""


@dataclass(frozen=True, slots=True)
class RepairPassInput:
    """All that a look goes by besides the caches."""

    now_ns: int
    since: dict[str, int]
    told: tuple[str, ...]
    """Sorted: what is remembered must always be written in the same way."""
    heard: dict[str, Heard] = field(default_factory=dict)
    """Of the nodes that are not there any more, and have pods."""
    drifted: tuple[str, ...] = ()
    miscounted: tuple[str, ...] = ()
    """What the server could not correct when it recounted."""

    @property
    def memory(self) -> RepairMemory:
        return RepairMemory(self.since, frozenset(self.told))


def memory_from(
    now_ns: int, memory: RepairMemory, heard: dict[str, Heard], drifted: tuple[str, ...], miscounted: tuple[str, ...]
) -> RepairPassInput:
    return RepairPassInput(now_ns, dict(memory.since), tuple(sorted(memory.told)), heard, drifted, miscounted)


def vanished(caches: Mapping[KindName, Cache]) -> list[str]:
    """Nodes that have pods, and are not there."""
    return [name for name in caches[PODS].values(NODE.name) if ObjectKey("", name) not in caches[NODES]]


def snapshot_from(known: RepairPassInput, caches: Mapping[KindName, Cache], now: datetime) -> RepairSnapshot:
    reservations = [each for each in _all(caches[RESERVATIONS]) if isinstance(each.get("spec"), dict)]
    owners = {}
    for reservation in reservations:
        for kind, key, _ in find_owners(reservation):
            entry = caches[OWNERS[kind]].entry(key)
            if entry is not None:
                owners[(kind, key)] = entry.uid
    pods = caches[PODS]
    stranded = {
        name: tuple(pod for key in pods.by(NODE.name, name) if (pod := pods.get(key)) is not None)
        for name in vanished(caches)
    }
    return RepairSnapshot(
        known.now_ns,
        reservations,
        owners,
        stranded=stranded,
        heard=known.heard,
        leaving=tuple(_leaving(caches)),
        drifted=known.drifted,
        miscounted=known.miscounted,
        frozen=frozen_by(_all(caches[HOLDS]), now),
    )


def record_from(step: Step) -> Decided:
    """A step as its record has it."""
    match step:
        case ReleaseReservation(key=key, uid=uid, owner=owner):
            action = describe_write("patch", RESERVATIONS, key, "status", step)
            why = f"its owner {owner[0]} {owner[1].name} does not exist"
            return Decided((action,), (why,), subject=Subject(RESERVATIONS.text, *key, uid=uid))
        case RemoveStranded(node=node, pod=pod):
            action, why = describe_write("delete", PODS, pod.key, body=step), f"its node {node} does not exist"
            return Decided((action,), (why,), subject=Subject(PODS.text, *pod.key, uid=pod.uid))
        case ReplaceStranded(step=replacing):
            lease = ObjectKey(LEASE_NAMESPACE, replacing.node)
            action = describe_write("update", LEASES, lease, body=step)
            why = f"{replacing.node} does not exist, and its lease has expired"
            return Decided((action,), (why,), subject=Subject(LEASES.text, *lease))
        case ReportFinding(finding=finding):
            action = describe_write("create", EVENTS, finding.key, body=step)
            subject = Subject(finding.kind.text, *finding.key, uid=finding.uid)
            return Decided((action,), (f"{finding.fault}: {finding.message}",), subject=subject)
        case _:
            assert_never(step)


def _leaving(caches: Mapping[KindName, Cache]) -> Iterable[tuple[KindName, Object]]:
    for kind in WATCHED:
        cache = caches[kind]
        for key in cache.by(LEAVING.name, "true"):
            obj = cache.get(key)
            if obj is not None and (obj["metadata"].get("finalizers") or (obj.get("spec") or {}).get("finalizers")):
                yield kind, obj


def _all(cache: Cache) -> list[Object]:
    return [entry.object() for entry in cache.entries()]


def _decide(view: View, known: RepairPassInput) -> list[Decided]:
    caches = {kind: view.cache(kind) for kind in LOOKED_AT}
    return [record_from(step) for step in decide(snapshot_from(known, caches, view.now), known.memory).steps]


DECIDER: Final = Decider(
    NAME,
    Schedule.PERIODIC,
    [Reads(kind, indexes=indexes) for kind, indexes in LOOKED_AT.items()],
    RepairPassInput,
    _decide,
)
