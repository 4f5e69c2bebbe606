"""Rows of services, endpoints, ingresses and volumes."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from tests.api.table_rows import ago, an_object, row

NETWORKING = "networking.k8s.io"
STORAGE = "storage.k8s.io"


def test_a_service():
    spec = {
        "type": "NodePort",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7", "fd00::7"],
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}],
        "selector": {"tier": "front", "app": "web"},
    }

    assert row("Service", an_object(spec=spec)) == [
        *("web", "NodePort", "10.96.0.7", "<none>", "80:30080/TCP,53/UDP", "5m", "app=web,tier=front")
    ]


def test_a_service_without_address_or_ports():
    spec = {"type": "ClusterIP", "clusterIP": "None"}

    assert row("Service", an_object(spec=spec)) == ["web", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>"]


def balanced(*points: Object) -> Object:
    return {"loadBalancer": {"ingress": list(points)}}


@pytest.mark.parametrize(
    ("address", "spec", "status"),
    [
        ("1.2.3.4,5.6.7.8", {"type": "ClusterIP", "externalIPs": ["1.2.3.4", "5.6.7.8"]}, {}),
        ("<pending>", {"type": "LoadBalancer"}, {}),
        ("9.9.9.9", {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}, {}),
        (
            "1.1.1.1,lb.example.com,9.9.9.9",
            {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            balanced({"hostname": "lb.example.com"}, {"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}),
        ),
        ("db.example.com", {"type": "ExternalName", "externalName": "db.example.com"}, {}),
        ("<unknown>", {"type": "Other"}, {}),
    ],
)
def test_a_services_address_from_outside_depends_on_its_type(address: str, spec: Object, status: Object):
    assert row("Service", an_object(spec=spec, status=status))[3] == address


def addresses(*found: str) -> list[Object]:
    return [{"ip": each} for each in found]


@pytest.mark.parametrize(
    ("endpoints", "subsets"),
    [
        ("<none>", []),
        ("", [{"notReadyAddresses": addresses("10.0.0.1"), "ports": [{"port": 80}]}]),
        ("10.0.0.1:80,10.0.0.2:80", [{"addresses": addresses("10.0.0.1", "10.0.0.2"), "ports": [{"port": 80}]}]),
        ("[fd00::1]:80", [{"addresses": addresses("fd00::1"), "ports": [{"port": 80}]}]),
        ("10.0.0.1", [{"addresses": addresses("10.0.0.1")}]),
        (
            "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more...",
            [{"addresses": addresses("10.0.0.1", "10.0.0.2"), "ports": [{"port": 80}, {"port": 81}]}],
        ),
    ],
)
def test_endpoints_are_shown_up_to_three(endpoints: str, subsets: list[Object]):
    assert row("Endpoints", an_object(subsets=subsets)) == ["web", endpoints, "5m"]


@pytest.mark.parametrize(
    ("ports", "endpoints", "found"),
    [
        ("<unset>", "<unset>", {}),
        ("80,metrics,*", "10.0.0.1", {"ports": [{"port": 80}, {"name": "metrics"}, {}]}),
        ("1,2,3 + 2 more...", "10.0.0.1", {"ports": [{"port": each} for each in range(1, 6)]}),
    ],
)
def test_an_endpoint_slice(ports: str, endpoints: str, found: Object):
    if endpoints != "<unset>":
        found = {**found, "endpoints": [{"addresses": ["10.0.0.1"]}]}

    assert row("EndpointSlice", an_object(addressType="IPv4", **found), "discovery.k8s.io") == [
        *("web", "IPv4", ports, endpoints, "5m")
    ]


def test_an_ingress():
    spec = {"ingressClassName": "nginx", "rules": [{"host": "a.com"}], "tls": [{}]}
    found = an_object(spec=spec, status=balanced({"ip": "1.2.3.4"}))

    assert row("Ingress", found, NETWORKING) == ["web", "nginx", "a.com", "1.2.3.4", "80, 443", "5m"]
    assert row("Ingress", an_object(), NETWORKING) == ["web", "<none>", "*", "", "80", "5m"]


@pytest.mark.parametrize(
    ("shown", "hosts"),
    [
        ("a,b,c", ["a", "b", "c"]),
        ("a,b,c + 2 more...", ["a", "b", "c", "d", "e"]),
        ("a,b,c + 2 more...", ["a", "", "b", "c", ""]),
    ],
)
def test_an_ingress_shows_three_hosts_and_counts_the_other_rules(shown: str, hosts: list[str]):
    assert row("Ingress", an_object(spec={"rules": [{"host": host} for host in hosts]}), NETWORKING)[2] == shown


@pytest.mark.parametrize(
    ("kind", "group", "found", "cells"),
    [
        ("IngressClass", NETWORKING, {"spec": {"controller": "x.com/y"}}, ["web", "x.com/y", "<none>", "5m"]),
        (
            "IngressClass",
            NETWORKING,
            {"spec": {"controller": "x", "parameters": {"apiGroup": "g.com", "kind": "K", "name": "n"}}},
            ["web", "x", "K.g.com/n", "5m"],
        ),
        ("NetworkPolicy", NETWORKING, {"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, ["web", "a=b", "5m"]),
        ("NetworkPolicy", NETWORKING, {"spec": {"podSelector": {}}}, ["web", "<none>", "5m"]),
        (
            "IPAddress",
            NETWORKING,
            {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}},
            ["web", "services/default/kubernetes"],
        ),
        (
            "ServiceCIDR",
            NETWORKING,
            {"spec": {"cidrs": ["10.0.0.0/8", "fd00::/8"]}},
            ["web", "10.0.0.0/8,fd00::/8", "5m"],
        ),
        (
            "VolumeAttachment",
            STORAGE,
            {
                "spec": {"attacher": "csi", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
                "status": {"attached": True},
            },
            ["web", "csi", "pv", "n", True, "5m"],
        ),
        ("CSINode", STORAGE, {"spec": {"drivers": [{}, {}]}}, ["web", 2, "5m"]),
        (
            "CSIDriver",
            STORAGE,
            {"spec": {"podInfoOnMount": True, "tokenRequests": [{"audience": "a"}, {"audience": "b"}]}},
            ["web", True, True, False, "a,b", False, "<none>", "5m"],
        ),
        (
            "CSIDriver",
            STORAGE,
            {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}},
            ["web", False, False, False, "<unset>", False, "Persistent,Ephemeral", "5m"],
        ),
        ("CSIStorageCapacity", STORAGE, {"storageClassName": "fast", "capacity": "1024Mi"}, ["web", "fast", "1Gi"]),
    ],
)
def test_a_small_kind(kind: str, group: str, found: Object, cells: list[Any]):
    assert row(kind, an_object(**found), group) == cells


def test_a_volume():
    volume = an_object(
        "pv-1",
        spec={
            "capacity": {"storage": "1024Mi"},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": "default", "name": "data"},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        },
        status={"phase": "Bound"},
    )

    assert row("PersistentVolume", volume) == [
        *("pv-1", "1Gi", "RWO,ROX,RWX,RWOP", "Retain", "Bound", "default/data"),
        *("fast", "<unset>", "", "5m", "Filesystem"),
    ]


def test_a_volume_that_is_being_deleted():
    volume = an_object("pv-1", metadata={"deletionTimestamp": ago(seconds=1)}, status={"phase": "Bound"})

    assert row("PersistentVolume", volume) == [
        *("pv-1", "0", "", "", "Terminating", "", "", "<unset>", "", "5m", "<unset>")
    ]


def test_a_claim_shows_what_it_has_and_not_what_it_asks_for():
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    pending = an_object("data", spec=spec, status={"phase": "Pending"})
    status = {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"]}
    bound = an_object("data", spec={**spec, "volumeName": "pv-1"}, status=status)

    assert row("PersistentVolumeClaim", pending) == [
        *("data", "Pending", "", "", "", "fast", "<unset>", "5m", "<unset>")
    ]
    assert row("PersistentVolumeClaim", bound) == [
        *("data", "Bound", "pv-1", "2Gi", "RWO", "fast", "<unset>", "5m", "<unset>")
    ]


def test_the_older_annotation_names_the_class_of_a_claim_first():
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    claim = an_object(metadata={"annotations": annotations}, spec={"storageClassName": "new"})

    assert row("PersistentVolumeClaim", claim)[5] == "old"


def test_a_storage_class_says_that_it_is_the_default():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    default = an_object("fast", metadata={"annotations": annotations}, provisioner="csi", allowVolumeExpansion=True)
    other = an_object("slow", provisioner="csi", reclaimPolicy="Retain", volumeBindingMode="WaitForFirstConsumer")

    assert row("StorageClass", default, STORAGE) == ["fast (default)", "csi", "Delete", "Immediate", True, "5m"]
    assert row("StorageClass", other, STORAGE) == ["slow", "csi", "Retain", "WaitForFirstConsumer", False, "5m"]
