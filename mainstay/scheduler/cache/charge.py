"""What a pod, or a reservation, takes on its node.

A `CachedCharge` is all that the columns need to know of a placed pod: its requests, its ports, and its labels and its
owner, because other pods may want to be spread among pods like it. Equal pods share one, found by what their specs say
(`build_charge`), so a change of a pod's status costs little here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.annotations import RESERVATION
from mainstay.api.kind import Object
from mainstay.api.memo import Memo, encoded
from mainstay.api.owners import find_controller
from mainstay.api.pod_resources import (
    CPU,
    MEMORY,
    HostPort,
    count_requests,
    count_scored_requests,
    list_host_ports,
    parse_amounts,
    parse_host_port,
)
from mainstay.scheduler.reasons import Cure

_NOTHING: Final[Mapping[str, Any]] = {}
_memo: Memo["CachedCharge"] = Memo()


@dataclass(frozen=True, slots=True, eq=False)
class CachedCharge:
    """Compared by identity: `same` looks at what it says."""

    key: bytes
    """Says all of it. Two charges with the same key are the same."""
    namespace: str
    labels: Mapping[str, str]
    is_counted: bool
    """Whether other pods are spread with regard to it. One that is about to end is not counted, nor a reservation."""
    requests: Mapping[str, int]
    scored_cpu: int
    scored_memory: int
    """What scores take it to need, which is more than nothing."""
    ports: tuple[HostPort, ...]
    reservation: str = ""
    """The name of the reservation, in the same namespace, in whose room the pod is if it is on that node."""
    workload: str = ""
    """The uid of the owner that controls the pod; empty if there is none."""

    def same(self, other: "CachedCharge") -> bool:
        return self is other or self.key == other.key


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """Stands for a selector: the pods that one owner controls, whatever their labels."""

    uid: str


def build_charge(pod: Object) -> CachedCharge:
    """What a pod takes on its node, for as long as it is there."""
    key = _key(pod)
    found = _memo.get(key)
    if found is None:
        metadata, scored = pod["metadata"], count_scored_requests(pod)
        found = CachedCharge(
            key=key,
            namespace=metadata.get("namespace") or "",
            labels=dict(metadata.get("labels") or _NOTHING),
            is_counted="deletionTimestamp" not in metadata,
            requests=_without_nothing(count_requests(pod)),
            scored_cpu=scored.get(CPU, 0),
            scored_memory=scored.get(MEMORY, 0),
            ports=list_host_ports(pod),
            reservation=find_reservation(pod),
            workload=find_workload_uid(pod),
        )
        _memo.put(key, found)
    return found


def build_reservation_charge(reservation: Object) -> CachedCharge:
    """What a reservation holds."""
    spec = reservation.get("spec") or _NOTHING
    return _room(reservation["metadata"].get("namespace") or "", spec)


def build_unconfirmed_charge(charge: Object) -> CachedCharge:
    """What a pod takes that was deleted by force and may still run, as the server has it in its ledger."""
    return _room(charge.get("namespace") or "", charge)


def _room(namespace: str, said: Mapping[str, Any]) -> CachedCharge:
    """Resources and ports, and nothing that others are spread by."""
    requests = _without_nothing(parse_amounts(said.get("resources")))
    ports = tuple(parse_host_port(port) for port in said.get("ports") or () if port.get("hostPort"))
    return CachedCharge(
        key=encoded([said.get("resources"), said.get("ports")]),
        namespace=namespace,
        labels={},
        is_counted=False,
        requests=requests,
        scored_cpu=requests.get(CPU, 0),
        scored_memory=requests.get(MEMORY, 0),
        ports=ports,
    )


def find_reservation(pod: Object) -> str:
    """The name of the reservation that holds room for a pod, in its namespace; or nothing."""
    return (pod["metadata"].get("annotations") or _NOTHING).get(RESERVATION) or ""


def find_workload_uid(pod: Object) -> str:
    """The owner that controls a pod; empty if there is none."""
    owner = find_controller(pod)
    return "" if owner is None else str(owner.get("uid") or "")


def changes(old: CachedCharge, new: CachedCharge) -> tuple[Cure, ...]:
    """What may be worth another try after a pod on the same node takes something else."""
    found = []
    is_less = any(new.requests.get(resource, 0) < amount for resource, amount in old.requests.items())
    if is_less or any(port not in new.ports for port in old.ports):
        found.append(Cure.POD_REMOVED)
    if old.labels != new.labels or old.is_counted != new.is_counted or old.workload != new.workload:
        found.append(Cure.POD_LABELS)
    return tuple(found)


def spec_parts(spec: Mapping[str, Any]) -> list[Any]:
    """Those parts of a spec that say what a pod takes. Others differ from pod to pod, such as names of volumes."""
    init = spec.get("initContainers")
    return [
        [[each.get("name"), each.get("resources"), each.get("ports")] for each in spec.get("containers") or ()],
        init
        and [[each.get("name"), each.get("resources"), each.get("ports"), each.get("restartPolicy")] for each in init],
        spec.get("overhead"),
        spec.get("resources"),
    ]


def _without_nothing(amounts: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount}


def _key(pod: Object) -> bytes:
    metadata, status = pod["metadata"], pod.get("status") or _NOTHING
    parts = [
        metadata.get("namespace"),
        metadata.get("labels"),
        "deletionTimestamp" in metadata,
        find_reservation(pod),
        find_workload_uid(pod),
        spec_parts(pod.get("spec") or _NOTHING),
    ]
    states = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    if any("allocatedResources" in each or "resources" in each for each in states):
        parts.append([[each.get("name"), each.get("allocatedResources"), each.get("resources")] for each in states])
        parts.append([each for each in status.get("conditions") or () if each.get("type") == "PodResizePending"])
    return encoded(parts)
