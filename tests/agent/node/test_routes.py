"""Which routes a machine needs to the pods of others."""

from ipaddress import IPv4Network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstay.agent.node.routes import decide_routes

OWN = IPv4Network("10.244.1.0/24")


def a_node(name: str, subnet: str, address: str, *, made: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": made},
        "spec": {"podCIDR": subnet},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


ME = a_node("me", str(OWN), "192.0.2.1")


def decide(*others: dict[str, Any]):
    return decide_routes([*others, ME], "me", OWN, "192.0.2.1")


def test_the_pods_of_another_machine_are_behind_its_address():
    found = decide(a_node("b", "10.244.2.0/24", "192.0.2.2"), a_node("c", "10.244.3.0/24", "192.0.2.3"))
    assert found.via == {"10.244.2.0/24": "192.0.2.2", "10.244.3.0/24": "192.0.2.3"}
    assert (found.own_problem, found.problems) == ("", ())


def test_a_node_on_the_same_machine_needs_no_route():
    assert decide(a_node("b", "10.244.2.0/24", "192.0.2.1")).via == {}


def test_pods_in_the_network_of_another_machine_are_not_reached_and_that_is_said():
    found = decide(a_node("b", "127.64.1.0/24", "192.0.2.2"))
    assert (found.via, found.own_problem) == ({}, "")
    assert found.problems == ("b: its pods have no network of their own; start its agent with --pod-cidr",)


def test_an_address_that_only_its_own_machine_reaches_is_no_way():
    found = decide(a_node("b", "10.244.2.0/24", "127.0.0.1"), a_node("c", "10.244.3.0/24", "c.example"))
    assert found.via == {}
    assert [problem.partition(":")[0] for problem in found.problems] == ["b", "c"]


def test_of_two_overlapping_networks_the_older_node_keeps_its_own():
    younger = a_node("b", "10.244.0.0/16", "192.0.2.2", made="2026-02-01T00:00:00Z")
    assert decide(younger).own_problem == ""
    assert "overlaps that of node me" in decide(younger).problems[0]
    older = a_node("b", "10.244.0.0/16", "192.0.2.2", made="2025-02-01T00:00:00Z")
    assert "overlaps that of node b" in decide(older).own_problem
    assert decide(older).via == {"10.244.0.0/16": "192.0.2.2"}


def test_a_node_without_a_network_or_with_a_broken_one_is_passed_over():
    assert decide({"metadata": {"name": "b"}}, a_node("c", "10.244.2.1/24", "192.0.2.3")).via == {}


@given(
    st.lists(
        st.builds(
            a_node,
            st.sampled_from(["a", "b", "c", "d"]),
            st.sampled_from(["10.244.2.0/24", "10.244.2.128/25", "10.0.0.0/8", "127.64.0.0/24", "", "10.9.0.0/16"]),
            st.sampled_from(["192.0.2.1", "192.0.2.2", "192.0.2.3", "127.0.0.1", ""]),
        ),
        unique_by=lambda node: node["metadata"]["name"],
    ),
    st.randoms(use_true_random=False),
)
def test_no_two_routes_overlap_and_the_order_of_nodes_does_not_matter(nodes: list[dict[str, Any]], random: Any):
    found = decide(*nodes)
    networks = [IPv4Network(each) for each in found.via]
    assert not any(one.overlaps(other) for one in networks for other in networks if one != other)
    shuffled = list(nodes)
    random.shuffle(shuffled)
    assert decide(*shuffled) == found
