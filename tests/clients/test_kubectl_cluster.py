"""The real kubectl, over TLS, against a real server process: nodes, who one is, and what there is."""

import json
import re

import pytest

from tests.clients.kubectl import a_pod, lines_until
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


# Nodes.


def test_a_node_is_cordoned_and_tainted(kubectl, node):
    row = {"NAME": node, "STATUS": "Ready", "ROLES": "<none>", "VERSION": ""}
    assert kubectl.table("get", "node", node) == [row]

    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert kubectl.table("get", "node", node) == [row | {"STATUS": "Ready,SchedulingDisabled"}]
    assert kubectl("cordon", node) == f"node/{node} already cordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"

    before = kubectl.json("get", "node", node)["spec"]["taints"]
    kubectl("taint", "node", node, "dedicated=gpu:NoSchedule")
    added = {"effect": "NoSchedule", "key": "dedicated", "value": "gpu"}
    assert added in kubectl.json("get", "node", node)["spec"]["taints"]
    kubectl("taint", "node", node, "dedicated-")
    assert kubectl.json("get", "node", node)["spec"]["taints"] == before


def test_drain_evicts_the_pods_of_a_node(kubectl, node):
    for name in ("one", "two"):
        kubectl("create", "-f", "-", stdin=a_pod(name, nodeName=node))
    kubectl("create", "-f", "-", stdin=a_pod("elsewhere"))

    assert "cannot delete" in kubectl.refused("drain", node)
    said = kubectl("drain", node, "--force", "--grace-period=0")

    assert sorted(line for line in said.splitlines() if line.endswith("evicted")) == [
        "pod/one evicted",
        "pod/two evicted",
    ]
    assert kubectl("get", "pods", "-o", "name") == "pod/elsewhere\n"
    assert kubectl.json("get", "node", node)["spec"]["unschedulable"] is True


def test_drain_is_held_up_by_a_disruption_budget(kubectl, node):
    kubectl("create", "poddisruptionbudget", "budget", "--selector=app=web", "--min-available=1")
    kubectl("create", "-f", "-", stdin=a_pod("one", {"app": "web"}, nodeName=node))
    running = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "pod", "one", "--subresource=status", "-p", running)

    with kubectl.running("drain", node, "--force", "--grace-period=0") as draining:
        lines_until(draining, "Cannot evict pod as it would violate the pod's disruption budget.")
    assert kubectl("get", "pods", "-o", "name") == "pod/one\n"

    kubectl("delete", "poddisruptionbudget", "budget")
    kubectl("drain", node, "--force", "--grace-period=0")
    assert kubectl("get", "pods", "-o", "name") == ""


# Who one is, and what there is.


def test_the_kubeconfig_has_full_access(kubectl):
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl("auth", "can-i", "get", "pods", "--subresource=log") == "yes\n"
    assert kubectl("auth", "can-i", "*", "*", "--all-namespaces") == "yes\n"
    assert re.search(r"^\*\.\* +\[\] +\[\] +\[\*\]$", kubectl("auth", "can-i", "--list"), re.MULTILINE)
    assert kubectl.table("auth", "whoami") == [
        {"ATTRIBUTE": "Username", "VALUE": "kubernetes-admin"},
        {"ATTRIBUTE": "Groups", "VALUE": "[system:masters system:authenticated]"},
    ]


def test_one_who_is_impersonated_may_what_they_may(kubectl):
    assert kubectl.run(("auth", "can-i", "create", "pods", "--as=alice"), "", {}).stdout == "no\n"
    assert kubectl.refused("get", "pods", "--as=alice") == (
        'Error from server (Forbidden): pods is forbidden: User "alice" cannot list resource "pods" in API group "" '
        f'in the namespace "{kubectl.namespace}"'
    )
    assert kubectl("get", "pods", "-o", "name", "--as=alice", "--as-group=system:masters") == ""


def test_a_token_is_made_for_a_service_account_and_names_it(kubectl):
    kubectl("create", "serviceaccount", "robot")
    token = kubectl("create", "token", "robot", "--duration=10m").strip()

    authority = kubectl.server.data_dir / "ca.crt"
    by_token = ("--kubeconfig=/dev/null", f"--server={kubectl.server.url}", f"--certificate-authority={authority}")
    rows = kubectl.table(*by_token, f"--token={token}", "auth", "whoami")
    assert {row["ATTRIBUTE"]: row["VALUE"] for row in rows if row["ATTRIBUTE"] in ("Username", "Groups")} == {
        "Username": f"system:serviceaccount:{kubectl.namespace}:robot",
        "Groups": f"[system:serviceaccounts system:serviceaccounts:{kubectl.namespace} system:authenticated]",
    }
    kubectl("delete", "serviceaccount", "robot")
    assert "You must be logged in" in kubectl.refused(*by_token, f"--token={token}", "get", "pods")


def test_a_token_is_bound_to_a_pod(kubectl):
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "-f", "-", stdin=a_pod("one", serviceAccountName="robot"))

    bound = kubectl("create", "token", "robot", "--bound-object-kind=Pod", "--bound-object-name=one").strip()

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": bound}}
    answer = json.loads(kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(review)))
    assert answer["status"]["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["one"]
    assert kubectl.refused("create", "token", "robot", "--duration=1m") == (
        'error: failed to create token: TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds:'
        " Invalid value: 60: may not specify a duration less than 10 minutes"
    )


def test_discovery_names_what_is_served(kubectl):
    rows = kubectl.table("api-resources")
    assert {
        "NAME": "deployments",
        "SHORTNAMES": "deploy",
        "APIVERSION": "apps/v1",
        "NAMESPACED": "true",
        "KIND": "Deployment",
    } in rows
    cluster_wide = kubectl("api-resources", "--namespaced=false", "--verbs=list,watch", "-o", "name").split()
    assert {"nodes", "priorityclasses.scheduling.k8s.io"} <= set(cluster_wide)
    assert {"v1", "apps/v1", "mainstay.dev/v1"} <= set(kubectl("api-versions").split())
    server = json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    assert re.fullmatch(r"v1\.\d+\.\d+", server["gitVersion"])
    assert f"is running at {kubectl.server.url}\n" in re.sub("\x1b\\[[0-9;]*m", "", kubectl("cluster-info"))
