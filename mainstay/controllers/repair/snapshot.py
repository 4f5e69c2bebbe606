"""What repair went by: a sight made from caches and from what no cache has. The same at work and in a replay."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, assert_never

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    DEPLOYMENTS,
    HOLDS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    RESERVATIONS,
)
from mainstay.api.node_health import LEASE_NAMESPACE
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.indexes import NODE, Index
from mainstay.controllers.node_health.heartbeats import Heard
from mainstay.controllers.node_health.snapshot import frozen_by
from mainstay.controllers.repair.decide import (
    OWNERS,
    Memory,
    ReleaseReservation,
    RemoveStranded,
    ReplaceStranded,
    Sight,
    Step,
    Tell,
    owners_of,
)
from mainstay.journal import record
from mainstay.journal.record import Subject
from mainstay.loop.pass_record import Step as StepSaid
from mainstay.loop.pass_record import encode_sorted

NAME: Final = "repair"
LEAVING: Final = Index("leaving", ("metadata", "deletionTimestamp"), lambda at: ("true",) if at else ())
"""Objects that are to go."""
WATCHED: Final = (PODS, NAMESPACES, NODES, DEPLOYMENTS, REPLICASETS, JOBS)
"""Those whose finalizers are looked at: what the other controllers have in their caches anyway."""
LOOKED_AT: Final[Mapping[KindName, tuple[Index, ...]]] = {
    kind: (LEAVING, NODE) if kind == PODS else (LEAVING,) for kind in (*WATCHED, RESERVATIONS, HOLDS)
}
"""What is in caches for this, and how it is found there."""


@dataclass(frozen=True, slots=True)
class Known:
    """All that a look goes by besides the caches."""

    now_ns: int
    since: dict[str, int]
    told: tuple[str, ...]
    """Sorted: what is remembered must always be written in the same way."""
    heard: dict[str, Heard] = field(default_factory=dict)
    """Of the nodes that are not there any more, and have pods."""
    drifted: tuple[str, ...] = ()
    miscounted: tuple[str, ...] = ()
    """What the server could not put right when it counted anew."""

    @property
    def memory(self) -> Memory:
        return Memory(self.since, frozenset(self.told))


def known_of(
    now_ns: int, memory: Memory, heard: dict[str, Heard], drifted: tuple[str, ...], miscounted: tuple[str, ...]
) -> Known:
    return Known(now_ns, dict(memory.since), tuple(sorted(memory.told)), heard, drifted, miscounted)


def vanished(caches: Mapping[KindName, Cache]) -> list[str]:
    """Nodes that have pods, and are not there."""
    return [name for name in caches[PODS].values(NODE.name) if ObjectKey("", name) not in caches[NODES]]


def sight_of(known: Known, caches: Mapping[KindName, Cache], now: datetime) -> Sight:
    reservations = [each for each in _all(caches[RESERVATIONS]) if isinstance(each.get("spec"), dict)]
    owners = {}
    for reservation in reservations:
        for kind, key, _ in owners_of(reservation):
            entry = caches[OWNERS[kind]].entry(key)
            if entry is not None:
                owners[(kind, key)] = entry.uid
    pods = caches[PODS]
    stranded = {
        name: tuple(pod for key in pods.by(NODE.name, name) if (pod := pods.get(key)) is not None)
        for name in vanished(caches)
    }
    return Sight(
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


def said_of(step: Step) -> StepSaid:
    """A step as its record tells it."""
    body = encode_sorted(step)
    match step:
        case ReleaseReservation(key=key, uid=uid, owner=owner):
            action = record.action("patch", RESERVATIONS.text, *key, subresource="status", body=body)
            why = f"{owner[0]} {owner[1].name}, for which it holds room, is not there"
            return StepSaid(Subject(RESERVATIONS.text, *key, uid=uid), action, (why,))
        case RemoveStranded(node=node, pod=pod):
            action = record.action("delete", PODS.text, *pod.key, body=body)
            return StepSaid(Subject(PODS.text, *pod.key, uid=pod.uid), action, (f"its node {node} is not there",))
        case ReplaceStranded(step=replacing):
            action = record.action("update", LEASES.text, LEASE_NAMESPACE, replacing.node, body=body)
            why = f"{replacing.node} is not there, and its lease has run out"
            return StepSaid(Subject(LEASES.text, LEASE_NAMESPACE, replacing.node), action, (why,))
        case Tell(finding=finding):
            action = record.action("create", "events", finding.key.namespace, finding.key.name, body=body)
            subject = Subject(finding.kind.text, *finding.key, uid=finding.uid)
            return StepSaid(subject, action, (f"{finding.fault}: {finding.message}",))
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
