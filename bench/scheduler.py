"""How many placements a second does deciding come to, before anything is bound? And a whole cluster, with binding?

Deciding: each decision goes from the pod as an object to the node that it is then assumed to be on, one pod after the
other: the columns, vectors and functions that the scheduler runs, and no API server. Nodes are alike, in three zones,
with room for 110 pods; pods come from one workload, or from twenty in turn, or have spread constraints or preferences.
Counted is the CPU time of one core. The seed of ties is "7".

The cluster is in _scheduler_cluster.py.
"""

import gc
from collections.abc import Callable, Iterable
from typing import Any, Final

from bench import _scheduler_cluster
from bench.measure import Figure, Stopwatch, main
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Placed

SEED: Final = "7"
Pod = dict[str, Any]


def measure(quick: bool) -> Iterable[Figure]:
    pods = 2_000 if quick else 20_000
    for nodes, goal in ((1_000, "≥ 20000"), (5_000, "≥ 15000"), (20_000, "≥ 10000")):
        yield _rate(f"plain pods, {nodes:,} nodes", nodes, pods, plain, goal)
    yield _rate("plain pods of 20 workloads in turn, 5,000 nodes", 5_000, pods, of_many_workloads)
    yield _rate("zone spread, maxSkew 1, 5,000 nodes", 5_000, pods, zone_spread, "≥ 8000")
    yield _rate("preferred node affinity, 5,000 nodes", 5_000, pods, preferred_affinity, "≥ 10000")
    yield _rate("soft spread over zones and hosts, 5,000 nodes", 5_000, pods, soft_spread)
    yield _refusals(5_000, 50 if quick else 500)
    yield from _scheduler_cluster.measure(quick)


def _rate(name: str, nodes: int, count: int, make: Callable[[int], Pod], goal: str = "") -> Figure:
    columns = cluster(nodes)
    vectors = Vectors(columns)
    pods = [make(number) for number in range(count)]
    for number in range(40):  # Each class is made once, which is not a matter of each decision.
        decide(vectors, pod_to_place(make(number)), DEFAULT, SEED)
    gc.collect()
    gc.freeze()
    with Stopwatch() as watch:
        for pod in pods:
            placing = pod_to_place(pod)
            decision = decide(vectors, placing, DEFAULT, SEED)
            if not isinstance(decision, Placed):
                raise AssertionError(f"{decision}")
            columns.assume(placing, decision.node)
    gc.unfreeze()
    each_us = watch.cpu_s / count * 1e6
    return Figure(f"decide: {name}, of one core", 1e6 / each_us, "/s", each_us, goal)


def _refusals(nodes: int, count: int) -> Figure:
    """Pods that no node can take, while others are placed: each refusal with all reasons on all nodes."""
    columns = cluster(nodes)
    vectors = Vectors(columns)
    watch_s = 0.0
    for number in range(count):
        columns.assume(pod_to_place(plain(number)), _name(number % nodes))
        with Stopwatch() as watch:
            decide(vectors, pod_to_place(too_large(number)), DEFAULT, SEED)
        watch_s += watch.cpu_s
    each_us = watch_s / count * 1e6
    return Figure(f"decide: refused by all of {nodes:,} nodes, with reasons, of one core", 1e6 / each_us, "/s", each_us)


# The cluster, and its pods.


def cluster(nodes: int) -> NodeColumns:
    columns = NodeColumns()
    for number in range(nodes):
        name = _name(number)
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "disk": "fast" if number % 4 == 0 else "slow",
        }
        allocatable = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}
        columns.node_changed(
            {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}, name
        )
    return columns


def _name(number: int) -> str:
    return f"node-{number:05d}"


def plain(number: int, app: str = "web", milli: int = 250, **spec: Any) -> Pod:
    requests = {"cpu": f"{milli}m", "memory": "512Mi"}
    return {
        "metadata": {
            "namespace": "shop",
            "name": f"{app}-{number}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "labels": {"app": app},
        },
        "spec": {
            "containers": [{"name": "main", "image": f"example.com/{app}:1", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def of_many_workloads(number: int) -> Pod:
    return plain(number, f"app-{number % 20}", 100 + 10 * (number % 20))


def too_large(number: int) -> Pod:
    return plain(number, "large", 64_000)


def zone_spread(number: int) -> Pod:
    return plain(number, topologySpreadConstraints=[_constraint("topology.kubernetes.io/zone", "DoNotSchedule")])


def soft_spread(number: int) -> Pod:
    keys = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    return plain(number, topologySpreadConstraints=[_constraint(key, "ScheduleAnyway") for key in keys])


def _constraint(key: str, when: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector}


def preferred_affinity(number: int) -> Pod:
    expression = {"key": "disk", "operator": "In", "values": ["fast"]}
    preferred = [{"weight": 10, "preference": {"matchExpressions": [expression]}}]
    return plain(number, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


if __name__ == "__main__":
    main(measure)
