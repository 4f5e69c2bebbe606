"""Keep the Endpoints of a Service, for clients that do not read EndpointSlices yet. One object, of the same name.

Addresses that have the same ports stand together, those that are not ready apart. An object can hold only so many:
beyond `ADDRESSES_MAX` some are left out, of those that are not ready first, and an annotation says so. Only addresses
of the first family of a Service are in it, and none of a pod that is leaving, unless unready ones are published.

Endpoints that a user keeps for a Service without a selector are left alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import ENDPOINTS, PODS, SERVICES
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.endpoints.routes import (
    HEADLESS,
    Port,
    find_hostname,
    is_headless,
    is_routed,
    list_addresses,
    list_families,
    reference_to_pod,
    resolve_ports,
    takes_traffic,
)
from mainstay.controllers.endpoints.selectors import LABELLED, SELECTING, find_pods, get_selector, selecting_pods
from mainstay.loop.controller import Controller, Reads, same_name
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
MANAGER: Final = "endpoint-controller"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
TRUNCATED: Final = "truncated"
ADDRESSES_MAX: Final = 1000


class Endpoints(Controller):
    name = "endpoints"
    kind = SERVICES
    says_stalled = False
    indexes = (SELECTING,)
    reads = (
        Reads(PODS, wakes_among=selecting_pods(), indexes=(LABELLED,)),
        Reads(ENDPOINTS, wakes=same_name),
    )
    writes = (ENDPOINTS,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        service, there = view.get(SERVICES, key), view.get(ENDPOINTS, key)
        if service is None:
            return Decision() if there is None or not _is_ours(there) else Decision((_removed(there),))
        if not get_selector(service):
            return Decision()
        subsets, is_truncated = truncated(build_subsets(service, find_pods(view, service)))
        labels = build_endpoints_labels(service)
        if there is None:
            metadata: dict[str, Any] = {"name": key.name, "namespace": key.namespace, "labels": labels}
            if is_truncated:
                metadata["annotations"] = {OVER_CAPACITY: TRUNCATED}
            return Decision((Create(ENDPOINTS, {"metadata": metadata, "subsets": subsets}),))
        body = _changes(there, subsets, labels, is_truncated)
        if not body:
            return Decision()
        metadata = there["metadata"]
        return Decision(
            (
                Patch(
                    ENDPOINTS,
                    key,
                    metadata["uid"],
                    body,
                    resource_version=metadata["resourceVersion"],
                    freshness=Freshness.SEEN_VERSION,
                ),
            )
        )


@dataclass(frozen=True, slots=True)
class _At:
    """What is reached through one port."""

    ready: tuple[str, ...]
    unready: tuple[str, ...]


def build_subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """The addresses, by the ports that they have in common; sorted."""
    family = list_families(service)[0]
    publishes_all = bool((service.get("spec") or {}).get("publishNotReadyAddresses"))
    bodies: dict[str, Object] = {}
    at: dict[Port | None, dict[str, bool]] = {}
    for pod in pods:
        addresses = list_addresses(pod, family)
        if not addresses or not is_routed(pod, with_leaving=publishes_all):
            continue
        uid = pod["metadata"]["uid"]
        bodies[uid] = _address(service, pod, addresses[0])
        ports: Sequence[Port | None] = resolve_ports(service, pod)
        if not ports and is_headless(service) and not service["spec"].get("ports"):
            ports = (None,)
        for port in ports:
            at.setdefault(port, {})[uid] = publishes_all or takes_traffic(pod)

    def in_order(uids: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(uids, key=lambda uid: (bodies[uid]["ip"], uid)))

    together: dict[_At, list[Port]] = {}
    for port, found in at.items():
        ready = in_order(uid for uid, is_ready in found.items() if is_ready)
        unready = in_order(uid for uid, is_ready in found.items() if not is_ready)
        together.setdefault(_At(ready, unready), []).extend(() if port is None else (port,))
    subsets = []
    for reached, ports_there in sorted(together.items(), key=lambda each: sorted(each[1])):
        subset: Object = {}
        if reached.ready:
            subset["addresses"] = [bodies[uid] for uid in reached.ready]
        if reached.unready:
            subset["notReadyAddresses"] = [bodies[uid] for uid in reached.unready]
        if ports_there:
            subset["ports"] = [_port(port) for port in sorted(ports_there)]
        subsets.append(subset)
    return subsets


def _port(port: Port) -> Object:
    made = port.as_object()
    return made if port.name else {field: value for field, value in made.items() if field != "name"}


def _address(service: Object, pod: Object, address: str) -> Object:
    body: Object = {"ip": address, "targetRef": reference_to_pod(pod)}
    if node := pod_state.get_node_name(pod):
        body["nodeName"] = node
    if name := find_hostname(service, pod):
        body["hostname"] = name
    return body


def truncated(subsets: list[Object], most: int = ADDRESSES_MAX) -> tuple[list[Object], bool]:
    """The same with at most so many addresses, and whether any is left out."""
    ready = [len(each.get("addresses") or ()) for each in subsets]
    unready = [len(each.get("notReadyAddresses") or ()) for each in subsets]
    if sum(ready) + sum(unready) <= most:
        return subsets, False
    kept_ready = _shares(ready, most)
    kept_unready = _shares(unready, most - sum(kept_ready))
    cut: list[Object] = []
    for subset, of_ready, of_unready in zip(subsets, kept_ready, kept_unready, strict=True):
        if of_ready or of_unready:
            parts = {
                "addresses": (subset.get("addresses") or [])[:of_ready],
                "notReadyAddresses": (subset.get("notReadyAddresses") or [])[:of_unready],
                "ports": subset.get("ports") or [],
            }
            cut.append({name: part for name, part in parts.items() if part})
    return cut, True


def _shares(counts: Sequence[int], most: int) -> list[int]:
    """Of each count its part of what is allowed, and nothing of that unused."""
    total = sum(counts)
    if total <= most:
        return list(counts)
    shares = [count * most // total for count in counts]
    for number, count in enumerate(counts):
        more = min(count - shares[number], most - sum(shares))
        shares[number] += more
    return shares


def build_endpoints_labels(service: Object) -> dict[str, str]:
    labels = {**(service["metadata"].get("labels") or {}), MANAGED_BY: MANAGER, SKIP_MIRROR: "true"}
    labels.pop(HEADLESS, None)
    return {**labels, HEADLESS: ""} if is_headless(service) else labels


def _is_ours(endpoints: Object) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def _removed(endpoints: Object) -> Delete:
    metadata = endpoints["metadata"]
    key = ObjectKey(metadata["namespace"], metadata["name"])
    return Delete(
        ENDPOINTS, key, metadata["uid"], resource_version=metadata["resourceVersion"], freshness=Freshness.SEEN_VERSION
    )


def _changes(there: Object, subsets: list[Object], labels: dict[str, str], is_truncated: bool) -> Object:
    """What differs, as a merge patch."""
    body: Object = {}
    if (there.get("subsets") or []) != subsets:
        body["subsets"] = subsets
    metadata: Object = {}
    before = there["metadata"].get("labels") or {}
    if before != labels:
        metadata["labels"] = {**dict.fromkeys(sorted(before.keys() - labels.keys())), **labels}
    said = (there["metadata"].get("annotations") or {}).get(OVER_CAPACITY)
    if said != (TRUNCATED if is_truncated else None):
        metadata["annotations"] = {OVER_CAPACITY: TRUNCATED if is_truncated else None}
    if metadata:
        body["metadata"] = metadata
    return body
