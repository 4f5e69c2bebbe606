"""A container finds in its environment what Kubernetes says it does, with references resolved."""

from base64 import b64encode
from typing import Any

import pytest

from mainstay.agent.pod.downward import Surroundings
from mainstay.agent.pod.environment import (
    CONFIG_ERROR,
    CONFIG_MAP,
    SECRET,
    Environment,
    Missing,
    Need,
    build_environment,
    expanded,
    find_needs,
)
from tests.api.builders import a_container, a_pod

Object = dict[str, Any]

HERE = Surroundings(
    node_name="node-1",
    address="127.64.0.7",
    host_address="192.0.2.10",
    allocatable={"cpu": "3500m", "memory": "8Gi", "ephemeral-storage": "100Gi"},
)
GIVEN = {"POD_IP", "POD_NAME", "POD_NAMESPACE", "NODE_NAME", "PATH", "HOME", "HOSTNAME"}
SOURCES = {
    (CONFIG_MAP, "settings"): {"metadata": {"name": "settings"}, "data": {"colour": "blue", "log.level": "debug"}},
    (SECRET, "keys"): {"metadata": {"name": "keys"}, "data": {"token": b64encode(b"t0p").decode()}},
    (SECRET, "blob"): {"metadata": {"name": "blob"}, "data": {"bytes": b64encode(b"\xff\xfe").decode()}},
    (SECRET, "zero"): {"metadata": {"name": "zero"}, "data": {"bytes": b64encode(b"a\0b").decode()}},
}


def resolved(*, facts: Surroundings = HERE, pod: Object | None = None, **container: Any) -> dict[str, str] | Missing:
    """The environment of a container, without what all have."""
    asked = a_container(**container)
    found = build_environment(pod or a_pod(containers=[asked]), asked, SOURCES, facts)
    if isinstance(found, Missing):
        return found
    return {name: value for name, value in found.pairs if name not in GIVEN}


def values(*variables: tuple[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in variables]


def from_map(name: str, key: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {"configMapKeyRef": {"name": name, "key": key, **more}}}


def from_secret(name: str, key: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}


def from_field(path: str) -> Object:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def from_resource(resource: str, **more: Any) -> Object:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("plain", "plain"),
        ("$(A)", "one"),
        ("$(A)$(B)-$(A)", "onetwo-one"),
        ("$(NOT)", "$(NOT)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$$$$(A)", "$$(A)"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("costs 5$", "costs 5$"),
        ("$$", "$"),
        ("$(A", "$(A"),
        ("$(A $(B)", "$(A $(B)"),
        ("$($(A))", "$($(A))"),
        ("$()", "$()"),
        ("$é$(A)", "$éone"),
    ],
)
def test_a_reference_is_replaced_once_and_anything_else_stays(text: str, becomes: str) -> None:
    assert expanded(text, {"A": "one", "B": "two"}) == becomes


def test_a_value_that_looks_like_a_reference_is_not_replaced_again() -> None:
    assert expanded("$(A)", {"A": "$(B)", "B": "no"}) == "$(B)"


def test_every_container_is_told_who_and_where_it_is() -> None:
    facts = Surroundings(node_name="n", address="127.64.0.7", service_host="127.0.0.1", service_port=6443)
    found = build_environment(a_pod("web", namespace="shop"), a_container(), {}, facts)
    assert isinstance(found, Environment)
    assert dict(found.pairs) == {
        "POD_IP": "127.64.0.7",
        "POD_NAME": "web",
        "POD_NAMESPACE": "shop",
        "NODE_NAME": "n",
        "HOSTNAME": "web",
        "HOME": "/",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
        "KUBERNETES_PORT": "tcp://127.0.0.1:6443",
        "KUBERNETES_PORT_6443_TCP": "tcp://127.0.0.1:6443",
        "KUBERNETES_PORT_6443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_6443_TCP_PORT": "6443",
        "KUBERNETES_PORT_6443_TCP_ADDR": "127.0.0.1",
    }


def test_what_the_container_says_wins_over_what_all_are_told() -> None:
    found = build_environment(a_pod(), a_container(env=values(("POD_IP", "mine"), ("PATH", "/opt"))), {}, HERE)
    assert isinstance(found, Environment)
    assert dict(found.pairs)["POD_IP"] == "mine"
    assert dict(found.pairs)["PATH"] == "/opt"


def test_a_variable_sees_only_those_before_it() -> None:
    env = values(("FIRST", "$(SECOND)"), ("SECOND", "2"), ("THIRD", "$(SECOND)"), ("SECOND", "$(SECOND)2"))
    assert resolved(env=env) == {"FIRST": "$(SECOND)", "SECOND": "22", "THIRD": "2"}


def test_a_variable_may_refer_to_the_address_but_not_to_what_the_machine_sets() -> None:
    env = values(("URL", "http://$(POD_IP)"), ("OWN", "$(PATH)"))
    assert resolved(env=env) == {"URL": "http://127.64.0.7", "OWN": "$(PATH)"}


def test_whole_sources_come_first_and_later_ones_win() -> None:
    env_from = [
        {"configMapRef": {"name": "settings"}},
        {"configMapRef": {"name": "settings"}, "prefix": "APP_"},
        {"secretRef": {"name": "keys"}},
        {"secretRef": {"name": "none", "optional": True}},
    ]
    found = resolved(envFrom=env_from, env=values(("colour", "red"), ("SHOWN", "$(APP_colour)")))
    assert found == {
        "colour": "red",
        "log.level": "debug",
        "APP_colour": "blue",
        "APP_log.level": "debug",
        "token": "t0p",
        "SHOWN": "blue",
    }


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (from_map("settings", "colour"), "blue"),
        (from_secret("keys", "token"), "t0p"),
        (from_field("metadata.name"), "web"),
        (from_field("metadata.namespace"), "shop"),
        (from_field("metadata.uid"), "u-1"),
        (from_field("metadata.labels['app']"), "web"),
        (from_field("metadata.labels['none']"), ""),
        (from_field("metadata.annotations['example.com/note']"), "it's [x]"),
        (from_field("spec.nodeName"), "node-1"),
        (from_field("spec.serviceAccountName"), "runner"),
        (from_field("status.hostIP"), "192.0.2.10"),
        (from_field("status.hostIPs"), "192.0.2.10"),
        (from_field("status.podIP"), "127.64.0.7"),
        (from_field("status.podIPs"), "127.64.0.7"),
    ],
)
def test_a_variable_comes_from_elsewhere(variable: Object, value: str) -> None:
    pod = a_pod("web", namespace="shop", serviceAccountName="runner")
    pod["metadata"] |= {"uid": "u-1", "labels": {"app": "web"}, "annotations": {"example.com/note": "it's [x]"}}
    assert resolved(pod=pod, env=[variable]) == {"X": value}


LIMITED = {"limits": {"cpu": "1500m", "memory": "100Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}


@pytest.mark.parametrize(
    ("resource", "divisor", "resources", "value"),
    [
        ("limits.cpu", None, LIMITED, "2"),  # Rounded up.
        ("limits.cpu", "0", LIMITED, "2"),  # As the API fills it in.
        ("limits.cpu", "1m", LIMITED, "1500"),
        ("requests.cpu", "1m", LIMITED, "250"),
        ("requests.cpu", "100m", LIMITED, "3"),
        ("limits.memory", None, LIMITED, str(100 * 1024**2)),
        ("limits.memory", "1Mi", LIMITED, "100"),
        ("limits.memory", "1Gi", LIMITED, "1"),
        ("requests.memory", "1Mi", LIMITED, "64"),
        ("limits.cpu", None, {}, "4"),  # The node's, rounded up.
        ("limits.cpu", "1m", {}, "3500"),
        ("limits.memory", "1Gi", {"limits": {"memory": "0"}}, "8"),
        ("limits.ephemeral-storage", "1Gi", {}, "100"),
        ("requests.cpu", None, {}, "0"),
        ("limits.hugepages-2Mi", None, {"limits": {"hugepages-2Mi": "4Mi"}}, str(4 * 1024**2)),
    ],
)
def test_a_variable_counts_a_resource(resource: str, divisor: str | None, resources: Object, value: str) -> None:
    variable = from_resource(resource, **({"divisor": divisor} if divisor else {}))
    assert resolved(env=[variable], resources=resources) == {"X": value}


def test_a_resource_of_another_container_may_be_named_and_a_pod_has_limits_too() -> None:
    pod = a_pod(containers=[a_container("other", resources=LIMITED)], resources={"limits": {"cpu": "3"}})
    assert resolved(pod=pod, env=[from_resource("limits.memory", containerName="other", divisor="1Mi")]) == {"X": "100"}
    assert resolved(pod=pod, env=[from_resource("limits.cpu")]) == {"X": "3"}


@pytest.mark.parametrize(
    ("fields", "message", "missing"),
    [
        ({"env": [from_map("none", "k")]}, 'configmap "none" not found', "ConfigMap/none"),
        ({"env": [from_secret("none", "k")]}, 'secret "none" not found', "Secret/none"),
        ({"envFrom": [{"configMapRef": {"name": "none"}}]}, 'configmap "none" not found', "ConfigMap/none"),
        ({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found', "Secret/none"),
        (
            {"env": [from_map("settings", "no")]},
            "couldn't find key no in ConfigMap default/settings",
            "ConfigMap/settings/no",
        ),
        ({"env": [from_secret("keys", "no")]}, "couldn't find key no in Secret default/keys", "Secret/keys/no"),
        ({"env": [from_field("status.phase")]}, "unsupported fieldPath: status.phase", ""),
        ({"env": [from_resource("limits.gpu")]}, "unsupported container resource : limits.gpu", ""),
        ({"env": [from_resource("limits.cpu", containerName="no")]}, "container no not found", ""),
        ({"env": [from_secret("blob", "bytes")]}, "not UTF-8", ""),
        ({"env": [from_secret("zero", "bytes")]}, "environment variable X contains a NUL byte", ""),
    ],
)
def test_what_is_missing_is_named_in_the_words_of_the_kubelet_and_for_programs(
    fields: Object, message: str, missing: str
) -> None:
    found = resolved(**fields)
    assert isinstance(found, Missing)
    assert (found.reason, found.missing) == (CONFIG_ERROR, missing)
    assert message in found.message


@pytest.mark.parametrize(
    "variable",
    [
        from_map("none", "k", optional=True),
        from_map("settings", "no", optional=True),
        from_secret("none", "k", optional=True),
        from_secret("keys", "no", optional=True),
    ],
)
def test_what_is_optional_and_missing_is_left_out(variable: Object) -> None:
    assert resolved(env=[variable, *values(("Y", "$(X)"))]) == {"Y": "$(X)"}


def test_a_long_pod_name_is_cut_to_a_host_name() -> None:
    found = build_environment(a_pod("a" * 62 + "-" + "b" * 20), a_container(), {}, HERE)
    assert isinstance(found, Environment)
    assert dict(found.pairs)["HOSTNAME"] == "a" * 62
    named = build_environment(a_pod("web", hostname="www"), a_container(), {}, HERE)
    assert isinstance(named, Environment)
    assert dict(named.pairs)["HOSTNAME"] == "www"


def test_a_pod_needs_what_any_part_of_it_refers_to_and_optional_only_if_all_say_so() -> None:
    pod = a_pod(
        containers=[
            a_container(env=[from_map("a", "k", optional=True), from_secret("s", "k")]),
            a_container("d", envFrom=[{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "t", "optional": True}}]),
        ],
        initContainers=[a_container("i", env=[from_map("b", "k", optional=True)])],
        volumes=[
            {"name": "v", "secret": {"secretName": "u"}},
            {"name": "w", "projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "t"}}]}},
            {"name": "x", "emptyDir": {}},
        ],
    )
    assert find_needs(pod) == [
        Need(CONFIG_MAP, "a", False),
        Need(CONFIG_MAP, "b", True),
        Need(CONFIG_MAP, "c", False),
        Need(SECRET, "s", False),
        Need(SECRET, "t", False),
        Need(SECRET, "u", False),
    ]
