"""Which pods a placement policy applies to, and which of several is the most specific."""

from typing import Any

import pytest

from mainstay.api.node_terms import parse_requirements
from mainstay.api.policy_scope import PolicyScope, ScopedPod, is_active, overlap, parse_scope, selects, specificity
from mainstay.api.well_known_labels import REGION_LABEL, ZONE_LABEL


def a_scope(**scope: Any) -> PolicyScope:
    found = parse_scope({"metadata": {"name": "p"}, "spec": {"scope": scope}})
    assert found is not None
    return found


def a_pod(
    namespace: str = "risk",
    labels: dict[str, str] | None = None,
    priority_class: str = "",
    zones: tuple[str, ...] | None = None,
    regions: tuple[str, ...] | None = None,
) -> ScopedPod:
    return ScopedPod(namespace, labels or {}, priority_class, zones, regions)


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
