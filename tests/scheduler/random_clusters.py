"""Small clusters with a bit of everything, from a seed; and things that happen to them."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from mainstay.api.pod_resources import is_over
from mainstay.scheduler.what_if import Objects
from tests.scheduler.objects import (
    a_node,
    a_pod,
    a_reservation,
    a_zone_quota,
    preferred_affinity,
    required_affinity,
    spread_over,
)

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("a", "b", "c")
NAMESPACES = ("default", "other")
TAINTS = ("gpu=yes:NoSchedule", "gpu=no:NoSchedule", "old:NoExecute", "slow:PreferNoSchedule", "loud:PreferNoSchedule")


def random_node(random: Random, name: str) -> Object:
    labels = {"disk": random.choice(("fast", "slow"))} if random.random() < 0.7 else {}
    if random.random() < 0.5:
        labels["cores"] = random.choice(("2", "8", "16", "many"))
    more = {"example.com/gpu": str(random.randint(0, 4))} if random.random() < 0.4 else {}
    return a_node(
        name,
        cpu=random.choice(("1", "2", "4", "3500m")),
        memory=random.choice(("1Gi", "2Gi", "8Gi", "0")),
        pods=str(random.choice((2, 4, 110))),
        labels=labels,
        zone=random.choice(ZONES) if random.random() < 0.9 else None,
        taints=[taint for taint in TAINTS if random.random() < 0.12],
        unschedulable=random.random() < 0.08,
        resources=more,
    )


def random_pod(random: Random, name: str, *, node: str = "") -> Object:
    """A pod without a node is a plain one, or asks for something special."""
    spec: Object = {}
    labels = {"app": random.choice(("web", "db"))}
    if random.random() < 0.5:
        labels["version"] = random.choice(("1", "2"))
    requests = {}
    if random.random() < 0.15:
        requests["example.com/gpu"] = str(random.randint(0, 2))
    ports = []
    if random.random() < 0.2:
        ports = [{"containerPort": 80, "hostPort": random.choice((80, 81)), **_address(random)}]
    if random.random() < 0.3:
        spec["tolerations"] = random.sample(TOLERATIONS, random.randint(1, 3))
    if not node:
        _ask_for_something(random, spec)
    return a_pod(
        name,
        namespace=random.choice(NAMESPACES),
        node=node,
        labels=labels,
        cpu=random.choice((None, "0", "100m", "500m", "1")),
        memory=random.choice((None, "64Mi", "300Mi", "1Gi")),
        requests=requests,
        ports=ports,
        phase=random.choice(("Running", "Running", "Running", "Succeeded")) if node else "Pending",
        deleting=bool(node) and random.random() < 0.1,
        reservation=f"r{random.randint(0, 2)}" if random.random() < 0.1 else "",
        owner=random.choice(("", "w1", "w1", "w2")),
        **spec,
    )


TOLERATIONS: Sequence[Object] = (
    {"key": "gpu", "operator": "Exists"},
    {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"key": "old", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)


def _address(random: Random) -> Object:
    return random.choice(({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, {"protocol": "UDP"}))


def _ask_for_something(random: Random, spec: Object) -> None:
    if random.random() < 0.2:
        spec["nodeSelector"] = {"disk": "fast"}
    kind = random.random()
    if kind < 0.15:
        spec["affinity"] = required_affinity(
            [("cores", random.choice(("Gt", "Lt")), ["4"])], [("disk", "NotIn", ["slow"]), ("cores", "Exists", [])]
        )
    elif kind < 0.25:
        spec["affinity"] = required_affinity(fields=[("metadata.name", random.choice(("In", "NotIn")), ["n1"])])
    elif kind < 0.5:
        spec["affinity"] = preferred_affinity(
            (random.randint(1, 100), [("disk", "In", ["fast"])]), (random.randint(1, 100), [(ZONE, "In", ["a", "b"])])
        )
    if random.random() < 0.5:
        spec["topologySpreadConstraints"] = [
            _random_constraint(random, key) for key in random.sample((ZONE, HOSTNAME, "disk"), random.randint(1, 2))
        ]


def _random_constraint(random: Random, key: str) -> Object:
    more: Object = {}
    hard = random.random() < 0.6
    if hard and random.random() < 0.3:
        more["minDomains"] = random.randint(1, 4)
    if random.random() < 0.3:
        more["nodeAffinityPolicy"] = random.choice(("Honor", "Ignore"))
    if random.random() < 0.3:
        more["nodeTaintsPolicy"] = random.choice(("Honor", "Ignore"))
    if random.random() < 0.3:
        more["matchLabelKeys"] = ["version"]
    app = random.choice(("web", "db", None))
    return spread_over(key, max_skew=random.randint(1, 2), hard=hard, app=app, **more)


def random_objects(random: Random) -> Objects:
    nodes = [random_node(random, f"n{number}") for number in range(random.randint(1, 7))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [
        random_pod(random, f"old{number}", node=random.choice((*names, "gone") if random.random() < 0.1 else names))
        for number in range(random.randint(0, 12))
    ]
    return Objects(
        nodes=tuple(nodes),
        pods=tuple(pods),
        reservations=tuple(_random_reservation(random, f"r{n}", names) for n in range(random.randint(0, 2))),
        zone_quotas=tuple(_random_quota(random, f"q{n}") for n in range(random.choice((0, 0, 1, 2)))),
    )


def with_random_ghosts(random: Random, objects: Objects) -> Objects:
    """Some pods were removed by force; a cache that is late may still show one of them."""
    shown = [pod["metadata"]["uid"] for pod in objects.pods]
    told: dict[str, list[Object]] = {}
    for number in range(random.randint(0, 4)):
        ghost = {
            "uid": shown.pop() if shown and random.random() < 0.3 else f"ghost-{number}",
            "namespace": random.choice(NAMESPACES),
            "resources": {"cpu": random.choice(("500m", "1", "2")), "memory": "256Mi", "pods": "1"},
            "ports": [{"hostPort": 80}] if random.random() < 0.3 else [],
        }
        told.setdefault(random.choice(objects.nodes)["metadata"]["name"], []).append(ghost)
    return replace(objects, unconfirmed=tuple((name, tuple(found)) for name, found in sorted(told.items())))


def _random_reservation(random: Random, name: str, nodes: Sequence[str]) -> Object:
    found = a_reservation(
        name,
        random.choice(nodes),
        namespace=random.choice(NAMESPACES),
        phase=random.choice(("Active", "Active", "Confirmed", "Released")),
        cpu=random.choice(("500m", "1")),
        memory="256Mi",
    )
    if random.random() < 0.3:
        found["spec"]["ports"] = [{"hostPort": 80}]
    return found


def _random_quota(random: Random, name: str) -> Object:
    return a_zone_quota(
        random.choice(ZONES),
        name=name,
        namespace=random.choice(NAMESPACES),
        requests__cpu=random.choice(("1", "2")),
        pods=random.choice(("2", "5")),
        limits__cpu="0",
    )


def something_happens(random: Random, objects: Objects, step: int) -> Objects:
    """The world one change later."""
    names = [node["metadata"]["name"] for node in objects.nodes]
    match random.choice(("node", "node gone", "pod", "pod gone", "pod over", "reservation", "quota", "quota gone")):
        case "node":
            name = random.choice((*names, f"m{step}"))
            return objects.with_changes(nodes=[random_node(random, name)])
        case "node gone" if len(names) > 1:
            return objects.with_changes(without_nodes=[random.choice(names)])
        case "pod":
            name = random.choice((f"new{step}", "old0", "old1"))
            node = random.choice((*names, "gone"))
            if name != f"new{step}":  # Pods do not move, but they change.
                node = next((pod["spec"]["nodeName"] for pod in objects.pods if pod["metadata"]["name"] == name), node)
            return objects.with_changes(pods=[random_pod(random, name, node=node)])
        case "pod gone" if objects.pods:
            metadata = random.choice(objects.pods)["metadata"]
            return objects.with_changes(without_pods=[(metadata["namespace"], metadata["name"])])  # type: ignore[list-item]
        case "pod over" if objects.pods:
            pod = random.choice(objects.pods)
            if not is_over(pod):
                return objects.with_changes(pods=[{**pod, "status": {"phase": "Failed"}}])
        case "reservation":
            return objects.with_changes(reservations=[_random_reservation(random, f"r{random.randint(0, 2)}", names)])
        case "quota":
            return objects.with_changes(zone_quotas=[_random_quota(random, f"q{random.randint(0, 1)}")])
        case "quota gone" if objects.zone_quotas:
            return Objects(objects.nodes, objects.pods, objects.reservations, (), objects.assumed)
    return objects
