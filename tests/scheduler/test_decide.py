"""Ties, policies, and questions of what would be."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.object_key import ObjectKey
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import choose, decide
from mainstay.scheduler.pod_class import build_class, pod_to_place
from mainstay.scheduler.policy import DEFAULT, Allocation, Policy, parse_policy
from mainstay.scheduler.reasons import Cure, Placed, Unschedulable
from mainstay.scheduler.what_if import Objects, build_columns, what_if
from tests.scheduler.objects import a_node, a_pod, a_zone_quota

Object = dict[str, Any]


@given(st.lists(st.integers(-1, 3), max_size=12), st.integers(0, 12))
def test_the_first_of_the_best_from_a_place_around_is_chosen(totals: list[int], start: int) -> None:
    start = min(start, len(totals))
    around = [*range(start, len(totals)), *range(start)]

    best = max(around, key=lambda place: totals[place], default=None)

    wanted = best if best is not None and totals[best] >= 0 else None
    assert choose(np.array(totals, np.int64), start) == wanted


def test_ties_are_spread_over_all_nodes() -> None:
    columns = build_columns(Objects(tuple(a_node(f"n{number}") for number in range(20))))
    vectors = Vectors(columns)

    found = Counter(
        decision.node
        for number in range(2_000)
        if isinstance(decision := decide(vectors, pod_to_place(a_pod(f"p{number}")), DEFAULT, "s"), Placed)
    )

    assert len(found) == 20


def test_the_same_seed_and_pod_break_a_tie_alike_in_every_process() -> None:
    """The values are part of the promise: a replay years later must find the same node."""
    objects = Objects(tuple(a_node(f"n{number}") for number in range(20)))

    found = [what_if(objects, [a_pod("p", uid="1234")], DEFAULT, seed)[0] for seed in ("", "s", "t", "u")]

    assert found == [Placed("n12", 397), Placed("n17", 397), Placed("n18", 397), Placed("n12", 397)]


def test_equal_pods_are_of_one_class_whatever_they_are_called() -> None:
    first, second = a_pod("a", labels={"app": "a"}), a_pod("b", labels={"app": "b"})

    assert build_class(first) == build_class(second)
    assert build_class(first) != build_class(a_pod("a", cpu="1"))
    assert build_class(first) != build_class(a_pod("a", namespace="other"))


POLICIES: dict[str, tuple[Object, Policy]] = {
    "no policy": ({}, Policy("p", "")),
    "a version": ({"policyVersion": "3"}, Policy("p", "3")),
    "packing": ({"scores": {"MostAllocated": 4}}, Policy("p", allocation=Allocation.MOST, allocation_weight=4)),
    "spreading": ({"scores": {"LeastAllocated": 4}}, Policy("p", allocation_weight=4)),
    "neither": ({"scores": {"LeastAllocated": 0, "MostAllocated": 0}}, Policy("p", allocation_weight=0)),
    "others": (
        {"scores": {"BalancedAllocation": 0, "NodeAffinity": 9, "TaintToleration": 8, "PodTopologySpread": 7}},
        Policy("p", balance_weight=0, affinity_weight=9, taints_weight=8, spread_weight=7),
    ),
    "unknown ones": ({"scores": {"Fragmentation": 9}}, Policy("p")),
}


@pytest.mark.parametrize("case", POLICIES)
def test_a_policy_says_what_counts(case: str) -> None:
    spec, wanted = POLICIES[case]

    assert parse_policy({"metadata": {"name": "p"}, "spec": spec}) == wanted


def test_a_policy_decides_between_packing_and_spreading() -> None:
    objects = Objects((a_node("n1"), a_node("n2")), (a_pod("a", node="n1", cpu="1", memory="2Gi"),))
    pod = a_pod(cpu="1", memory="2Gi")

    assert what_if(objects, [pod], DEFAULT, "s") == [Placed("n2", 75 + 75 + 300)]
    assert what_if(objects, [pod], Policy(allocation=Allocation.MOST), "s") == [Placed("n1", 50 + 75 + 300)]


def test_one_can_ask_what_would_be_with_other_objects() -> None:
    pod = a_pod(cpu="3")
    objects = Objects((a_node("n1", cpu="4", zone="a"),), (a_pod("a", node="n1", cpu="2"),))

    (refused,) = what_if(objects, [pod], DEFAULT, "s")
    assert isinstance(refused, Unschedulable)
    assert refused.cures == (Cure.NODE_ADDED, Cure.NODE_ALLOCATABLE, Cure.POD_REMOVED, Cure.RESERVATION_RELEASED)
    assert refused.plugins == ("NodeResourcesFit",)

    def node(changed: Objects) -> str | None:
        (decision,) = what_if(changed, [pod], DEFAULT, "s")
        return decision.node if isinstance(decision, Placed) else None

    assert node(objects.with_changes(nodes=[a_node("n2")])) == "n2"
    assert node(objects.with_changes(nodes=[a_node("n1", cpu="8", zone="a")])) == "n1"
    assert node(objects.with_changes(without_pods=[ObjectKey("default", "a")])) == "n1"
    assert node(objects.with_changes(nodes=[a_node("n2")], without_nodes=["n1"])) == "n2"
    assert node(objects.with_changes(nodes=[a_node("n1", cpu="8")], zone_quotas=[a_zone_quota("a", cpu="1")])) == "n1"
    assert (
        node(objects.with_changes(nodes=[a_node("n1", cpu="8", zone="a")], zone_quotas=[a_zone_quota("a", cpu="1")]))
        is None
    )


def test_several_pods_are_asked_about_one_after_the_other() -> None:
    objects = Objects((a_node("n1", cpu="3"),))

    found = what_if(objects, [a_pod("a", cpu="2"), a_pod("b", cpu="2"), a_pod("c", cpu="1")], DEFAULT, "s")

    assert [isinstance(each, Placed) for each in found] == [True, False, True]


def test_a_refusal_is_made_once_while_nothing_changes() -> None:
    columns = build_columns(Objects((a_node("n1", cpu="1"),)))
    vectors, pods = Vectors(columns), [pod_to_place(a_pod(name, cpu="2")) for name in "ab"]

    first, second = (decide(vectors, pod, DEFAULT, "s") for pod in pods)
    columns.node_changed(a_node("n1", cpu="1500m"), "n1")
    third = decide(vectors, pods[0], DEFAULT, "s")

    assert first is second
    assert isinstance(third, Unschedulable)
    assert third.refusals[0].free == (1500,)
