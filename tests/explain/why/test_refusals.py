"""Of all the reasons why no node takes a pod, the one that stands nearest to a node that would is the cause."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.scheduler.policy import DEFAULT, Policy
from mainstay.scheduler.reasons import Unschedulable
from mainstay.scheduler.what_if import Objects, what_if
from mainstay.scheduler.why.dominant_reason import Judged, judged
from tests.scheduler.objects import Object, a_node, a_pod, a_reservation, a_zone_quota, spread_over

SSD = {"disk": "ssd"}


def of(nodes: Sequence[Object], pod: Object, policy: Policy = DEFAULT, **others: Any) -> Judged:
    objects = replace(Objects(tuple(nodes)), **others)
    [decision] = what_if(objects, [pod], policy, "seed")
    assert isinstance(decision, Unschedulable)
    return judged(objects, pod, policy, "seed", decision.refusals)


def test_a_cluster_without_nodes_says_so():
    found = of([], a_pod())
    assert (found.cause, found.verdict) == (Cause.NO_NODES, Verdict.WAITING)


def test_of_nodes_with_other_labels_and_one_that_is_full_the_full_one_is_the_cause():
    nodes = [a_node(f"n{number}") for number in range(9)]
    found = of(
        [*nodes, a_node("gpu", labels=SSD, cpu="2")],
        a_pod(cpu="2", nodeSelector=SSD),
        pods=(a_pod("q", cpu="1", node="gpu"),),
    )
    assert found.cause is Cause.INSUFFICIENT_RESOURCES
    assert found.text == "it requests 2 cpu, but the only eligible node, gpu, has 1 free"
    assert found.others == ("n0, n1, n2 and 6 more: node affinity/selector does not match",)


def test_of_full_zones_and_one_whose_quota_is_used_up_the_quota_is_the_cause():
    nodes = [a_node("a", zone="a", cpu="1"), a_node("b", zone="b", cpu="1"), a_node("c", zone="c")]
    running = tuple(a_pod(f"q{name}", cpu="1", node=name, namespace="other") for name in "ab")
    quota = a_zone_quota("c", name="risk", cpu="0")
    found = of(nodes, a_pod(cpu="1"), pods=running, zone_quotas=(quota,))
    assert (found.cause, found.quota) == (Cause.ZONE_QUOTA_EXCEEDED, "risk")
    assert found.text == "ZoneQuota default/risk has 0 of 0 cpu left in zone c, and it requests 1"


def test_a_tainted_node_with_room_does_not_hide_that_the_others_are_full():
    nodes = [a_node("gpu", taints=["gpu:NoSchedule"]), a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    found = of(nodes, a_pod(cpu="1"), pods=(a_pod("q1", cpu="1", node="n1"), a_pod("q2", cpu="1", node="n2")))
    assert found.cause is Cause.INSUFFICIENT_RESOURCES
    assert found.others == ("gpu: untolerated taint gpu:NoSchedule",)


def test_a_node_that_is_not_heard_of_is_the_cause_if_it_would_have_room():
    nodes = [a_node("n1", cpu="1"), a_node("n2", taints=["node.kubernetes.io/unreachable:NoSchedule"])]
    found = of(nodes, a_pod(cpu="2"))
    assert (found.cause, found.about) == (Cause.NODE_LOST, ("n2",))


def test_a_node_under_pressure_is_not_ready_rather_than_closed_by_policy():
    found = of([a_node("n1", taints=["node.kubernetes.io/disk-pressure:NoSchedule"])], a_pod())
    assert found.cause is Cause.NODE_NOT_READY
    assert "disk-pressure" in found.text


def test_labels_that_no_node_has_at_once_are_named_together():
    nodes = [a_node("n1", labels=SSD), a_node("n2", labels={"gpu": "yes"})]
    found = of(nodes, a_pod(nodeSelector={**SSD, "gpu": "yes"}))
    assert (found.cause, found.verdict) == (Cause.CONSTRAINTS_COMBINED, Verdict.BLOCKED)
    assert "disk=ssd and gpu=yes" in found.text


def test_room_that_is_reserved_for_another_is_told_apart_from_room_that_is_used():
    held = a_reservation("r", "n1", cpu="3")
    held["spec"]["workload"] = {"kind": "Deployment", "name": "risk-api"}
    found = of([a_node("n1")], a_pod(cpu="2"), reservations=(held,))
    assert (found.cause, found.reservation) == (Cause.RESERVED_ELSEWHERE, "r")
    full = of([a_node("n1")], a_pod(cpu="2"), reservations=(held,), pods=(a_pod("q", cpu="4", node="n1"),))
    assert full.cause is Cause.INSUFFICIENT_RESOURCES


def test_a_spread_that_would_become_uneven_says_where_there_is_room_and_why_not_elsewhere():
    nodes = [a_node("a", zone="a"), a_node("b", zone="b", cpu="1")]
    running = (a_pod("w", labels={"app": "web"}, cpu="1", node="a"), a_pod("q", cpu="1", node="b"))
    spread = [spread_over("topology.kubernetes.io/zone")]
    pod = a_pod(labels={"app": "web"}, cpu="1", topologySpreadConstraints=spread)
    found = of(nodes, pod, pods=running)
    assert (found.cause, found.about, found.others) == (Cause.TOPOLOGY_SPREAD, ("a",), ())
    assert "in zone a, which has room" in found.text
    assert "zone b accepts none (insufficient cpu)" in found.text


def test_a_skew_that_a_policy_bounds_is_told_with_the_policy():
    nodes = [a_node("a", zone="a"), a_node("b", zone="b", cpu="1")]
    running = (a_pod("w", owner="rs", cpu="1", node="a"), a_pod("q", cpu="1", node="b"))
    found = of(nodes, a_pod(owner="rs", cpu="1"), Policy("risk-v5", max_zone_skew=1), pods=running)
    assert (found.cause, found.about, found.others) == (Cause.POLICY_SPREAD, ("a",), ())
    assert found.text == (
        "in zone a, which has room, the pod would exceed maxZoneSkew 1 of PlacementPolicy risk-v5; "
        "zone b accepts none (insufficient cpu)"
    )


def test_a_skew_in_several_zones_is_reported_in_the_plural():
    nodes = [a_node(zone, zone=zone, cpu="1" if zone in "cd" else "4") for zone in "abcd"]
    taken = [a_pod(f"q-{zone}", cpu="1", node=zone) for zone in "cd"]
    running = (*(a_pod(f"w-{zone}", owner="rs", cpu="1", node=zone) for zone in "ab"), *taken)
    found = of(nodes, a_pod(owner="rs", cpu="1"), Policy("risk-v5", max_zone_skew=1), pods=running)
    assert found.text == (
        "in zones a and b, which have room, the pod would exceed maxZoneSkew 1 of PlacementPolicy risk-v5; "
        "zones c and d accept none (insufficient cpu)"
    )


def test_a_port_is_told_with_who_has_it():
    port = ({"containerPort": 80, "hostPort": 8080},)
    found = of([a_node("n1")], a_pod(ports=port), pods=(a_pod("edge", ports=port, node="n1"),))
    assert found.cause is Cause.PORT_TAKEN
    assert found.text == "host port 8080/TCP is in use on every node, by default/edge"


@pytest.mark.parametrize(("wanted", "cause"), [("3", Cause.INSUFFICIENT_RESOURCES), ("2", Cause.FRAGMENTATION)])
def test_what_the_nodes_have_only_together_is_fragmented(wanted: str, cause: Cause):
    running = tuple(a_pod(f"q{name}", cpu="3", node=name) for name in ("n1", "n2"))
    assert of([a_node("n1"), a_node("n2")], a_pod(cpu=wanted), pods=running).cause is cause


def test_every_node_is_told_of_with_all_that_speaks_against_it():
    nodes = [a_node("n1", cpu="1", taints=["x:NoSchedule"], unschedulable=True), a_node("n2", cpu="1", zone="z")]
    found = of(nodes, a_pod(cpu="2"))
    first, second = found.each_node
    assert (first.node, len(first.reasons)) == ("n1", 3)
    assert (second.node, second.zone) == ("n2", "z")
    assert second.reasons == ("too small in cpu (2 requested, 1 free)",)


NODES = st.builds(
    a_node,
    cpu=st.sampled_from(["1", "4"]),
    zone=st.sampled_from(["a", "b", None]),
    taints=st.sampled_from([(), ("x:NoSchedule",), ("node.kubernetes.io/not-ready:NoSchedule",)]),
    unschedulable=st.booleans(),
    labels=st.sampled_from([None, SSD]),
)
PODS = st.builds(
    a_pod,
    cpu=st.sampled_from(["500m", "2", "8"]),
    nodeSelector=st.sampled_from([{}, SSD]),
    ports=st.sampled_from([(), ({"containerPort": 80, "hostPort": 80},)]),
)


@given(st.lists(NODES, max_size=5), PODS, st.booleans())
def test_whatever_the_cluster_there_is_a_cause_and_every_node_has_a_verdict(nodes, pod, has_quota):
    for number, node in enumerate(nodes):
        node["metadata"]["name"] = f"n{number}"
    objects = Objects(tuple(nodes), zone_quotas=(a_zone_quota("a", cpu="1"),) if has_quota else ())
    [decision] = what_if(objects, [pod], DEFAULT, "seed")
    if not isinstance(decision, Unschedulable):
        return
    found = judged(objects, pod, DEFAULT, "seed", decision.refusals)
    assert found.text
    assert [each.node for each in found.each_node] == sorted(f"n{number}" for number in range(len(nodes)))
    assert all(each.reasons for each in found.each_node)


def test_a_node_that_is_large_enough_and_tainted_is_not_overlooked_by_those_that_are_too_small():
    nodes = [a_node("a", cpu="4", taints=["gpu:NoSchedule"]), a_node("b", cpu="1")]
    found = of(nodes, a_pod(cpu="2"))
    assert (found.cause, found.about, found.others) == (Cause.UNTOLERATED_TAINT, ("a",), ())
    assert found.text == (
        "it requests 2 cpu: a is large enough but has the untolerated taint gpu:NoSchedule; "
        "the other eligible nodes are too small (the largest, b, has 1)"
    )


def test_a_node_that_is_large_enough_and_has_other_labels_makes_it_a_matter_of_both():
    found = of([a_node("a", cpu="4"), a_node("b", cpu="1", labels=SSD)], a_pod(cpu="2", nodeSelector=SSD))
    assert (found.cause, found.about) == (Cause.CONSTRAINTS_COMBINED, ("a",))
    assert "a is large enough but is not eligible (node affinity/selector does not match)" in found.text


def test_nodes_that_are_too_small_in_different_resources_are_not_said_to_be_so_in_one():
    nodes = [a_node("a", cpu="8", memory="1Gi"), a_node("b", cpu="1", memory="64Gi")]
    found = of(nodes, a_pod(cpu="4", memory="8Gi"))
    assert found.cause is Cause.NODE_TOO_SMALL
    assert found.text == "no node is large enough for it even when empty: a lacks memory and b lacks cpu"


def test_the_most_that_is_left_is_only_said_of_all_nodes_if_it_is_so():
    tainted = a_node("c", cpu="8", taints=["gpu:NoSchedule"])
    running = (a_pod("q", cpu="3", node="a"), a_pod("r", cpu="4", node="b"))
    found = of([a_node("a", cpu="4"), a_node("b", cpu="4"), tainted], a_pod(cpu="2"), pods=running)
    assert found.cause is Cause.INSUFFICIENT_RESOURCES
    assert found.text == "it requests 2 cpu, but of the 2 otherwise eligible nodes, a has the most free: 1"
    assert found.others == ("c: untolerated taint gpu:NoSchedule",)


def test_what_else_speaks_against_a_full_node_is_said_beside_it():
    node = a_node("a", cpu="2", unschedulable=True)
    found = of([node, a_node("b", cpu="2")], a_pod(cpu="2"), pods=tuple(a_pod(n, cpu="2", node=n) for n in "ab"))
    assert found.cause is Cause.INSUFFICIENT_RESOURCES
    assert found.others == ("a also: cordoned",)
