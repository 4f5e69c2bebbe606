"""What makes a node better than another: the numbers a Kubernetes scheduler comes to, case by case."""

import math
from typing import Any

import pytest

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import scores
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import Allocation, Policy
from mainstay.scheduler.what_if import Objects, build_columns
from tests.scheduler.objects import a_node, a_pod, a_reservation, preferred_affinity, spread_over

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}


def only(**weight: Any) -> Policy:
    """A policy by which one thing counts."""
    none = {"allocation_weight": 0, "balance_weight": 0, "affinity_weight": 0, "taints_weight": 0, "spread_weight": 0}
    return Policy(**{**none, **weight})


def scored(objects: Objects, pod: Object, policy: Policy) -> dict[str, int]:
    return scores(Vectors(build_columns(objects)), pod_to_place(pod), policy)


LEAST, MOST = only(allocation_weight=1), only(allocation_weight=1, allocation=Allocation.MOST)
NODE = a_node(cpu="4", memory="8Gi", resources={"example.com/gpu": "4"})
ALLOCATION: dict[str, tuple[Policy, Object, Object, list[Object], int]] = {
    # (75 + 75) / 2: a quarter of each is taken.
    "least: a part of both": (LEAST, NODE, a_pod(cpu="1", memory="2Gi"), [], 75),
    "least: beside another": (
        LEAST,
        NODE,
        a_pod(cpu="1", memory="2Gi"),
        [a_pod("o", node="n1", cpu="1", memory="4Gi")],
        37,
    ),
    "least: all of it": (LEAST, NODE, a_pod(cpu="4", memory="8Gi"), [], 0),
    # 100m of 4 CPU and 200 MiB of 8 GiB: (97 + 97) / 2.
    "least: who says nothing counts a little": (LEAST, NODE, a_pod(), [], 97),
    "least: the others too": (LEAST, NODE, a_pod(), [a_pod(f"o{n}", node="n1") for n in range(10)], 72),
    "least: a node without memory": (LEAST, a_node(cpu="4", memory="0"), a_pod(cpu="1"), [], 75),
    "least: more is taken than there is": (LEAST, NODE, a_pod(), [a_pod("o", node="n1", cpu="9")], 47),
    "most: a part of both": (MOST, NODE, a_pod(cpu="1", memory="2Gi"), [], 25),
    "most: all of it": (MOST, NODE, a_pod(cpu="4", memory="8Gi"), [], 100),
    "most: more is taken than there is": (MOST, NODE, a_pod(cpu="0", memory="0"), [a_pod("o", node="n1", cpu="9")], 51),
    "weights": (
        only(allocation_weight=1, resources=(("cpu", 3), ("memory", 1))),
        NODE,
        a_pod(cpu="1", memory="0"),
        [],
        (75 * 3 + 100) // 4,
    ),
    "an extended resource": (
        only(allocation_weight=1, resources=(("cpu", 1), ("example.com/gpu", 1))),
        NODE,
        a_pod(cpu="2", requests={"example.com/gpu": "1"}),
        [],
        (50 + 75) // 2,
    ),
    "an extended resource that the pod does not ask for": (
        only(allocation_weight=1, resources=(("cpu", 1), ("example.com/gpu", 1))),
        NODE,
        a_pod(cpu="2"),
        [],
        50,
    ),
}


@pytest.mark.parametrize("case", ALLOCATION)
def test_a_node_is_scored_by_how_full_it_would_be(case: str) -> None:
    policy, node, pod, there, wanted = ALLOCATION[case]

    assert scored(Objects((node,), tuple(there)), pod, policy) == {"n1": wanted}


def test_what_is_held_counts_as_taken() -> None:
    objects = Objects((a_node(cpu="4", memory="8Gi"),), reservations=(a_reservation("r", "n1", cpu="2", memory="4Gi"),))

    assert scored(objects, a_pod(cpu="1", memory="2Gi"), LEAST) == {"n1": 25}


BALANCED = only(balance_weight=1)
THREE = only(balance_weight=1, resources=(("cpu", 1), ("memory", 1), ("ephemeral-storage", 1)))
BALANCE: dict[str, tuple[Policy, Object, list[Object], int]] = {
    "both are taken alike": (BALANCED, a_pod(cpu="1", memory="2Gi"), [], 75),
    # Half of the CPU and no memory: 100 - 25, against 100 without it.
    "one is taken": (BALANCED, a_pod(cpu="2"), [], 50 + (50 + 75 - 100) // 2),
    "what was out of balance is put right": (
        BALANCED,
        a_pod(cpu="2"),
        [a_pod("o", node="n1", memory="4Gi")],
        50 + (50 + 100 - 75) // 2,
    ),
    "more than everything is everything": (
        BALANCED,
        a_pod(memory="8Gi"),
        [a_pod("o", node="n1", cpu="9")],
        50 + 100 // 2,
    ),
    "a pod that asks for nothing": (BALANCED, a_pod(), [a_pod("o", node="n1", cpu="1")], 0),
    "three resources": (
        THREE,
        a_pod(cpu="2"),
        [],
        50 + (50 + int((1 - math.sqrt((1 / 9 + 1 / 36 + 1 / 36) / 3)) * 100) - 100) // 2,
    ),
}


@pytest.mark.parametrize("case", BALANCE)
def test_a_node_is_scored_by_what_the_pod_does_to_its_balance(case: str) -> None:
    policy, pod, there, wanted = BALANCE[case]
    node = a_node(cpu="4", memory="8Gi", resources={"ephemeral-storage": "10Gi"})

    assert scored(Objects((node,), tuple(there)), pod, policy) == {"n1": wanted}


def test_balance_looks_at_the_resources_that_a_node_has() -> None:
    node = a_node(cpu="4", memory="0", resources={"ephemeral-storage": "10Gi"})

    assert scored(Objects((node,)), a_pod(cpu="2"), THREE) == {"n1": 50 + (50 + 75 - 100) // 2}
    assert scored(Objects((a_node(cpu="4", memory="0"),)), a_pod(cpu="2"), BALANCED) == {"n1": 75}


PREFERRED = only(affinity_weight=1)
FAST, BIG = ("disk", "In", ["fast"]), ("size", "In", ["big"])
AFFINITY: dict[str, tuple[tuple[Any, ...], dict[str, int]]] = {
    "nothing is preferred": ((), {"n1": 0, "n2": 0, "n3": 0}),
    "one term": (((10, [FAST]),), {"n1": 100, "n2": 100, "n3": 0}),
    "weights are added and scaled": (((30, [FAST]), (10, [BIG])), {"n1": 100, "n2": 75, "n3": 0}),
    "a term of two": (((10, [FAST, BIG]),), {"n1": 100, "n2": 0, "n3": 0}),
    "what no node has": (((10, [("gpu", "Exists", [])]),), {"n1": 0, "n2": 0, "n3": 0}),
    "an empty term": (((10, []), (5, [BIG])), {"n1": 100, "n2": 0, "n3": 0}),
}


@pytest.mark.parametrize("case", AFFINITY)
def test_a_node_is_scored_by_what_the_pod_prefers(case: str) -> None:
    preferences, wanted = AFFINITY[case]
    nodes = (a_node("n1", labels={"disk": "fast", "size": "big"}), a_node("n2", labels={"disk": "fast"}), a_node("n3"))

    assert scored(Objects(nodes), a_pod(affinity=preferred_affinity(*preferences)), PREFERRED) == wanted


def test_preferences_are_scaled_by_the_best_of_those_that_can_take_the_pod() -> None:
    nodes = (a_node("n1", labels={"disk": "fast", "size": "big"}, cpu="1"), a_node("n2", labels={"disk": "fast"}))
    pod = a_pod(cpu="2", affinity=preferred_affinity((30, [FAST]), (10, [BIG])))

    assert scored(Objects(nodes), pod, PREFERRED) == {"n2": 100}


DISLIKED = only(taints_weight=1)


def test_a_node_is_scored_by_the_taints_it_would_rather_keep_away() -> None:
    slow, loud = "slow:PreferNoSchedule", "loud:PreferNoSchedule"
    nodes = (a_node("n1"), a_node("n2", taints=[slow]), a_node("n3", taints=[slow, loud]))
    tolerates_slow = [{"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"}]
    tolerates_another_effect = [{"key": "slow", "operator": "Exists", "effect": "NoSchedule"}]

    assert scored(Objects(nodes), a_pod(), DISLIKED) == {"n1": 100, "n2": 50, "n3": 0}
    assert scored(Objects(nodes), a_pod(tolerations=tolerates_slow), DISLIKED) == {"n1": 100, "n2": 100, "n3": 0}
    assert scored(Objects(nodes), a_pod(tolerations=tolerates_another_effect), DISLIKED) == {
        "n1": 100,
        "n2": 50,
        "n3": 0,
    }
    assert scored(Objects(nodes[:1]), a_pod(), DISLIKED) == {"n1": 100}


SPREAD = only(spread_weight=1)
A1, A2, B1, X1 = a_node("a1", zone="a"), a_node("a2", zone="a"), a_node("b1", zone="b"), a_node("x1")


def webs(**nodes: int) -> tuple[Object, ...]:
    return tuple(a_pod(f"{n}-{i}", node=n, labels=WEB) for n, count in nodes.items() for i in range(count))


SOFT: dict[str, tuple[tuple[Object, ...], tuple[Object, ...], list[Object], dict[str, int]]] = {
    "nothing is there": ((A1, B1), (), [spread_over(ZONE, hard=False)], {"a1": 100, "b1": 100}),
    # 3 pods · ln 4 = 4.16, 1 pod · ln 4 = 1.39: 4 and 1, of which 100 · (4 + 1 - 4) / 4.
    "the emptier zone": ((A1, B1), webs(a1=3, b1=1), [spread_over(ZONE, hard=False)], {"a1": 25, "b1": 100}),
    "a zone as a whole": (
        (A1, A2, B1),
        webs(a1=3, b1=1),
        [spread_over(ZONE, hard=False)],
        {"a1": 25, "a2": 25, "b1": 100},
    ),
    "nodes without the label": ((A1, X1), (), [spread_over(ZONE, hard=False)], {"a1": 100, "x1": 0}),
    # ln(2 + 2) per pod, and maxSkew - 1 = 4 for all: 8 and 5.
    "a larger skew waters it down": (
        (A1, B1),
        webs(a1=3, b1=1),
        [spread_over(ZONE, hard=False, max_skew=5)],
        {"a1": 100 * 5 // 8, "b1": 100},
    ),
    "hosts": ((A1, A2), webs(a1=2), [spread_over(HOSTNAME, hard=False)], {"a1": 0, "a2": 100}),
    # Zones: 2 · ln 4 = 2.77 for a. Hosts: 2 · ln 5 = 3.22 for a1. So 6, 3 and 0.
    "zones and hosts": (
        (A1, A2, B1),
        webs(a1=2),
        [spread_over(ZONE, hard=False), spread_over(HOSTNAME, hard=False)],
        {"a1": 0, "a2": 50, "b1": 100},
    ),
    "a hard constraint scores nothing": ((A1, B1), webs(a1=1), [spread_over(ZONE, max_skew=5)], {"a1": 0, "b1": 0}),
}


@pytest.mark.parametrize("case", SOFT)
def test_a_node_is_scored_by_how_many_are_in_its_domains(case: str) -> None:
    nodes, pods, constraints, wanted = SOFT[case]

    found = scored(Objects(nodes, pods), a_pod(labels=WEB, topologySpreadConstraints=constraints), SPREAD)

    assert found == wanted


def test_scores_are_weighed_and_added() -> None:
    nodes = (a_node("n1", labels={"disk": "fast"}), a_node("n2", taints=["slow:PreferNoSchedule"]))
    pod = a_pod(cpu="1", memory="2Gi", affinity=preferred_affinity((1, [FAST])))

    assert scored(Objects(nodes), pod, Policy()) == {"n1": 75 + 75 + 2 * 100 + 3 * 100, "n2": 75 + 75}
