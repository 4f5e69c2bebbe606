"""Rows of nodes, events, data, quotas, access, and what extends the server."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from tests.api.table_rows import ago, an_object, row, shown


def a_node(ready: str | None = "True", unschedulable: bool = False, labels: Object | None = None) -> Object:
    conditions = [{"type": "MemoryPressure", "status": "False"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready})
    return an_object(
        "node-1",
        metadata={"labels": labels or {}},
        spec={"unschedulable": True} if unschedulable else {},
        status={"conditions": conditions},
    )


def test_a_node_shows_its_state_its_roles_and_its_addresses():
    node = a_node(
        labels={"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "node-role.kubernetes.io/": ""}
    )
    node["status"]["addresses"] = [
        {"type": "Hostname", "address": "node-1"},
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"},
    ]
    node["status"]["nodeInfo"] = {
        "kubeletVersion": "v1.36.4",
        "osImage": "Debian",
        "containerRuntimeVersion": "pretend://1",
    }

    assert row("Node", node) == [
        *("node-1", "Ready", "edge,worker", "5m", "v1.36.4"),
        *("10.0.0.1", "<none>", "Debian", "<unknown>", "pretend://1"),
    ]


@pytest.mark.parametrize(
    ("status", "node"),
    [
        ("Ready", a_node()),
        ("NotReady", a_node("False")),
        ("NotReady", a_node("Unknown")),
        ("Unknown", a_node(None)),
        ("Ready,SchedulingDisabled", a_node(unschedulable=True)),
        ("NotReady,SchedulingDisabled", a_node("Unknown", unschedulable=True)),
    ],
)
def test_a_nodes_status_says_whether_it_is_ready_and_takes_pods(status: str, node: Object):
    assert row("Node", node)[1:3] == [status, "<none>"]


def test_an_event_of_the_older_form():
    event = an_object(
        "web.1",
        type="Warning",
        reason="BackOff",
        message=" Back-off restarting \n",
        involvedObject={"kind": "Pod", "name": "web", "fieldPath": "spec.containers{app}"},
        source={"component": "kubelet", "host": "node-1"},
        firstTimestamp=ago(minutes=30),
        lastTimestamp=ago(seconds=20),
        count=12,
    )

    assert row("Event", event) == [
        *("20s", "Warning", "BackOff", "pod/web", "spec.containers{app}", "kubelet, node-1"),
        *("Back-off restarting", "30m", 12, "web.1"),
    ]


def test_an_event_of_the_newer_form():
    event = an_object(
        "web.1",
        type="Normal",
        reason="Scheduled",
        note="Assigned",
        regarding={"kind": "Pod", "name": "web"},
        reportingController="mainstay.dev/scheduler",
        reportingInstance="a",
        eventTime=ago(seconds=20),
        deprecatedFirstTimestamp=None,
    )

    assert row("Event", event, "events.k8s.io") == [
        *("20s", "Normal", "Scheduled", "pod/web", "", "mainstay.dev/scheduler, a", "Assigned", "20s", 1, "web.1")
    ]


def test_a_series_of_events_counts_from_its_last_one():
    event = an_object(eventTime=ago(minutes=3), series={"count": 4, "lastObservedTime": ago(seconds=5)}, count=1)

    cells = shown("Event", event)
    assert (cells["Last Seen"], cells["First Seen"], cells["Count"]) == ("5s", "3m", 4)


def test_an_event_without_any_time_has_an_unknown_age():
    cells = shown("Event", an_object(involvedObject={"kind": "Node"}))

    assert (cells["Last Seen"], cells["Object"], cells["Count"]) == ("<unknown>", "node", 1)


def test_data_is_counted():
    config = an_object("c", data={"a": "1", "b": "2"}, binaryData={"c": "AA=="})
    secret = an_object("s", data={"a": "AA=="}, type="Opaque")

    assert row("ConfigMap", config) == ["c", 3, "5m"]
    assert row("ConfigMap", an_object("c")) == ["c", 0, "5m"]
    assert row("Secret", secret) == ["s", "Opaque", 1, "5m"]


def test_a_quota_shows_requests_and_limits_apart():
    quota = an_object(
        "q",
        status={
            "hard": {"requests.cpu": "4", "pods": "10", "limits.memory": "2048Mi", "limits": "1"},
            "used": {"requests.cpu": "1500m", "limits.memory": "1Gi"},
        },
    )

    assert row("ResourceQuota", quota) == [
        *("q", "limits: 0/1, pods: 0/10, requests.cpu: 1500m/4", "limits.memory: 1Gi/2Gi", "5m")
    ]


@pytest.mark.parametrize(
    ("kind", "group", "found", "cells"),
    [
        ("Namespace", "", {"status": {"phase": "Active"}}, ["web", "Active", "5m"]),
        ("ServiceAccount", "", {"secrets": [{}]}, ["web", "5m"]),
        ("LimitRange", "", {}, ["web", "2026-11-15T11:55:00Z"]),
        (
            "PodTemplate",
            "",
            {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "n", "image": "i"}]}}},
            ["web", "n", "i", "a=b"],
        ),
        (
            "ComponentStatus",
            "",
            {"conditions": [{"type": "Healthy", "status": "False", "error": "refused"}]},
            ["web", "Unhealthy", "", "refused"],
        ),
        ("ComponentStatus", "", {}, ["web", "Unknown", "", ""]),
        ("Lease", "coordination.k8s.io", {"spec": {"holderIdentity": "a"}}, ["web", "a", "5m"]),
        (
            "LeaseCandidate",
            "coordination.k8s.io",
            {"spec": {"leaseName": "l", "binaryVersion": "1.36", "emulationVersion": "1.35"}},
            ["web", "l", "1.36", "1.35", "5m"],
        ),
        (
            "PriorityClass",
            "scheduling.k8s.io",
            {"value": 1000, "globalDefault": True, "preemptionPolicy": "Never"},
            ["web", 1000, True, "5m", "Never"],
        ),
        ("RuntimeClass", "node.k8s.io", {"handler": "vm"}, ["web", "vm", "5m"]),
        ("CustomResourceDefinition", "apiextensions.k8s.io", {}, ["web", "2026-11-15T11:55:00Z"]),
        ("APIService", "apiregistration.k8s.io", {}, ["web", "Local", "Unknown", "5m"]),
        (
            "APIService",
            "apiregistration.k8s.io",
            {
                "spec": {"service": {"namespace": "kube-system", "name": "metrics"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
            },
            ["web", "kube-system/metrics", "False (MissingEndpoints)", "5m"],
        ),
        ("ValidatingWebhookConfiguration", "admissionregistration.k8s.io", {"webhooks": [{}, {}]}, ["web", 2, "5m"]),
        (
            "ValidatingAdmissionPolicy",
            "admissionregistration.k8s.io",
            {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}},
            ["web", 1, "v1/ConfigMap", "5m"],
        ),
        (
            "MutatingAdmissionPolicyBinding",
            "admissionregistration.k8s.io",
            {"spec": {"policyName": "p", "paramRef": {"name": "n"}}},
            ["web", "p", "*/n", "5m"],
        ),
        (
            "FlowSchema",
            "flowcontrol.apiserver.k8s.io",
            {
                "spec": {"priorityLevelConfiguration": {"name": "low"}, "matchingPrecedence": 900},
                "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
            },
            ["web", "low", 900, "<none>", "5m", "False"],
        ),
        (
            "PriorityLevelConfiguration",
            "flowcontrol.apiserver.k8s.io",
            {
                "spec": {
                    "type": "Limited",
                    "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
                }
            },
            ["web", "Limited", 5, "<none>", "<none>", "<none>", "5m"],
        ),
        (
            "ResourceClaim",
            "resource.k8s.io",
            {"status": {"allocation": {}, "reservedFor": [{}]}},
            ["web", "allocated,reserved", "5m"],
        ),
        (
            "ResourceSlice",
            "resource.k8s.io",
            {"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}},
            ["web", "n", "d", "p", "5m"],
        ),
    ],
)
def test_a_small_kind(kind: str, group: str, found: Object, cells: list[Any]):
    assert row(kind, an_object(**found), group) == cells


def test_a_binding_shows_who_gets_what():
    binding = an_object(
        roleRef={"kind": "ClusterRole", "name": "view"},
        subjects=[
            {"kind": "User", "name": "ada"},
            {"kind": "Group", "name": "devs"},
            {"kind": "User", "name": "bob"},
            {"kind": "ServiceAccount", "namespace": "default", "name": "ci"},
        ],
    )

    cells = ["web", "ClusterRole/view", "5m", "ada, bob", "devs", "default/ci"]
    assert row("RoleBinding", binding, "rbac.authorization.k8s.io") == cells
    assert row("ClusterRoleBinding", binding, "rbac.authorization.k8s.io") == cells


def test_a_certificate_request_shows_what_was_decided():
    spec = {"signerName": "example.com/signer", "username": "ada", "expirationSeconds": 7200}
    status = {"conditions": [{"type": "Approved"}], "certificate": "AA=="}
    group = "certificates.k8s.io"

    assert row("CertificateSigningRequest", an_object(spec=spec, status=status), group) == [
        *("web", "5m", "example.com/signer", "ada", "120m", "Approved,Issued")
    ]
    assert row("CertificateSigningRequest", an_object(), group) == ["web", "5m", "<none>", "", "<none>", "Pending"]


@pytest.mark.parametrize(
    ("kind", "found", "cells"),
    [
        (
            "Reservation",
            {
                "spec": {
                    "nodeName": "node-1",
                    "workload": {"kind": "Job", "name": "train"},
                    "expiresAt": "2026-11-15T12:01:30Z",
                },
                "status": {"phase": "Held"},
            },
            ["web", "node-1", "Job/train", "Held", "90s", "5m"],
        ),
        ("Reservation", {"spec": {"expiresAt": ago(hours=1)}}, ["web", "<none>", "<none>", "", "expired", "5m"]),
        (
            "ZoneQuota",
            {"spec": {"zone": "a", "hard": {"pods": 10, "cpu": "4000m"}}, "status": {"used": {"cpu": "1"}}},
            ["web", "a", "cpu=4,pods=10", "cpu=1", "5m"],
        ),
        ("PlacementPolicy", {"spec": {"policyVersion": "v5"}, "status": {"active": True}}, ["web", "v5", True, "5m"]),
        (
            "PolicyRollout",
            {"spec": {"policy": "p"}, "status": {"stage": "canary", "reason": "SignalsStale"}},
            ["web", "p", "canary", "SignalsStale", "5m"],
        ),
        (
            "ComponentState",
            {"status": {"role": "scheduler", "term": "kube-system/a=5", "build": "0.1"}},
            ["web", "scheduler", "kube-system/a=5", "0.1", "5m"],
        ),
    ],
)
def test_a_kind_of_our_own(kind: str, found: Object, cells: list[Any]):
    assert row(kind, an_object(**found), "mainstay.dev") == cells
