"""Which pods a placement policy applies to, and which of several is the most specific."""

from itertools import pairwise
from typing import Any

import pytest

from mainstay.api.node_terms import parse_requirements
from mainstay.api.policy_scope import (
    PolicyScope,
    ScopedPod,
    WorkloadShare,
    find_workload,
    has_workload,
    is_active,
    overlap,
    parse_scope,
    selects,
    specificity,
)
from mainstay.api.well_known_labels import REGION_LABEL, ZONE_LABEL


def a_scope(**scope: Any) -> PolicyScope:
    return limited(scope, None)


def limited(scope: dict[str, Any], limit: dict[str, Any] | None) -> PolicyScope:
    found = parse_scope({"metadata": {"name": "p"}, "spec": {"scope": scope, "limit": limit}})
    assert found is not None
    return found


def a_pod(
    namespace: str = "risk",
    labels: dict[str, str] | None = None,
    priority_class: str = "",
    zones: tuple[str, ...] | None = None,
    regions: tuple[str, ...] | None = None,
    workload: str = "",
) -> ScopedPod:
    return ScopedPod(namespace, labels or {}, priority_class, zones, regions, workload)


def owned_by(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": True}


def labelled(**labels: str) -> dict[str, Any]:
    return {"matchLabels": labels}


@pytest.mark.parametrize(
    ("scope", "pod", "is_selected"),
    [
        ({}, a_pod(), True),
        ({"namespaces": ["risk", "shop"]}, a_pod(), True),
        ({"namespaces": ["shop"]}, a_pod(), False),
        ({"tenant": "risk"}, a_pod(), True),
        ({"tenant": "shop"}, a_pod(), False),
        ({"selector": labelled(app="risk-api")}, a_pod(labels={"app": "risk-api", "tier": "1"}), True),
        ({"selector": labelled(app="risk-api")}, a_pod(labels={"app": "batch"}), False),
        ({"priorityClasses": ["high"]}, a_pod(priority_class="high"), True),
        ({"priorityClasses": ["high"]}, a_pod(), False),
        ({"zones": ["a", "b"]}, a_pod(zones=("a",)), True),
        ({"zones": ["a", "b"]}, a_pod(zones=("a", "c")), False),
        ({"zones": ["a"]}, a_pod(), False),  # It may run anywhere.
        ({"zones": ["a"]}, a_pod(zones=()), False),  # It can run nowhere.
        ({"regions": ["eu-central"]}, a_pod(regions=("eu-central",)), True),
        ({"regions": ["eu-central"]}, a_pod(zones=("a",)), False),
        ({"namespaces": ["risk"], "priorityClasses": ["high"]}, a_pod(), False),
    ],
)
def test_a_scope_selects_pods_by_all_that_it_names(scope, pod, is_selected):
    assert selects(a_scope(**scope), pod) is is_selected


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        ({}, {"namespaces": ["a"]}),
        ({"namespaces": ["a", "b"]}, {"namespaces": ["a"]}),
        ({"namespaces": ["a"]}, {"regions": ["eu"]}),
        ({"regions": ["eu"], "namespaces": ["a"]}, {"zones": ["z"]}),
        ({"zones": ["z"]}, {"priorityClasses": ["high"]}),
        ({"priorityClasses": ["high"], "zones": ["z"], "namespaces": ["a"]}, {"selector": labelled(app="x")}),
        ({"selector": labelled(app="x")}, {"selector": labelled(app="x", tier="1")}),
        ({"selector": labelled(app="x")}, {"selector": labelled(app="y"), "namespaces": ["a"]}),
    ],
)
def test_the_first_part_in_which_scopes_differ_says_which_is_more_specific(wider, narrower):
    assert specificity(a_scope(**wider)) < specificity(a_scope(**narrower))


def test_a_tenant_is_as_specific_as_a_namespace():
    assert a_scope(tenant="a") == a_scope(namespaces=["a"])


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ({}, {}, True),
        ({"namespaces": ["a"]}, {"namespaces": ["b"]}, False),
        ({"namespaces": ["a", "b"]}, {"namespaces": ["b", "c"]}, True),
        ({"namespaces": ["a"]}, {"zones": ["z"]}, True),
        ({"priorityClasses": ["high"]}, {"priorityClasses": ["low"]}, False),
        ({"zones": ["y"]}, {"zones": ["z"]}, False),
        ({"regions": ["eu"]}, {"regions": ["us"]}, False),
        ({"selector": labelled(app="x")}, {"selector": labelled(app="y")}, False),
        ({"selector": labelled(app="x")}, {"selector": labelled(tier="1")}, True),
        ({"selector": expression("app", "In", "x", "y")}, {"selector": expression("app", "In", "y", "z")}, True),
        ({"selector": expression("app", "In", "x")}, {"selector": expression("app", "NotIn", "x")}, False),
        ({"selector": expression("app", "In", "x", "y")}, {"selector": expression("app", "NotIn", "x")}, True),
        ({"selector": expression("app", "Exists")}, {"selector": expression("app", "DoesNotExist")}, False),
        ({"selector": expression("app", "NotIn", "x")}, {"selector": expression("app", "DoesNotExist")}, True),
        ({"selector": expression("app", "In", "x")}, {"selector": expression("app", "DoesNotExist")}, False),
    ],
)
def test_two_scopes_overlap_if_some_pod_can_be_in_both(one, other, is_shared):
    assert overlap(a_scope(**one), a_scope(**other)) is is_shared
    assert overlap(a_scope(**other), a_scope(**one)) is is_shared


# Limits.


def in_share(percent: int, policy: str = "p") -> set[str]:
    names = [f"risk/ReplicaSet/web-{number}" for number in range(2000)]
    return {name for name in names if has_workload(WorkloadShare(policy, percent), name)}


def test_a_larger_share_contains_the_smaller_one_and_each_is_about_as_large_as_it_says():
    shares = [in_share(percent) for percent in (1, 10, 50, 99, 100)]

    assert all(smaller < larger for smaller, larger in pairwise(shares))
    assert [len(each) / 20 for each in shares] == pytest.approx([1, 10, 50, 99, 100], abs=2)


def test_two_policies_take_other_shares():
    assert in_share(10) != in_share(10, "q")


@pytest.mark.parametrize(
    ("limit", "is_selected"),
    [
        (None, True),
        ({"percent": 100}, True),
        ({"scope": {"selector": labelled(app="api")}}, True),
        ({"scope": {"selector": labelled(app="web")}}, False),
        ({"scope": {"namespaces": ["shop"]}}, False),
    ],
)
def test_a_limited_policy_selects_what_its_scope_and_its_limit_select(limit, is_selected):
    pod = a_pod(labels={"app": "api"}, workload="risk/ReplicaSet/api")

    assert selects(limited({"namespaces": ["risk"]}, limit), pod) is is_selected
    assert not selects(limited({"namespaces": ["shop"]}, limit), pod)


def test_a_share_is_one_of_the_pods_in_scope():
    scope = limited({"namespaces": ["risk"]}, {"percent": 50})
    names = [f"risk/ReplicaSet/web-{number}" for number in range(100)]

    assert {name for name in names if selects(scope, a_pod(workload=name))} == in_share(50) & set(names)
    assert not any(selects(scope, a_pod("shop", workload=name)) for name in names)


@pytest.mark.parametrize("limit", [{"percent": 100}, {"scope": {}}])
def test_a_limit_is_more_specific_than_the_same_scope_without_it_and_less_than_any_narrower_scope(limit):
    wide = {"namespaces": ["a", "b"]}

    assert specificity(limited(wide, None)) < specificity(limited(wide, limit)) < specificity(a_scope(namespaces=["a"]))


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ({"percent": 1}, {"percent": 1}, True),
        ({"percent": 1}, {"scope": {"namespaces": ["a"]}}, True),
        ({"scope": {"namespaces": ["a"]}}, {"scope": {"namespaces": ["b"]}}, False),
        ({"scope": {"selector": labelled(app="x")}}, {"scope": {"selector": labelled(app="y")}}, False),
        ({"scope": {"selector": labelled(app="x")}}, None, True),
    ],
)
def test_limited_scopes_overlap_if_some_pod_can_be_in_both(one, other, is_shared):
    assert overlap(limited({}, one), limited({}, other)) is is_shared
    assert overlap(limited({}, other), limited({}, one)) is is_shared


def test_a_limit_and_a_scope_that_share_no_pod_overlap_with_nothing():
    assert not overlap(limited({"namespaces": ["a"]}, {"scope": {"namespaces": ["b"]}}), a_scope())


@pytest.mark.parametrize(
    ("metadata", "workload"),
    [
        ({}, "risk/Pod/web-1"),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "web-6f4d"}]}, "risk/Pod/web-1"),  # It controls nothing.
        ({"ownerReferences": [owned_by("ReplicaSet", "web-6f4d")]}, "risk/ReplicaSet/web"),
        ({"ownerReferences": [owned_by("ReplicaSet", "web")]}, "risk/ReplicaSet/web"),
        ({"ownerReferences": [owned_by("StatefulSet", "db-6f4d")]}, "risk/StatefulSet/db-6f4d"),
    ],
)
def test_a_workload_is_the_owner_without_the_hash_of_its_template(metadata, workload):
    pod = {"metadata": {"namespace": "risk", "name": "web-1", "labels": {"pod-template-hash": "6f4d"}, **metadata}}

    assert find_workload(pod) == workload


def test_a_policy_without_a_scope_is_not_one_for_all_pods():
    assert parse_scope({"metadata": {"name": "p"}, "spec": {"policyVersion": "v1"}}) is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"metadata": {}, "spec": {"active": True}}, True),
        ({"metadata": {}, "spec": {"active": False}}, False),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"active": True}}, False),
    ],
)
def test_a_policy_that_is_about_to_be_removed_is_not_active(policy, expected):
    assert is_active(policy) is expected


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    affinity = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}}}


def zones(*values: str) -> dict[str, Any]:
    return {"key": ZONE_LABEL, "operator": "In", "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, None),
        ({"nodeSelector": {ZONE_LABEL: "a"}}, ("a",)),
        ({"nodeSelector": {REGION_LABEL: "eu"}}, None),
        (required([zones("b", "a")]), ("a", "b")),
        (required([zones("a")], [zones("b")]), ("a", "b")),
        (required([zones("a")], [{"key": "disk", "operator": "Exists"}]), None),
        ({**required([zones("a", "b")]), "nodeSelector": {ZONE_LABEL: "b"}}, ("b",)),
        (required([{"key": ZONE_LABEL, "operator": "NotIn", "values": ["c"]}]), None),
    ],
)
def test_the_zones_of_a_pod_are_those_that_it_requires(spec, found):
    assert parse_requirements(spec).find_values(ZONE_LABEL) == found
