"""Whether a node takes a pod that was bound to it."""

from typing import Any

import pytest

from mainstay.agent.pod.admit import admit
from mainstay.agent.pod.facts import PodRefused
from mainstay.api.kind import Object
from tests.api.builders import a_container, a_pod

AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def a_node(labels: dict[str, str] | None = None, **spec: Any) -> Object:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "3", "ephemeral-storage": "10Gi", "example.org/gpu": "2"}
    return {
        "metadata": {"name": "n", "labels": {"zone": "a", **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def asking(name: str = "p", *, phase: str = "Running", **requests: str) -> Object:
    resources = {each.replace("__", "/").replace("_", "."): amount for each, amount in requests.items()}
    container = a_container(resources={"requests": resources})
    return {**a_pod(name, containers=[container]), "status": {"phase": phase}}


def with_port(port: int, **fields: Any) -> Object:
    return a_pod(containers=[a_container(ports=[{"containerPort": 80, "hostPort": port, "protocol": "TCP", **fields}])])


def test_a_pod_that_fits_is_taken():
    assert admit(asking(cpu="3", memory="8Gi"), [asking(cpu="1")], a_node()) is None


@pytest.mark.parametrize(
    ("requests", "reason", "said"),
    [
        ({"cpu": "3500m"}, "OutOfcpu", "cpu, requested: 3500, used: 1000, capacity: 4000"),
        ({"memory": "9Gi"}, "OutOfmemory", f"memory, requested: {9 << 30}, used: 0, capacity: {8 << 30}"),
        ({"example_org__gpu": "3"}, "OutOfexample.org/gpu", "example.org/gpu, requested: 3, used: 0, capacity: 2"),
        # The first that is missing is told, in the kubelet's order.
        ({"cpu": "9", "memory": "9Gi"}, "OutOfcpu", "cpu, requested: 9000, used: 1000, capacity: 4000"),
    ],
)
def test_a_pod_for_which_there_is_no_room_is_refused(requests: dict[str, str], reason: str, said: str):
    found = admit(asking(**requests), [asking("other", cpu="1")], a_node())

    assert found == PodRefused(reason, f"Node didn't have enough resource: {said}")


def test_a_node_takes_only_so_many_pods_and_those_that_are_over_do_not_count():
    three = [asking("a"), asking("b"), asking("c")]

    refused = admit(asking(), three, a_node())

    assert refused == PodRefused(
        "OutOfpods", "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    )
    assert admit(asking(), [*three[:2], asking("c", phase="Succeeded")], a_node()) is None


def test_a_resource_that_the_node_does_not_know_is_not_its_business():
    assert admit(asking(example_org__fpga="1"), [], a_node()) is None


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"zone": "a"}}, None),
        ({"nodeSelector": {"zone": "b"}}, "NodeAffinity"),
        ({"nodeName": "n"}, None),
        ({"nodeName": "m"}, "NodeName"),
        ({"os": {"name": "linux"}}, None),
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
    ],
)
def test_a_pod_that_does_not_belong_here_is_refused(spec: Object, reason: str | None):
    found = admit(a_pod(**spec), [], a_node())

    assert (found and found.reason) == reason


def test_required_node_affinity_must_match():
    def wanting(zone: str) -> Object:
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return a_pod(affinity={"nodeAffinity": {AFFINITY: term}})

    assert admit(wanting("a"), [], a_node()) is None
    assert admit(wanting("b"), [], a_node()) == PodRefused(
        "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )


def test_only_taints_that_would_end_it_keep_a_pod_out():
    tainted = a_node(taints=[{"key": "gone", "effect": "NoExecute"}, {"key": "full", "effect": "NoSchedule"}])

    assert admit(a_pod(), [], tainted) == PodRefused(
        "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    )
    assert admit(a_pod(tolerations=[{"key": "gone", "operator": "Exists"}]), [], tainted) is None


def test_a_port_of_the_machine_is_taken_once():
    assert admit(with_port(80), [with_port(81)], a_node()) is None
    assert admit(with_port(80), [with_port(80, protocol="UDP")], a_node()) is None
    assert admit(with_port(80), [with_port(80, hostIP="10.0.0.1")], a_node()) == PodRefused(
        "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    )


def test_a_pod_with_a_host_port_is_refused_where_pods_have_a_network_of_their_own():
    pod = with_port(8080)
    assert admit(pod, [], a_node()) is None
    refused = admit(pod, [], a_node(), has_pod_network=True)
    assert refused is not None
    assert refused.reason == "HostPortNotSupported"
    assert "hostPort 8080" in refused.message
    pod["spec"]["hostNetwork"] = True
    assert admit(pod, [], a_node(), has_pod_network=True) is None
