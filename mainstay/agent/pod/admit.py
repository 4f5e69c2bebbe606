"""Whether a node takes a pod that was bound to it. A plain function.

The scheduler and the server's ledger have looked at all this before. The node looks again because it is the last one
who can: what it runs together must fit, whatever bound it and however long ago. What does not is reported as Failed,
with the kubelet's reasons and words. What the node has no notion of (an extended resource that it does not list) is not
counted here, as the kubelet does not.

A pod that was taken once is not looked at again: changed labels or taints do not end it (for taints there is a
controller).
"""

from collections.abc import Iterable
from typing import Final

from mainstay.agent.pod.facts import PodRefused
from mainstay.api.kind import Object
from mainstay.api.node_terms import parse_requirements
from mainstay.api.pod_resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    conflicts,
    count_requests,
    is_over,
    list_host_ports,
    read_allocatable,
)
from mainstay.api.taints import NO_EXECUTE, parse_taints, parse_tolerations, untolerated

_ALWAYS_KNOWN: Final = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)
"""In the order in which they are looked at. A node that does not list them has none of it."""
_OS: Final = "linux"


def admit(pod: Object, others: Iterable[Object], node: Object, *, has_pod_network: bool = False) -> PodRefused | None:
    """None: it may run. `others` are the pods that run here, or are about to, without this one. `has_pod_network`:
    ports of pods are not ports of the node."""
    present = [each for each in others if not is_over(each)]
    refused = _wrong_system(pod) or _no_room(pod, present, node) or _unsuitable(pod, node)
    return refused or (_port_not_given(pod) if has_pod_network else None) or _port_taken(pod, present)


def _wrong_system(pod: Object) -> PodRefused | None:
    wanted = (pod["spec"].get("os") or {}).get("name")
    if wanted in (None, "", _OS):
        return None
    return PodRefused("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")


def _no_room(pod: Object, present: list[Object], node: Object) -> PodRefused | None:
    needed, capacity = count_requests(pod), read_allocatable(node)
    charges = [count_requests(each) for each in present]
    extended = sorted(resource for resource in needed if resource not in _ALWAYS_KNOWN and resource in capacity)
    for resource in (*_ALWAYS_KNOWN, *extended):
        wanted = needed.get(resource, 0)
        if not wanted:
            continue
        used, has = sum(each.get(resource, 0) for each in charges), capacity.get(resource, 0)
        if used + wanted > has:
            message = (
                f"Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, capacity: {has}"
            )
            return PodRefused(f"OutOf{resource}", message)
    return None


def _unsuitable(pod: Object, node: Object) -> PodRefused | None:
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    if not parse_requirements(pod["spec"]).matches(name, labels):
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if pod["spec"].get("nodeName") not in (None, "", name):
        return _predicate("NodeName", "node(s) didn't match the requested node name")
    if untolerated(parse_taints(node), parse_tolerations(pod["spec"]), (NO_EXECUTE,)):
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _port_taken(pod: Object, present: list[Object]) -> PodRefused | None:
    taken = [port for each in present for port in list_host_ports(each)]
    if any(conflicts(one, other) for one in list_host_ports(pod) for other in taken):
        return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _port_not_given(pod: Object) -> PodRefused | None:
    if pod["spec"].get("hostNetwork") or not (ports := list_host_ports(pod)):
        return None
    shown = ", ".join(str(each.port) for each in ports)
    what = f"hostPort {shown}: pods of this node have a network of their own, to which it forwards no ports"
    return PodRefused("HostPortNotSupported", f"{what}: leave hostPort out, or set hostNetwork: true")


def _predicate(name: str, why: str) -> PodRefused:
    return PodRefused(name, f"Predicate {name} failed: {why}")
