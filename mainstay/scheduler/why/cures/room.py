"""Changes that make room: request less, wait for pods that leave, remove pods.

A removed pod of a workload is replaced, and the replacement needs a node, too: only if there is one for it elsewhere
does that help (trial.py), and the words say where it would go. A workload that is scaled down loses the pods
that its controller would choose (loop/deletion_order.py), wherever they are.

Bounded: at most `NODES_LOOKED_AT` nodes, `PODS_MAX` pods removed, `WORKLOADS_MAX` workloads tried.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.owners import find_controller
from mainstay.api.pod_resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES,
    MEMORY,
    PODS,
    HostPort,
    amount,
    conflicts,
    count_requests,
    parse_amounts,
)
from mainstay.api.well_known_labels import HOSTNAME, ZONE_LABEL
from mainstay.explain.cures.owner import Workload, find_workload, set_requests, unchangeable
from mainstay.explain.cures.values import CureKind
from mainstay.loop import deletion_order
from mainstay.scheduler.cache.charge import build_charge, build_reservation_charge
from mainstay.scheduler.what_if import Objects
from mainstay.scheduler.why.cures.blockers import Blocked
from mainstay.scheduler.why.cures.steps import CureStep, release
from mainstay.scheduler.why.cures.trial import GhostsGone, NodeAdded, PodEdit, PodsGone

NODES_LOOKED_AT: Final = 40
PODS_MAX: Final = 8
WORKLOADS_MAX: Final = 6
_LEAST_SHARE: Final = 10  # Less than a tenth of what was asked for is no advice.
_MEBIBYTE: Final = 1024 * 1024
NEW_NODE: Final = "a-new-node"


class Room:
    """Who has the room that one pod lacks."""

    def __init__(self, objects: Objects, pod: Object) -> None:
        self._objects = objects
        self._pod = pod
        self._workload = find_workload(pod)
        self._priority = _priority(pod)
        self._on: dict[str, list[Object]] = {}
        for each in objects.pods:
            node = pod_state.get_node_name(each)
            if node and not pod_state.is_over(each):
                self._on.setdefault(node, []).append(each)
        self._zones = {node["metadata"]["name"]: pod_state.get_zone(node) for node in objects.nodes}

    def steps(self, blocked: Blocked) -> Iterator[CureStep]:
        """What could make room on one node. Smaller ones first."""
        lacks = {resource: wanted - free for resource, (wanted, free) in blocked.short.items()}
        yield from self._waits(blocked, lacks)
        if blocked.short or blocked.quotas:
            yield from self.less(blocked)
        yield from self._fewer(blocked, lacks)
        yield from self._without_pods(blocked, lacks)

    def pods_to_remove(self, blocked: Blocked) -> int:
        """How many would have to go. More than `PODS_MAX`: it is not worth trying."""
        lacks = {resource: wanted - free for resource, (wanted, free) in blocked.short.items()}
        found = self._victims(blocked, lacks)
        return PODS_MAX + 1 if found is None else len(found)

    # Waiting.

    def _waits(self, blocked: Blocked, lacks: Mapping[str, int]) -> Iterator[CureStep]:
        node = blocked.node
        leaving = [pod for pod in self._on.get(node, ()) if pod_state.is_leaving(pod)]
        if leaving:
            until = max(str(pod["metadata"]["deletionTimestamp"]) for pod in leaving)
            text = f"wait until {_named(leaving)} on {node} {'has' if len(leaving) == 1 else 'have'} terminated"
            yield CureStep(CureKind.WAIT_FOR_PODS, text, (PodsGone(tuple(leaving)),), 0, until=until)
        ghosts = dict(self._objects.unconfirmed).get(node, ())
        if ghosts:
            pods = "1 force-deleted pod has" if len(ghosts) == 1 else f"{len(ghosts)} force-deleted pods have"
            text = f"wait until {node} confirms that {pods} terminated"
            yield CureStep(CureKind.WAIT_FOR_GHOSTS, text, (GhostsGone(node),), 2, f"mainstay why node/{node}")
        for reservation in self._objects.reservations:
            if reservation["spec"].get("nodeName") == node and _is_held(reservation):
                held = build_reservation_charge(reservation)
                if any(held.requests.get(each) for each in lacks) or (blocked.ports and held.ports):
                    yield release(reservation)

    # Asking for less.

    def less(self, blocked: Blocked) -> Iterator[CureStep]:
        """Ask for what there is on this node, of everything that is short."""
        limits = {resource: free for resource, (_, free) in blocked.short.items()}
        for (_, resource), (_, left) in blocked.quotas.items():
            limits[resource] = min(left, limits.get(resource, left))
        now, pod = count_requests(self._pod), self._pod
        texts, changed = [], dict[str, dict[str, str]]()
        share = 100
        for resource, free in sorted(limits.items()):
            most = _rounded(resource, free)
            if resource == PODS or most * _LEAST_SHARE < now.get(resource, 0) or most <= 0:
                return
            lower = _lowered(pod, resource, most)
            if lower is None:
                return
            pod, container, to = lower
            changed.setdefault(container, {})[resource] = to
            texts.append(f"{resource} from {amount(resource, now[resource])} to {amount(resource, most)}")
            share = min(share, most * 100 // now[resource])
        if not texts:
            return
        commands = [set_requests(self._workload, name, said) for name, said in sorted(changed.items())]
        new = pod["spec"]
        text = f"lower its request for {' and '.join(texts)}{unchangeable(self._workload)}"
        cost = 20 + (100 - share) // 4
        edit = PodEdit(lambda given: {**given, "spec": _with_requests(given["spec"], new)})
        yield CureStep(CureKind.LOWER_REQUEST, text, (edit,), cost, " && ".join(each for each in commands if each))

    # Removing others.

    def _fewer(self, blocked: Blocked, lacks: Mapping[str, int]) -> Iterator[CureStep]:
        """Scale another workload down, by as little as frees enough of this node."""
        priorities: dict[Workload, int] = {}
        for pod in self._on.get(blocked.node, ()):
            workload = find_workload(pod)
            if workload != self._workload and workload.kind in ("deployment", "replicaset"):
                priorities[workload] = _priority(pod)
        for workload in sorted(priorities, key=lambda each: (priorities[each], each))[:WORKLOADS_MAX]:
            active = [pod for pod in self._by_workload.get(workload, ()) if pod_state.is_active(pod)]
            first = deletion_order.chosen(active, PODS_MAX, zones=self._zones)
            for count in range(1, len(first) + 1):
                gone = first[:count]
                here = [pod for pod in gone if pod_state.get_node_name(pod) == blocked.node]
                if not _suffices(here, lacks, blocked):
                    continue
                left = len(active) - count
                command = f"kubectl scale {workload} -n {workload.namespace} --replicas={left}"
                text = f"scale {workload} in {workload.namespace} down from {len(active)} to {left}"
                yield CureStep(CureKind.SCALE_DOWN, text, (PodsGone(tuple(gone)),), 45 + 5 * count, command)
                break

    def _without_pods(self, blocked: Blocked, lacks: Mapping[str, int]) -> Iterator[CureStep]:
        victims = self._victims(blocked, lacks)
        if not victims:
            return
        replacements = tuple(_replacement(pod) for pod in victims if find_controller(pod) is not None)
        namespaces: dict[str, list[str]] = {}
        for pod in victims:
            namespaces.setdefault(pod["metadata"].get("namespace") or "", []).append(pod["metadata"]["name"])
        commands = [f"kubectl delete pod -n {each} {' '.join(sorted(namespaces[each]))}" for each in sorted(namespaces)]
        text = f"delete {_named(victims)} on {blocked.node}"
        # A pod without an owner is lost.
        cost = 50 + 10 * len(victims) + 15 * (len(victims) - len(replacements))
        gone = (PodsGone(tuple(victims)),)
        yield CureStep(CureKind.REMOVE_PODS, text, gone, cost, " && ".join(commands), replacements=replacements)

    def _victims(self, blocked: Blocked, lacks: Mapping[str, int]) -> list[Object] | None:
        """The fewest pods on a node that have what is lacking; of those, the least important and the smallest. None
        of a higher priority: it would come back and be served first."""
        here = [
            pod
            for pod in self._on.get(blocked.node, ())
            if pod_state.is_active(pod) and _priority(pod) <= self._priority and find_workload(pod) != self._workload
        ]
        chosen = [pod for pod in here if _holds_port(pod, blocked)] if blocked.ports else []
        rest = [pod for pod in here if pod not in chosen]
        while not _suffices(chosen, lacks, blocked):
            if not rest or len(chosen) >= PODS_MAX:
                return None
            enough = [pod for pod in rest if _suffices([*chosen, pod], lacks, blocked)]
            if enough:
                best = min(enough, key=lambda pod: (_priority(pod), _size(pod, lacks), pod["metadata"]["name"]))
            else:
                best = min(rest, key=lambda pod: (_priority(pod), -_size(pod, lacks), pod["metadata"]["name"]))
            chosen.append(best)
            rest.remove(best)
        return sorted(chosen, key=lambda pod: str(pod["metadata"]["name"])) if len(chosen) <= PODS_MAX else None

    @cached_property
    def _by_workload(self) -> dict[Workload, list[Object]]:
        """All pods of each workload, wherever they are."""
        by_owner: dict[str, list[Object]] = {}
        for pod in self._objects.pods:
            owner = find_controller(pod)
            if owner is not None:
                by_owner.setdefault(owner["uid"], []).append(pod)
        found: dict[Workload, list[Object]] = {}
        for pods in by_owner.values():
            found.setdefault(find_workload(pods[0]), []).extend(pods)
        return found

    # One more node.

    def new_nodes(self, labels: Mapping[str, str]) -> Iterator[CureStep]:
        """A node more, like one that is there if such a one would do; else as large as the pod needs it."""
        wanted = build_charge(self._pod).requests
        shape, words = None, ""
        for node in sorted(self._objects.nodes, key=lambda each: str(each["metadata"]["name"])):
            found = (node.get("status") or {}).get("allocatable") or {}
            has = parse_amounts(found)
            if all(has.get(resource, 0) >= needed for resource, needed in wanted.items()):
                shape, words = found, f"one more node like {node['metadata']['name']}"
                break
        if shape is None:
            shape = {resource: amount(resource, needed) for resource, needed in wanted.items()} | {PODS: "110"}
            listed = ", ".join(f"{each} {shape[each]}" for each in sorted(wanted) if each != PODS)
            words = f"a node with at least {listed}" if listed else "a node"
        zones = sorted({zone for zone in self._zones.values() if zone})
        for zone in ("", *zones[:3]):
            said = {**labels, **({ZONE_LABEL: zone} if zone else {})}
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": NEW_NODE, "uid": NEW_NODE, "labels": {HOSTNAME: NEW_NODE, **said}},
                "spec": {},
                "status": {"allocatable": dict(shape)},
            }
            listed = ", ".join(f"{key}={value}" for key, value in sorted(said.items()))
            # A pod without room is not helped by where a node says that it is: the plain one is tried first.
            yield CureStep(
                CureKind.ADD_NODE, f"add {words}{f', labelled {listed}' if listed else ''}", (NodeAdded(node),), 300
            )


def _priority(pod: Object) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


def _is_held(reservation: Object) -> bool:
    return ((reservation.get("status") or {}).get("phase") or "Active") == "Active"


def _named(pods: list[Object]) -> str:
    names = [f"{pod['metadata'].get('namespace') or ''}/{pod['metadata']['name']}" for pod in pods]
    shown = ", ".join(sorted(names)[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _suffices(pods: list[Object], lacks: Mapping[str, int], blocked: Blocked) -> bool:
    if not pods:
        return False
    freed: dict[str, int] = {}
    for pod in pods:
        for resource, number in build_charge(pod).requests.items():
            freed[resource] = freed.get(resource, 0) + number
    if blocked.ports and not any(_holds_port(pod, blocked) for pod in pods):
        return False
    return all(freed.get(resource, 0) >= lack for resource, lack in lacks.items())


def _holds_port(pod: Object, blocked: Blocked) -> bool:
    wanted = [_port(text) for text in blocked.ports]
    return any(conflicts(port, each) for port in build_charge(pod).ports for each in wanted)


def _port(text: str) -> HostPort:
    address, _, protocol = text.rpartition("/")
    ip, _, port = address.rpartition(":")
    return HostPort(ip, protocol, int(port))


def _size(pod: Object, lacks: Mapping[str, int]) -> float:
    requests = build_charge(pod).requests
    return sum(requests.get(resource, 0) / lack for resource, lack in lacks.items() if lack)


def _replacement(pod: Object) -> Object:
    """What its owner makes in its place."""
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    metadata = pod["metadata"]
    new = {**metadata, "uid": f"{metadata['uid']}-recreated", "name": f"{metadata['name']}-recreated"}
    return {**pod, "metadata": new, "spec": spec, "status": {"phase": "Pending"}}


# A smaller request.


def _rounded(resource: str, free: int) -> int:
    """Something that one would write down."""
    if resource in (MEMORY, EPHEMERAL_STORAGE) and free >= _MEBIBYTE:
        return free // _MEBIBYTE * _MEBIBYTE
    return max(free, 0)


def _lowered(pod: Object, resource: str, to: int) -> tuple[Object, str, str] | None:
    """The pod with a smaller request; of which container, and how much. None: it is not one container's doing."""
    if (pod["spec"].get("resources") or {}).get("requests", {}).get(resource) is not None:
        return None  # Said of the whole pod: no command changes that alone.
    containers = pod["spec"].get("containers") or ()
    asked = [(_asked(each, resource), number) for number, each in enumerate(containers)]
    largest, number = max(asked, key=lambda each: (each[0], -each[1]), default=(0, 0))
    left = largest - (count_requests(pod).get(resource, 0) - to)
    if left <= 0 or resource.startswith(HUGE_PAGES):
        return None
    said = amount(resource, left)
    new = copy.deepcopy(pod["spec"])
    new["containers"][number].setdefault("resources", {}).setdefault("requests", {})[resource] = said
    limits = new["containers"][number]["resources"].get("limits") or {}
    if resource not in (CPU, MEMORY, EPHEMERAL_STORAGE) and resource in limits:
        return None  # Of these, a request is its limit.
    found = {**pod, "spec": new}
    if count_requests(found).get(resource, 0) > to:
        return None  # An init container asks for as much.
    return found, str(containers[number].get("name", "")), said


def _asked(container: Object, resource: str) -> int:
    requests = (container.get("resources") or {}).get("requests") or {}
    return parse_amounts({resource: requests[resource]})[resource] if resource in requests else 0


def _with_requests(spec: Object, new: Object) -> Object:
    """Another edit of the same pod must not be undone: only the containers are taken over."""
    return {**spec, "containers": new["containers"]}
