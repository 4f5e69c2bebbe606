"""What the small kinds of the core group may say: configuration, namespaces, nodes, quotas, services."""

from typing import Any

import pytest

from tests.api.builders import a_node, a_service
from tests.api.kinds.steps import kind_of, problems, stored

CONFIG_MAP = kind_of("v1", "ConfigMap")
SECRET = kind_of("v1", "Secret")
NODE = kind_of("v1", "Node")
QUOTA = kind_of("v1", "ResourceQuota")
LIMITS = kind_of("v1", "LimitRange")
SERVICE = kind_of("v1", "Service")
ENDPOINTS = kind_of("v1", "Endpoints")
SLICE = kind_of("discovery.k8s.io/v1", "EndpointSlice")
CLAIM = kind_of("v1", "PersistentVolumeClaim")


def named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "default"}, **fields}


@pytest.mark.parametrize("key", ["a", "a.b", "A_b-c", "..a"[2:]])
def test_a_key_of_a_config_map_may_look_like_a_file_name(key):
    assert problems(CONFIG_MAP, named(data={key: "1"})) == []


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (
            "a b",
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        ),
        (".", "must not be '.'"),
        ("..", "must not be '..'"),
        ("..a", "must not start with '..'"),
    ],
)
def test_a_key_of_a_config_map_may_not_lead_astray(key, why):
    assert problems(CONFIG_MAP, named(data={key: "1"})) == [f'data[{key}]: Invalid value: "{key}": {why}']


def test_a_config_map_holds_a_megabyte_and_no_more():
    assert problems(CONFIG_MAP, named(data={"a": "x" * (1 << 20)})) == []
    assert problems(CONFIG_MAP, named(data={"a": "x" * (1 << 20), "b": "x"})) == [
        ": Too long: may not be more than 1048576 bytes"
    ]


@pytest.mark.parametrize("kind", [CONFIG_MAP, SECRET], ids=["ConfigMap", "Secret"])
def test_what_was_made_immutable_stays_as_it_is(kind):
    old = named(data={"a": "Yg=="}, immutable=True)

    assert problems(kind, named(data={"a": "Yg=="}, immutable=True), old) == []
    assert problems(kind, named(data={"a": "Yw=="}), old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]


def test_a_secret_of_a_known_type_has_what_belongs_to_it():
    assert problems(SECRET, named(type="kubernetes.io/tls", data={"tls.crt": ""})) == ["data[tls.key]: Required value"]
    assert problems(SECRET, named(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="})) == []
    assert problems(SECRET, named(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "eA=="})) == [
        'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": invalid JSON'
    ]


def test_the_type_of_a_secret_may_not_change():
    assert problems(SECRET, named(type="other"), named()) == ['type: Invalid value: "other": field is immutable']


def test_no_two_taints_of_a_node_have_the_same_key_and_effect():
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "x"}, {"key": "b"}]

    assert problems(NODE, a_node(taints=taints)) == [
        'spec.taints[1]: Duplicate value: "a:NoSchedule"',
        "spec.taints[2].effect: Required value",
    ]


def test_a_node_keeps_its_not_ready_taint_as_it_came():
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}

    assert stored(NODE, a_node(taints=[taint]))["spec"] == {"taints": [taint]}


def test_a_quota_counts_what_is_known():
    hard = {"pods": "5", "requests.cpu": "1", "count/jobs.batch": "3", "example.com/gpu": "1", "joy": "1"}

    assert problems(QUOTA, named(spec={"hard": hard})) == [
        'spec.hard[joy]: Invalid value: "joy": must be a standard resource type or fully qualified',
        'spec.hard[joy]: Invalid value: "joy": must be a standard resource for quota',
    ]
    assert problems(QUOTA, named(spec={"hard": {"pods": "-5"}})) == [
        'spec.hard[pods]: Invalid value: "-5": must be greater than or equal to 0'
    ]


def test_the_least_that_a_limit_range_allows_is_not_more_than_the_most():
    limits = [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]

    assert problems(LIMITS, named(spec={"limits": limits})) == [
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"ports": []}, ["spec.ports: Required value"]),
        ({"ports": [], "clusterIP": "None"}, []),
        (
            {"type": "Tunnel"},
            [
                'spec.type: Unsupported value: "Tunnel": supported values: "ClusterIP", "ExternalName", '
                '"LoadBalancer", "NodePort"'
            ],
        ),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"ports": [{"port": 80}, {"port": 81}]},
            ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        (
            {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]},
            ['spec.ports[1]: Duplicate value: "TCP/80"'],
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            {"ports": [{"port": 0, "targetPort": 1}]},
            ["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            {"clusterIP": "here"},
            [
                'spec.clusterIPs[0]: Invalid value: "here": '
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            ],
        ),
    ],
)
def test_a_service_is_looked_at(spec, expected):
    assert problems(SERVICE, a_service(**spec)) == expected


def test_a_service_keeps_the_address_that_a_client_leaves_out():
    old = stored(SERVICE, a_service(clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"]))

    assert stored(SERVICE, a_service(), old) == old
    assert problems(SERVICE, a_service(clusterIP="10.0.0.2"), a_service(clusterIP="10.0.0.1")) == [
        'spec.clusterIPs[0]: Invalid value: "10.0.0.2": may not change once set'
    ]


def test_a_service_that_changes_its_type_loses_what_the_new_one_may_not_have():
    balanced = stored(
        SERVICE,
        a_service(
            type="LoadBalancer",
            clusterIP="10.96.0.9",
            clusterIPs=["10.96.0.9"],
            ports=[{"port": 80, "nodePort": 30123}],
            healthCheckNodePort=30200,
        ),
    )
    spec = balanced["spec"]

    inside = stored(SERVICE, {**balanced, "spec": {**spec, "type": "ClusterIP"}}, balanced)["spec"]
    elsewhere = stored(SERVICE, {**balanced, "spec": {**spec, "type": "ExternalName"}}, balanced)["spec"]

    gone = {"externalTrafficPolicy", "allocateLoadBalancerNodePorts", "healthCheckNodePort"}
    assert spec.keys() - inside.keys() == gone
    assert "nodePort" not in inside["ports"][0]
    assert spec.keys() - elsewhere.keys() == gone | {
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "internalTrafficPolicy",
    }


def test_a_service_keeps_the_port_it_has_on_the_nodes():
    old = stored(SERVICE, a_service(type="NodePort", ports=[{"port": 80, "nodePort": 30123}]))

    assert stored(SERVICE, a_service(type="NodePort"), old)["spec"]["ports"][0]["nodePort"] == 30123


def test_endpoints_have_addresses_and_ports():
    subsets = [{"ports": [{"port": 80}]}, {"addresses": [{"ip": "x"}], "ports": [{"port": 0}]}]

    assert problems(ENDPOINTS, named(subsets=subsets)) == [
        "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
        'subsets[1].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        "subsets[1].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ]


def test_the_addresses_of_a_slice_are_of_its_type_which_stays():
    six = named(addressType="IPv6", endpoints=[{"addresses": ["10.0.0.1"]}])
    four = named(addressType="IPv4", endpoints=[{"addresses": ["10.0.0.1"]}])

    assert problems(SLICE, four) == []
    assert problems(SLICE, named()) == ["addressType: Required value"]
    assert problems(SLICE, six, four) == [
        'addressType: Invalid value: "IPv6": field is immutable',
        'endpoints[0].addresses[0]: Invalid value: "10.0.0.1": must be a valid IPv6 address',
    ]


def test_a_claim_says_how_and_how_much_and_then_no_longer_changes():
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    assert problems(CLAIM, named(spec=spec)) == []
    assert problems(CLAIM, named(spec={})) == [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
    ]
    assert problems(CLAIM, named(spec={**spec, "storageClassName": "fast"}), named(spec=spec)) == [
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
        "bound claims"
    ]
    assert problems(CLAIM, named(spec={**spec, "volumeName": "v"}), named(spec=spec)) == []
