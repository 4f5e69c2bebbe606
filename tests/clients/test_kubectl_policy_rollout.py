"""A PolicyRollout on real processes, used with the real kubectl: applied, watched through its gates, aborted."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.clients.kubectl import Kubectl, a_pod
from tests.clients.server_process import ServerProcess
from tests.clients.test_kubectl_rollout import WITHIN, component

pytestmark = pytest.mark.slow

PODS_EACH = 12
"""Each is a workload of its own: enough that both sides of a half have two, whichever hash decides."""
POLICIES = """
apiVersion: mainstay.dev/v1
kind: PlacementPolicy
metadata: {name: v5}
spec: {policyVersion: v5, active: true, scope: {namespaces: [default]}, scores: {LeastAllocated: 1}}
---
apiVersion: mainstay.dev/v1
kind: PlacementPolicy
metadata: {name: v6}
spec: {policyVersion: v6, scope: {namespaces: [default]}, scores: {MostAllocated: 5}}
"""
STAGES = [
    {"name": "shadow", "shadowPercent": 100, "holdSeconds": 1},
    {"name": "canary", "percent": 50, "holdSeconds": 1},
    {"name": "all", "percent": 100, "holdSeconds": 1},
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kubectl]:
    nodes = ("--runner=pretend", "--count=2", "--name=node", "--start-delay=50ms", "--stop-delay=50ms")
    with ServerProcess() as server, ExitStack() as stack:
        stack.enter_context(component(server, "controllers", "--only=policy-rollout"))
        stack.enter_context(component(server, "scheduler"))
        stack.enter_context(component(server, "agent", *nodes))
        yield Kubectl(server, "default")


def a_rollout(name: str, **spec: Any) -> str:
    gate = {"minSamples": 2, "boundWithinSeconds": 20}
    body = {"policy": "v6", "stages": STAGES, "gate": gate, **spec}
    return json.dumps(
        {"apiVersion": "mainstay.dev/v1", "kind": "PolicyRollout", "metadata": {"name": name}, "spec": body}
    )


def create_pods(kubectl: Kubectl, turn: str) -> None:
    pods = [json.loads(a_pod(f"{turn}-{number}")) for number in range(PODS_EACH)]
    kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))


def wait_for(kubectl: Kubectl, path: str, value: str) -> None:
    kubectl("wait", f"--for=jsonpath={{{path}}}={value}", "policyrollout/v6", WITHIN)


def read_policies(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    items = kubectl.json("get", "placementpolicies")["items"]
    return {
        each["metadata"]["name"]: {
            name: each["spec"][name] for name in ("active", "limit", "shadow") if name in each["spec"]
        }
        for each in items
    }


def test_a_policy_is_rolled_out_through_its_gates_and_back_by_hand(cluster):
    kubectl = cluster
    kubectl("apply", "-f", "-", stdin=POLICIES)
    kubectl("apply", "-f", "-", stdin=a_rollout("v6"))

    # The gate of each stage waits for what it needs, by name, and passes once there are pods to compare.
    wait_for(kubectl, ".status.reason", "TooFewSamples")
    assert kubectl.json("get", "policyrollout", "v6")["status"]["stage"] == "shadow"
    create_pods(kubectl, "shadowed")
    wait_for(kubectl, ".status.stage", "canary")
    wait_for(kubectl, ".status.reason", "TooFewSamples")
    assert kubectl.table("get", "policyrollouts") == [
        {"NAME": "v6", "POLICY": "v6", "STAGE": "canary", "GATE": "TooFewSamples"}
    ]
    kubectl("wait", "--for=condition=Fresh", "policyrollout/v6", WITHIN)
    assert read_policies(kubectl) == {"v5": {"active": True}, "v6": {"active": True, "limit": {"percent": 50}}}
    create_pods(kubectl, "canary")
    wait_for(kubectl, ".status.stage", "all")
    compared = kubectl.json("get", "policyrollout", "v6")["status"]["reference"]
    assert 2 <= compared["pods"] < PODS_EACH

    # Paused, nothing changes. Aborted, the previous policy is alone again, and the reason stays readable.
    wait_for(kubectl, ".status.activation.stage", "all")
    kubectl("patch", "policyrollout", "v6", "--type=merge", "-p", '{"spec": {"paused": true}}')
    wait_for(kubectl, ".status.reason", "Paused")
    kubectl("patch", "policyrollout", "v6", "--type=merge", "-p", '{"spec": {"paused": false, "aborted": true}}')
    kubectl("wait", "--for=condition=RolledBack", "policyrollout/v6", WITHIN)
    assert read_policies(kubectl) == {"v5": {"active": True}, "v6": {"active": False}}
    assert "PlacementPolicy v5 is in force as before (Aborted: aborted by spec.aborted)" in kubectl(
        "describe", "policyrollout", "v6"
    )
    assert len(kubectl.table("get", "pods")) == 2 * PODS_EACH


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"stages": [STAGES[0], STAGES[1]]}, "spec.stages: Invalid value: 2: the last stage must have percent 100"),
        ({"stages": [STAGES[1], STAGES[0], STAGES[2]]}, "spec.stages[1].shadowPercent: Forbidden"),
        ({"freshnessSeconds": 5}, "spec.freshnessSeconds: Invalid value: 5"),
        ({"previous": "v6"}, 'spec.previous: Invalid value: "v6": must differ from spec.policy'),
        ({"steps": [10]}, "spec.steps: Forbidden: unknown field"),
    ],
)
def test_a_rollout_that_cannot_work_is_refused_with_the_field(cluster, spec, message):
    refused = cluster.refused("create", "-f", "-", stdin=a_rollout("odd", **spec))

    assert message in refused
    assert "odd" not in cluster("get", "policyrollouts", "-o", "name")
