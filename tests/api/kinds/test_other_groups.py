"""What the kinds of the other groups may say."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.kinds.autoscaling import to_v1, to_v2
from mainstay.api.kinds.events import to_core, to_events
from mainstay.api.reservations import reservation_name
from tests.api.builders import a_definition
from tests.api.kinds.steps import kind_of, problems, stored


def wrong(group_version: str, kind: str, new: Object, old: Object | None = None) -> list[str]:
    base = {"metadata": {"name": "x", "namespace": "default"}}
    return problems(kind_of(group_version, kind), base | new, base | old if old is not None else None)


def test_a_budget_says_how_many_stay_or_how_many_go_but_not_both():
    assert wrong("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}) == [
        'spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: minAvailable and maxUnavailable cannot be both set'
    ]
    assert wrong("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": "half"}}) == [
        'spec.minAvailable: Invalid value: "half": a valid percent string must be a numeric string followed by an '
        "ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
    ]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_autoscaler_has_a_target_and_an_order_of_its_bounds(version):
    kind = f"autoscaling/{version}"
    target = {"kind": "Deployment", "name": "x"}

    assert wrong(kind, "HorizontalPodAutoscaler", {"spec": {"scaleTargetRef": target, "maxReplicas": 3}}) == []
    assert wrong(
        kind, "HorizontalPodAutoscaler", {"spec": {"scaleTargetRef": target, "minReplicas": 5, "maxReplicas": 3}}
    ) == ["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"]
    assert wrong(kind, "HorizontalPodAutoscaler", {"spec": {"maxReplicas": 1}}) == [
        "spec.scaleTargetRef.kind: Required value",
        "spec.scaleTargetRef.name: Required value",
    ]


def test_a_metric_of_pods_has_a_name_and_a_positive_average():
    def wrong_with(metric: Object, **target: str) -> list[str]:
        pods = {"metric": metric, "target": {"type": "AverageValue", **target}}
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3}
        spec["metrics"] = [{"type": "Pods", "pods": pods}]
        return wrong("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec})

    here = "spec.metrics[0].pods"
    positive = f"{here}.target.averageValue: Required value: must specify a positive target averageValue"
    assert wrong_with({"name": "queue"}, averageValue="500m") == []
    assert wrong_with({"name": "queue"}) == wrong_with({"name": "queue"}, averageValue="0") == [positive]
    assert wrong_with({}, averageValue="1") == [f"{here}.metric.name: Required value: must specify a metric name"]
    assert wrong_with({"name": "a/b"}, averageValue="1") == [
        f'{here}.metric.name: Invalid value: "a/b": must be usable as a path segment'
    ]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"averageUtilization": 50}, []),
        ({"averageValue": "500m"}, []),
        (
            {"averageUtilization": 50, "averageValue": "500m"},
            ["target.averageValue: Forbidden: may not set both a target raw value and a target utilization"],
        ),
        ({}, ["target.averageUtilization: Required value: must set either a target raw value or a target utilization"]),
    ],
    ids=["utilization", "value", "both", "neither"],
)
def test_a_metric_of_resources_has_either_a_value_or_a_utilization(target, said):
    spec: Object = {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3}
    resource = {"name": "cpu", "target": {"type": "Utilization", **target}}
    spec["metrics"] = [
        {"type": "Resource", "resource": resource},
        {"type": "ContainerResource", "containerResource": {**resource, "container": "main"}},
    ]

    expected = [f"spec.metrics[0].resource.{each}" for each in said]
    expected += [f"spec.metrics[1].containerResource.{each}" for each in said]
    assert wrong("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec}) == expected


def test_an_autoscaler_without_policies_gets_defaults_and_an_empty_list_of_them_is_refused():
    def wrong_with(behavior: Object) -> list[str]:
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "x"}, "maxReplicas": 3, "behavior": behavior}
        return wrong("autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec})

    needed = "Required value: must specify at least one Policy"
    assert wrong_with({}) == wrong_with({"scaleUp": {}}) == wrong_with({"scaleDown": {"policies": None}}) == []
    assert wrong_with({"scaleUp": {"policies": []}}) == [f"spec.behavior.scaleUp.policies: {needed}"]
    assert wrong_with({"scaleDown": {"policies": []}}) == [f"spec.behavior.scaleDown.policies: {needed}"]


def test_an_autoscaler_is_the_same_after_it_was_looked_at_in_the_old_version():
    kept = stored(
        kind_of("autoscaling/v2", "HorizontalPodAutoscaler"),
        {
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "x"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "x"},
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
                    {"type": "Resource", "resource": {"name": "memory", "target": {"averageUtilization": 60}}},
                ],
                "behavior": {},
            },
        },
    )
    kept["spec"]["metrics"][0]["resource"]["target"]["type"] = "Utilization"

    seen = to_v1(kept)

    assert seen["spec"] == {
        "scaleTargetRef": {"kind": "Deployment", "name": "x"},
        "minReplicas": 1,
        "maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
    }
    assert {**to_v2(seen), "status": None} == {**kept, "status": None}


def test_the_two_forms_of_an_event_say_the_same():
    core = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "x"},
        "message": "m",
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": None,
        "count": 2,
        "reportingComponent": "c",
        "reason": "R",
        "type": "Normal",
        "eventTime": None,
    }
    seen = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "x"},
        "note": "m",
        "deprecatedSource": {"component": "kubelet"},
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": None,
        "deprecatedCount": 2,
        "reportingController": "c",
        "reason": "R",
        "type": "Normal",
        "eventTime": None,
    }

    assert to_events(core) == seen
    assert to_core(seen) == core


def test_an_event_is_in_the_namespace_of_what_it_is_about():
    assert wrong("v1", "Event", {"involvedObject": {"namespace": "other"}}) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    assert wrong("v1", "Event", {"involvedObject": {"kind": "Node", "name": "n"}}) == []


def test_a_new_event_says_who_did_what_and_when():
    assert wrong("events.k8s.io/v1", "Event", {}) == ["eventTime: Required value"]
    assert wrong("events.k8s.io/v1", "Event", {"eventTime": "2026-01-01T00:00:00.123456Z"}) == [
        "reportingController: Required value",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
        'type: Unsupported value: "": supported values: "Normal", "Warning"',
    ]


def test_a_priority_stays_what_it_is_and_leaves_the_highest_to_the_system():
    kind = kind_of("scheduling.k8s.io/v1", "PriorityClass")

    assert wrong("scheduling.k8s.io/v1", "PriorityClass", {"value": 2}, {"value": 1}) == [
        "value: Forbidden: may not be changed in an update."
    ]
    assert wrong("scheduling.k8s.io/v1", "PriorityClass", {"value": 1_000_000_001}) == [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    ]
    assert problems(kind, {"metadata": {"name": "system-mine"}, "value": 1}) == [
        "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
        "system-mine is not a known system priority class"
    ]


def test_a_lease_lasts_some_time():
    assert wrong("coordination.k8s.io/v1", "Lease", {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}) == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
    ]


def test_a_binding_keeps_its_role():
    group = "rbac.authorization.k8s.io/v1"
    old, new = ({"roleRef": {"kind": "ClusterRole", "name": name}} for name in ("view", "admin"))

    assert wrong(group, "RoleBinding", new, old) == [
        'roleRef: Invalid value: {"kind":"ClusterRole","name":"admin","apiGroup":"rbac.authorization.k8s.io"}: '
        "cannot change roleRef"
    ]


def test_a_rule_says_what_may_be_done_with_what():
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]},
        {},
    ]

    assert wrong("rbac.authorization.k8s.io/v1", "Role", {"rules": rules}) == [
        'rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs',
        "rules[2].verbs: Required value: verbs must contain at least one value",
        "rules[2].apiGroups: Required value: resource rules must supply at least one api group",
        "rules[2].resources: Required value: resource rules must supply at least one resource",
    ]


def test_an_ingress_leads_somewhere():
    path = {"path": "x", "pathType": "Prefix", "backend": {"service": {"name": "s"}}}

    assert wrong("networking.k8s.io/v1", "Ingress", {}) == [
        "spec: Invalid value: {}: either `defaultBackend` or `rules` must be specified"
    ]
    kind = kind_of("networking.k8s.io/v1", "Ingress")
    found = kind.validate({"metadata": {}, "spec": {"rules": [{"http": {"paths": [path]}}]}}, None)
    assert [f"{each.field}: {each.message}" for each in found] == [
        'spec.rules[0].http.paths[0].path: Invalid value: "x": must be an absolute path',
        "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
    ]


def test_a_claim_for_devices_names_their_class_and_then_stays():
    group = "resource.k8s.io/v1"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = {"spec": {"devices": {"requests": [request]}}}

    made = stored(kind_of(group, "ResourceClaim"), {"metadata": {"name": "x"}, **claim})

    assert made["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu.example.com",
        "allocationMode": "ExactCount",
        "count": 1,
    }
    assert wrong(group, "ResourceClaim", claim, claim) == []
    assert wrong(
        group, "ResourceClaim", {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"count": 2}}]}}}
    ) == ["spec.devices.requests[0].exactly.deviceClassName: Required value"]


def test_a_definition_goes_by_the_rules_for_definitions():
    kind = kind_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    without_schema = [{"name": "v1", "served": True, "storage": True}]

    assert problems(kind, a_definition()) == []
    assert problems(kind, a_definition(scope="Both")) == [
        'spec.scope: Unsupported value: "Both": supported values: "Cluster", "Namespaced"'
    ]
    assert problems(kind, a_definition(versions=without_schema)) == [
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"
    ]


def a_reservation(**spec: Any) -> Object:
    wanted = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "risk-api", "uid": "u1"}
    given = {"nodeName": "n1", "workload": wanted, "intent": "recover-042", "resources": {"cpu": "0.5"}}
    # Without a name it gets the one that it must have.
    return {"metadata": {}, "spec": {**given, "expiresAt": "2026-01-01T00:00:00Z", **spec}}


def test_a_reservation_says_where_for_whom_and_how_much():
    kind = kind_of("mainstay.dev/v1", "Reservation")

    assert wrong("mainstay.dev/v1", "Reservation", a_reservation()) == []
    assert stored(kind, a_reservation())["spec"]["resources"] == {"cpu": "500m", "pods": "1"}
    assert wrong("mainstay.dev/v1", "Reservation", {"spec": {"nodeName": 5, "expiresAt": "soon"}}) == [
        "spec.workload: Required value",
        "spec.intent: Required value",
        "spec.resources: Required value",
        'spec.nodeName: Invalid value: "integer": spec.nodeName in body must be of type string: "integer"',
        'spec.expiresAt: Invalid value: "soon": parsing time "soon" as "2006-01-02T15:04:05Z07:00": '
        'cannot parse "soon" as "2006-01-02T15:04:05Z07:00"',
    ]


def test_a_reservation_may_be_prolonged_but_not_moved():
    old = a_reservation()

    assert wrong("mainstay.dev/v1", "Reservation", a_reservation(expiresAt="2026-01-02T00:00:00Z"), old) == []
    assert wrong("mainstay.dev/v1", "Reservation", a_reservation(nodeName="n2"), old) == [
        "spec.nodeName: Forbidden: field is immutable; create another Reservation"
    ]


def test_a_reservation_is_named_after_what_it_is_for_and_goes_with_its_workload():
    kind = kind_of("mainstay.dev/v1", "Reservation")
    made = stored(kind, a_reservation(generation=42))
    name = reservation_name({"name": "risk-api", "uid": "u1"}, 42, "recover-042")

    assert made["metadata"] == {
        "name": name,
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "risk-api", "uid": "u1"}],
    }
    assert made["status"] == {"phase": "Active"}
    assert wrong("mainstay.dev/v1", "Reservation", {**a_reservation(generation=42), "metadata": {"name": "mine"}}) == [
        f'metadata.name: Invalid value: "mine": must be {name}, which follows from the workload\'s uid, '
        "the generation and the intent"
    ]


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("Active", "Released", None),
        ("Active", "Expired", None),
        ("Active", "Confirmed", "Forbidden: a reservation can only be confirmed by binding its pod"),
        ("Released", "Active", "Forbidden: the phase of a reservation that is Released cannot change"),
        ("Expired", None, "Forbidden: the phase of a reservation that is Expired cannot change"),
        ("Confirmed", "Released", "Forbidden: the phase of a reservation that is Confirmed cannot change"),
        ("Active", "Lost", 'Unsupported value: "Lost": supported values: "Active", "Confirmed", "Released", "Expired"'),
    ],
)
def test_a_reservation_that_is_over_stays_so(before, after, problem):
    kind = kind_of("mainstay.dev/v1", "Reservation")
    old = {**stored(kind, a_reservation()), "status": {"phase": before}}
    new = {**old, "status": {"phase": after}} if after else {**old, "status": None}

    found = [f"{cause.field}: {cause.message}" for cause in kind.validate(new, old)]

    assert found == ([] if problem is None else [f"status.phase: {problem}"])


def test_a_zone_limits_what_pods_request():
    assert wrong("mainstay.dev/v1", "ZoneQuota", {"spec": {"zone": "a", "hard": {"requests.cpu": "4"}}}) == []
    assert wrong("mainstay.dev/v1", "ZoneQuota", {"spec": {"zone": "a", "hard": {"limits.cpu": "4"}}}) == [
        "spec.hard[limits.cpu]: Forbidden: must be a resource that pods request"
    ]


@pytest.mark.parametrize("kind", ["Reservation", "ZoneQuota", "PlacementPolicy", "PolicyRollout"])
@pytest.mark.parametrize("spec", ["text", 5, [], True])
def test_a_spec_that_is_no_object_is_refused_and_breaks_nothing(kind, spec):
    found = wrong("mainstay.dev/v1", kind, {"spec": spec})

    assert [each for each in found if each.startswith("spec: Invalid value: ")] == found != []
