"""Filters that look at the node alone: its name, its labels, its taints, and whether it is open at all."""

from typing import Any

import pytest

from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT
from mainstay.scheduler.reasons import Cure, Placed, Refusal, RefusalReason, Unschedulable
from mainstay.scheduler.what_if import Objects, build_columns
from tests.scheduler.objects import a_node, a_pod, required_affinity

Object = dict[str, Any]


def takes(node: Object, pod: Object) -> bool:
    return isinstance(decide(Vectors(build_columns(Objects(nodes=(node,)))), pod_to_place(pod), DEFAULT, "s"), Placed)


def why_not(pod: Object, *nodes: Object) -> tuple[Refusal, ...]:
    decision = decide(Vectors(build_columns(Objects(nodes=nodes))), pod_to_place(pod), DEFAULT, "s")
    assert isinstance(decision, Unschedulable)
    return decision.refusals


EXISTS = {"operator": "Exists"}
TOLERATIONS: dict[str, tuple[str, list[Object], bool]] = {
    "nothing is tolerated": ("gpu=yes:NoSchedule", [], False),
    "NoExecute keeps away as well": ("gpu=yes:NoExecute", [], False),
    "PreferNoSchedule does not": ("gpu=yes:PreferNoSchedule", [], True),
    "key, value and effect": (
        "gpu=yes:NoSchedule",
        [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
        True,
    ),
    "no operator means Equal": ("gpu=yes:NoSchedule", [{"key": "gpu", "value": "yes"}], True),
    "another value": ("gpu=yes:NoSchedule", [{"key": "gpu", "operator": "Equal", "value": "no"}], False),
    "another effect": ("gpu=yes:NoSchedule", [{"key": "gpu", "effect": "NoExecute", **EXISTS}], False),
    "another key": ("gpu=yes:NoSchedule", [{"key": "disk", **EXISTS}], False),
    "no effect means all": ("gpu=yes:NoExecute", [{"key": "gpu", **EXISTS}], True),
    "no key means all": ("gpu=yes:NoSchedule", [EXISTS], True),
    "a taint without a value": ("gpu:NoSchedule", [{"key": "gpu", "operator": "Equal"}], True),
    "the second of two": ("gpu=yes:NoSchedule", [{"key": "disk", **EXISTS}, {"key": "gpu", **EXISTS}], True),
    "Gt: the toleration's number is greater": (
        "load=5:NoSchedule",
        [{"key": "load", "operator": "Gt", "value": "9"}],
        True,
    ),
    "Gt: it is equal": ("load=9:NoSchedule", [{"key": "load", "operator": "Gt", "value": "9"}], False),
    "Lt: the toleration's number is less": (
        "load=5:NoSchedule",
        [{"key": "load", "operator": "Lt", "value": "4"}],
        True,
    ),
    "Lt: it is not a number": ("load=x:NoSchedule", [{"key": "load", "operator": "Lt", "value": "4"}], False),
    "an unknown operator": ("gpu=yes:NoSchedule", [{"key": "gpu", "operator": "Like"}], False),
}


@pytest.mark.parametrize("case", TOLERATIONS)
def test_a_taint_keeps_away_who_does_not_tolerate_it(case: str) -> None:
    taint, tolerations, wanted = TOLERATIONS[case]

    assert takes(a_node(taints=[taint]), a_pod(tolerations=tolerations)) is wanted


def test_all_taints_must_be_tolerated() -> None:
    node = a_node(taints=["gpu=yes:NoSchedule", "old:NoExecute"])

    assert not takes(node, a_pod(tolerations=[{"key": "gpu", **EXISTS}]))
    assert takes(node, a_pod(tolerations=[{"key": "gpu", **EXISTS}, {"key": "old", **EXISTS}]))


def test_nodes_are_told_by_their_first_taint_that_is_not_tolerated() -> None:
    pod = a_pod(tolerations=[{"key": "gpu", **EXISTS}])

    refusals = why_not(
        pod,
        a_node("n2", taints=["gpu=yes:NoSchedule", "old:NoExecute"]),
        a_node("n1", taints=["old:NoExecute", "new:NoExecute"]),
        a_node("n3", taints=["new=1:NoSchedule"]),
    )

    cures = (Cure.NODE_ADDED, Cure.NODE_TAINTS)
    assert refusals == (
        Refusal(RefusalReason.UNTOLERATED_TAINT, "TaintToleration", ("n3",), cures, detail="new=1:NoSchedule"),
        Refusal(RefusalReason.UNTOLERATED_TAINT, "TaintToleration", ("n1", "n2"), cures, detail="old:NoExecute"),
    )


def test_a_node_marked_as_unschedulable_takes_only_who_tolerates_that() -> None:
    node = a_node(unschedulable=True)

    assert not takes(node, a_pod())
    assert takes(node, a_pod(tolerations=[EXISTS]))
    assert takes(
        node, a_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", **EXISTS}])
    )
    assert not takes(node, a_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoExecute"}]))
    cures = (Cure.NODE_ADDED, Cure.NODE_TAINTS)
    assert why_not(a_pod(), node) == (Refusal(RefusalReason.UNSCHEDULABLE_NODE, "NodeUnschedulable", ("n1",), cures),)


LABELS = {"disk": "fast", "cores": "8", "size": "large"}
AFFINITIES: dict[str, tuple[Object, bool]] = {
    "a selector that holds": ({"nodeSelector": {"disk": "fast"}}, True),
    "all of a selector must hold": ({"nodeSelector": {"disk": "fast", "cores": "4"}}, False),
    "a label that is not there": ({"nodeSelector": {"gpu": "yes"}}, False),
    "In": ({"affinity": required_affinity([("disk", "In", ["slow", "fast"])])}, True),
    "In, another value": ({"affinity": required_affinity([("disk", "In", ["slow"])])}, False),
    "In, no such label": ({"affinity": required_affinity([("gpu", "In", ["yes"])])}, False),
    "NotIn": ({"affinity": required_affinity([("disk", "NotIn", ["slow"])])}, True),
    "NotIn, this value": ({"affinity": required_affinity([("disk", "NotIn", ["fast"])])}, False),
    "NotIn, no such label": ({"affinity": required_affinity([("gpu", "NotIn", ["yes"])])}, True),
    "Exists": ({"affinity": required_affinity([("disk", "Exists", [])])}, True),
    "Exists, no such label": ({"affinity": required_affinity([("gpu", "Exists", [])])}, False),
    "DoesNotExist": ({"affinity": required_affinity([("gpu", "DoesNotExist", [])])}, True),
    "DoesNotExist, but it does": ({"affinity": required_affinity([("disk", "DoesNotExist", [])])}, False),
    "Gt": ({"affinity": required_affinity([("cores", "Gt", ["4"])])}, True),
    "Gt, equal": ({"affinity": required_affinity([("cores", "Gt", ["8"])])}, False),
    "Gt compares numbers, not texts": ({"affinity": required_affinity([("cores", "Gt", ["10"])])}, False),
    "Lt": ({"affinity": required_affinity([("cores", "Lt", ["16"])])}, True),
    "Lt, a label that is no number": ({"affinity": required_affinity([("size", "Lt", ["16"])])}, False),
    "Gt, no such label": ({"affinity": required_affinity([("gpu", "Gt", ["0"])])}, False),
    "requirements of a term must all hold": (
        {"affinity": required_affinity([("disk", "Exists", []), ("cores", "Gt", ["9"])])},
        False,
    ),
    "one of the terms must hold": (
        {"affinity": required_affinity([("gpu", "Exists", [])], [("disk", "In", ["fast"])])},
        True,
    ),
    "an empty term holds nowhere": ({"affinity": required_affinity([])}, False),
    "no terms hold nowhere": ({"affinity": required_affinity()}, False),
    "a term that cannot be read holds nowhere": ({"affinity": required_affinity([("cores", "Gt", ["many"])])}, False),
    "and does not spoil another one": (
        {"affinity": required_affinity([("cores", "Near", ["8"])], [("disk", "In", ["fast"])])},
        True,
    ),
    "a selector and an affinity must both hold": (
        {"nodeSelector": {"disk": "fast"}, "affinity": required_affinity([("gpu", "Exists", [])])},
        False,
    ),
    "the name of the node": ({"affinity": required_affinity(fields=[("metadata.name", "In", ["n1"])])}, True),
    "another name": ({"affinity": required_affinity(fields=[("metadata.name", "In", ["n2"])])}, False),
    "any but this name": ({"affinity": required_affinity(fields=[("metadata.name", "NotIn", ["n1"])])}, False),
    "any but another name": ({"affinity": required_affinity(fields=[("metadata.name", "NotIn", ["n2"])])}, True),
    "two names at once": (
        {"affinity": required_affinity(fields=[("metadata.name", "In", ["n1"]), ("metadata.name", "In", ["n2"])])},
        False,
    ),
    "a name, or a label": (
        {"affinity": required_affinity([("disk", "In", ["fast"])], fields=[("metadata.name", "In", ["n2"])])},
        True,
    ),
    "another field": ({"affinity": required_affinity(fields=[("spec.x", "In", ["n1"])])}, False),
}


@pytest.mark.parametrize("case", AFFINITIES)
def test_a_pod_goes_only_where_its_selector_and_affinity_allow(case: str) -> None:
    spec, wanted = AFFINITIES[case]

    assert takes(a_node(labels=LABELS), a_pod(**spec)) is wanted


def test_nodes_that_do_not_match_are_named_and_a_label_cures_it() -> None:
    refusals = why_not(a_pod(nodeSelector={"disk": "fast"}), a_node("n2"), a_node("n1"))

    cures = (Cure.NODE_ADDED, Cure.NODE_LABELS)
    assert refusals == (Refusal(RefusalReason.NODE_AFFINITY, "NodeAffinity", ("n1", "n2"), cures),)


def test_a_pod_that_names_its_node_goes_to_no_other() -> None:
    pod = a_pod(node="n2")

    assert takes(a_node("n2"), pod)
    assert not takes(a_node("n1"), pod)
    assert why_not(pod, a_node("n1")) == (
        Refusal(RefusalReason.OTHER_NODE_NAMED, "NodeName", ("n1",), (Cure.NODE_ADDED,), detail="n2"),
    )


def test_without_any_node_that_is_the_reason() -> None:
    assert why_not(a_pod()) == (Refusal(RefusalReason.NO_NODES, "", (), (Cure.NODE_ADDED,)),)


def test_all_reasons_of_a_node_are_told_at_once() -> None:
    refusals = why_not(
        a_pod(cpu="9", nodeSelector={"disk": "fast"}), a_node(cpu="2", unschedulable=True, taints=["gpu:NoSchedule"])
    )

    assert [(each.reason, each.nodes) for each in refusals] == [
        (RefusalReason.UNSCHEDULABLE_NODE, ("n1",)),
        (RefusalReason.UNTOLERATED_TAINT, ("n1",)),
        (RefusalReason.NODE_AFFINITY, ("n1",)),
        (RefusalReason.NODE_TOO_SMALL, ("n1",)),
    ]
