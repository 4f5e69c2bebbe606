"""Filters that look at what is placed on a node: resources, ports, reservations."""

from typing import Any

import pytest

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Cure, Decision, Placed, Refusal, RefusalReason, Unschedulable
from mainstay.scheduler.what_if import Objects, build_columns
from tests.scheduler.objects import a_node, a_pod, a_reservation

Object = dict[str, Any]
GI = 1024**3
MORE_ROOM = (Cure.NODE_ADDED, Cure.NODE_ALLOCATABLE, Cure.POD_REMOVED, Cure.RESERVATION_RELEASED)


def decided(objects: Objects, pod: Object) -> Decision:
    return decide(Vectors(build_columns(objects)), pod_to_place(pod), DEFAULT, "s")


def takes(node: Object, pod: Object, *there: Object) -> bool:
    return isinstance(decided(Objects((node,), there), pod), Placed)


def why_not(objects: Objects, pod: Object) -> tuple[Refusal, ...]:
    decision = decided(objects, pod)
    assert isinstance(decision, Unschedulable)
    return decision.refusals


NODE = a_node(cpu="2", memory="4Gi", pods="3", resources={"example.com/gpu": "1", "ephemeral-storage": "10Gi"})
ROOM: dict[str, tuple[Object, list[Object], bool]] = {
    "an empty node": (a_pod(cpu="1"), [], True),
    "exactly what is there": (a_pod(cpu="2", memory="4Gi"), [], True),
    "a little more CPU": (a_pod(cpu="2001m"), [], False),
    "a little more memory": (a_pod(memory="4097Mi"), [], False),
    "beside another pod": (a_pod(cpu="1"), [a_pod("a", node="n1", cpu="1")], True),
    "not beside another pod": (a_pod(cpu="1001m"), [a_pod("a", node="n1", cpu="1")], False),
    "beside a pod on another node": (a_pod(cpu="2"), [a_pod("a", node="n2", cpu="1")], True),
    "beside a pod that is over": (a_pod(cpu="2"), [a_pod("a", node="n1", cpu="1", phase="Succeeded")], True),
    "a pod that is being deleted is still there": (
        a_pod(cpu="2"),
        [a_pod("a", node="n1", cpu="1", deleting=True)],
        False,
    ),
    "beside a pod that has no node": (a_pod(cpu="2"), [a_pod("a", cpu="1")], True),
    "too many pods": (a_pod(), [a_pod(name, node="n1") for name in "abc"], False),
    "one pod may still come": (a_pod(), [a_pod(name, node="n1") for name in "ab"], True),
    "nothing is asked for, and less than nothing is there": (a_pod(), [a_pod("a", node="n1", cpu="9")], True),
    "only what is asked for must be there": (a_pod(memory="1Gi"), [a_pod("a", node="n1", cpu="9")], True),
    "an extended resource": (a_pod(requests={"example.com/gpu": "1"}), [], True),
    "an extended resource that is taken": (
        a_pod(requests={"example.com/gpu": "1"}),
        [a_pod("a", node="n1", requests={"example.com/gpu": "1"})],
        False,
    ),
    "an extended resource that no node has": (a_pod(requests={"example.com/fpga": "1"}), [], False),
    "none of a resource that no node has": (a_pod(requests={"example.com/fpga": "0"}), [], True),
    "storage": (a_pod(requests={"ephemeral-storage": "11Gi"}), [], False),
    "the overhead counts": (a_pod(cpu="2", overhead={"cpu": "1m"}), [], False),
    "an init container counts": (
        a_pod(cpu="1", initContainers=[{"name": "i", "resources": {"requests": {"cpu": "3"}}}]),
        [],
        False,
    ),
}


@pytest.mark.parametrize("case", ROOM)
def test_a_node_takes_a_pod_if_it_has_room(case: str) -> None:
    pod, there, wanted = ROOM[case]

    assert takes(NODE, pod, *there) is wanted


def test_every_short_resource_is_told_with_what_is_wanted_and_what_is_free() -> None:
    objects = Objects(
        (a_node("n1", cpu="2", memory="4Gi"), a_node("n2", cpu="4", memory="4Gi"), a_node("n3", cpu="1", memory="1Gi")),
        (a_pod("a", node="n1", cpu="1500m", memory="3Gi"), a_pod("b", node="n2", cpu="3")),
    )

    refusals = why_not(objects, a_pod(cpu="2", memory="2Gi"))

    plugin, larger = "NodeResourcesFit", (Cure.NODE_ADDED, Cure.NODE_ALLOCATABLE)
    assert refusals == (
        Refusal(RefusalReason.INSUFFICIENT_RESOURCE, plugin, ("n1", "n2"), MORE_ROOM, "cpu", 2000, (500, 1000)),
        Refusal(RefusalReason.NODE_TOO_SMALL, plugin, ("n3",), larger, "cpu", 2000, (1000,)),
        Refusal(RefusalReason.INSUFFICIENT_RESOURCE, plugin, ("n1",), MORE_ROOM, "memory", 2 * GI, (GI,)),
        Refusal(RefusalReason.NODE_TOO_SMALL, plugin, ("n3",), larger, "memory", 2 * GI, (GI,)),
    )


def with_port(name: str = "p", node: str = "", **port: Any) -> Object:
    return a_pod(name, node=node, ports=[{"containerPort": 80, "hostPort": 80, **port}])


PORTS: dict[str, tuple[Object, Object, bool]] = {
    "the same port": (with_port(), with_port("a", "n1"), False),
    "another port": (with_port(hostPort=81), with_port("a", "n1"), True),
    "another protocol": (with_port(protocol="UDP"), with_port("a", "n1"), True),
    "one address and all of them": (with_port(hostIP="10.0.0.1"), with_port("a", "n1"), False),
    "all addresses and one of them": (with_port(), with_port("a", "n1", hostIP="10.0.0.1"), False),
    "two addresses": (with_port(hostIP="10.0.0.1"), with_port("a", "n1", hostIP="10.0.0.2"), True),
    "on another node": (with_port(), with_port("a", "n2"), True),
    "by a pod that is over": (with_port(), {**with_port("a", "n1"), "status": {"phase": "Failed"}}, True),
    "no port is wanted": (a_pod(), with_port("a", "n1"), True),
}


@pytest.mark.parametrize("case", PORTS)
def test_a_port_can_be_taken_once(case: str) -> None:
    pod, there, wanted = PORTS[case]

    assert takes(a_node("n1"), pod, there) is wanted


def test_ports_that_are_taken_are_told_one_by_one() -> None:
    pod = a_pod(ports=[{"hostPort": 81}, {"hostPort": 80, "protocol": "UDP"}])
    there = (
        a_pod("a", node="n1", ports=[{"hostPort": 81}]),
        a_pod("b", node="n2", ports=[{"hostPort": 80, "protocol": "UDP"}, {"hostPort": 81}]),
    )

    refusals = why_not(Objects((a_node("n1"), a_node("n2")), there), pod)

    cures = (Cure.NODE_ADDED, Cure.POD_REMOVED, Cure.RESERVATION_RELEASED)
    assert refusals == (
        Refusal(RefusalReason.PORT_TAKEN, "NodePorts", ("n1", "n2"), cures, "0.0.0.0:81/TCP"),
        Refusal(RefusalReason.PORT_TAKEN, "NodePorts", ("n2",), cures, "0.0.0.0:80/UDP"),
    )


RESERVED: dict[str, tuple[Object, Object, str | None]] = {
    "the room is held for another pod": (a_pod(cpu="2"), a_reservation("r", "n1", cpu="1"), None),
    "there is room beside it": (a_pod(cpu="1"), a_reservation("r", "n1", cpu="1"), "n1"),
    "the room is held for this pod": (a_pod(cpu="2", reservation="r"), a_reservation("r", "n1", cpu="2"), "n1"),
    "with a little more": (a_pod(cpu="2", reservation="r"), a_reservation("r", "n1", cpu="1"), "n1"),
    "of another namespace": (
        a_pod(cpu="2", reservation="r"),
        a_reservation("r", "n1", namespace="other", cpu="1"),
        None,
    ),
    "it was used": (a_pod(cpu="2"), a_reservation("r", "n1", phase="Confirmed", cpu="1"), "n1"),
    "it was released": (a_pod(cpu="2"), a_reservation("r", "n1", phase="Released", cpu="1"), "n1"),
    "it is over, and the pod is free": (
        a_pod(cpu="2", reservation="r"),
        a_reservation("r", "n2", phase="Expired", cpu="1"),
        "n1",
    ),
    "it is elsewhere": (a_pod(cpu="1", reservation="r"), a_reservation("r", "n2", cpu="1"), None),
    "no such reservation": (a_pod(cpu="1", reservation="x"), a_reservation("r", "n1", cpu="1"), "n1"),
}


@pytest.mark.parametrize("case", RESERVED)
def test_what_is_reserved_is_room_for_one_pod_only(case: str) -> None:
    pod, reservation, wanted = RESERVED[case]

    decision = decided(Objects((a_node("n1", cpu="2"),), reservations=(reservation,)), pod)

    assert (decision.node if isinstance(decision, Placed) else None) == wanted


def test_a_pod_whose_room_is_reserved_goes_there_even_if_others_are_better() -> None:
    objects = Objects(
        (a_node("n1", cpu="2"), a_node("n2", cpu="64")), reservations=(a_reservation("r", "n1", cpu="2"),)
    )

    decision = decided(objects, a_pod(cpu="2", reservation="r"))

    assert isinstance(decision, Placed)
    assert decision.node == "n1"


def test_a_reserved_port_is_free_for_who_has_reserved_it() -> None:
    reservation = a_reservation("r", "n1", cpu="1")
    reservation["spec"]["ports"] = [{"hostPort": 80}]
    objects = Objects((a_node("n1"),), reservations=(reservation,))

    assert isinstance(decided(objects, {**with_port(), **_for_reservation("r")}), Placed)
    assert isinstance(decided(objects, with_port()), Unschedulable)


def _for_reservation(name: str) -> Object:
    return {"metadata": a_pod(reservation=name)["metadata"]}


def test_nodes_without_the_reservation_are_told() -> None:
    objects = Objects(
        (a_node("n1", cpu="1"), a_node("n2")),
        (a_pod("a", node="n1", cpu="1"),),
        reservations=(a_reservation("r", "n1", cpu="1"),),
    )

    refusals = why_not(objects, a_pod(cpu="1", reservation="r"))

    cures = (Cure.NODE_ADDED, Cure.RESERVATION_RELEASED, Cure.RESERVATION_MADE)
    assert refusals == (
        Refusal(RefusalReason.RESERVED_ELSEWHERE, "Reservations", ("n2",), cures, "n1"),
        Refusal(RefusalReason.INSUFFICIENT_RESOURCE, "NodeResourcesFit", ("n1",), MORE_ROOM, "cpu", 1000, (0,)),
    )
