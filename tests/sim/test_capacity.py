"""What is taken of nodes in a run: one node for a pod, no more than there is, and books that agree."""

from typing import Any

import msgspec
import pytest

from mainstay.server.placement.ledger.charge import charge_key, charge_on, encode_charge
from mainstay.server.placement.ledger.ledger import EMPTY, charged, encode_ledger, ledger_key
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.cluster.history import RevisionCommitted
from tests.scheduler.objects import Object, a_node, a_pod

NO_WORLD: Any = None


def commit(revision: int, key: str, value: Object | bytes | None, previous: Object | None = None) -> RevisionCommitted:
    def encoded(value: Object | bytes | None) -> bytes | None:
        return value if value is None or isinstance(value, bytes) else msgspec.json.encode(value)

    return RevisionCommitted(0, revision, key, encoded(value), encoded(previous), None)


def bound(revision: int, name: str, node: str, **more: Any) -> RevisionCommitted:
    waiting = a_pod(name, **more)
    return commit(revision, f"core/pods/default/{name}", a_pod(name, node=node, **more), waiting)


def with_nodes() -> CapacityChecker:
    checker = CapacityChecker()
    for number, name in enumerate(("n1", "n2")):
        checker.saw(commit(1 + number, f"core/nodes/{name}", a_node(name, cpu="2")))
    return checker


def test_a_node_may_be_filled_and_not_more():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1", cpu="1"))
    checker.saw(bound(4, "b", "n1", cpu="1"))

    with pytest.raises(Violated, match="default/c was bound to n1, where 3000 of 2000 cpu are then used"):
        checker.saw(bound(5, "c", "n1", cpu="1"))


def test_what_has_ended_takes_nothing():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1", cpu="2"))
    checker.saw(commit(4, "core/pods/default/a", a_pod("a", node="n1", cpu="2", phase="Succeeded"), a_pod("a")))
    checker.saw(bound(5, "b", "n1", cpu="2"))
    checker.saw(commit(6, "core/pods/default/b", None, a_pod("b")))
    checker.saw(bound(7, "c", "n1", cpu="2"))


def test_a_node_that_shrinks_afterwards_is_not_a_violation():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1", cpu="2"))
    checker.saw(commit(4, "core/nodes/n1", a_node("n1", cpu="1"), a_node("n1", cpu="2")))

    with pytest.raises(Violated, match="3000 of 1000 cpu"):
        checker.saw(bound(5, "b", "n1", cpu="1"))


def test_a_pod_has_one_node():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1"))

    with pytest.raises(Violated, match="default/a was bound to n1 and to n2"):
        checker.saw(bound(4, "a", "n2"))


def test_another_pod_of_the_same_name_may_have_another_node():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1"))
    checker.saw(commit(4, "core/pods/default/a", None, a_pod("a")))
    checker.saw(bound(5, "a", "n2", uid="another"))


async def test_books_that_agree_are_right_and_others_are_said_with_the_next_revision():
    pod = a_pod("a", node="n1", cpu="1")
    charge = charge_on(pod, "n1")
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1", cpu="1"))
    checker.saw(commit(3, charge_key("default", "a"), encode_charge(charge)))
    checker.saw(commit(3, ledger_key("n1"), encode_ledger(charged(EMPTY, charge))))
    await checker.at_end(NO_WORLD)

    checker.saw(commit(4, ledger_key("n1"), encode_ledger(EMPTY)))
    with pytest.raises(Violated, match="the ledger of n1 says that "):
        checker.saw(commit(5, "core/configmaps/default/other", {}))


async def test_a_pod_that_is_not_charged_is_said_in_the_end():
    checker = with_nodes()
    checker.saw(bound(3, "a", "n1", cpu="1"))

    with pytest.raises(Violated, match="default/a is on n1 but is not charged at the end"):
        await checker.at_end(NO_WORLD)


def test_an_intent_has_one_reservation():
    spec = {"nodeName": "n1", "workload": {"name": "risk-api", "uid": "u"}, "generation": 42, "intent": "replica-042"}
    checker = Reserved()
    checker.saw(commit(1, "mainstay.dev/reservations/default/res-a", {"spec": spec}))
    checker.saw(commit(2, "mainstay.dev/reservations/default/other", {"spec": {**spec, "generation": 43}}))

    with pytest.raises(Violated, match="risk-api has a second reservation for replica-042"):
        checker.saw(commit(3, "mainstay.dev/reservations/default/res-b", {"spec": spec}))
