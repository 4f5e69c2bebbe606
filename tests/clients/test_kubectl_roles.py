"""The real kubectl, over TLS, against a real server process: roles, bindings, and what users may do."""

import pytest

from tests.clients.kubectl import Kubectl
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]

POLICY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deployer, namespace: NAMESPACE}
rules:
- {apiGroups: [apps], resources: [deployments], verbs: [get, list, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}
"""


def may(kubectl: Kubectl, user: str, *asked: str) -> str:
    return kubectl.run(("auth", "can-i", *asked, f"--as={user}"), "", {}).stdout.strip()


def test_a_user_who_is_bound_to_view_may_look_and_no_more(kubectl):
    kubectl("create", "rolebinding", "viewers", "--clusterrole=view", "--user=vera")

    assert may(kubectl, "vera", "list", "pods") == "yes"
    assert may(kubectl, "vera", "get", "pods", "--subresource=log") == "yes"
    assert may(kubectl, "vera", "get", "secrets") == "no"
    assert may(kubectl, "vera", "create", "deployments.apps") == "no"
    assert may(kubectl, "vera", "list", "pods", "--all-namespaces") == "no"
    assert may(kubectl, "vera", "get", "/version") == "yes"
    assert may(kubectl, "vera", "get", "/metrics") == "no"
    assert kubectl("get", "pods", "--as=vera") == ""
    assert kubectl.refused("get", "secrets", "--as=vera") == (
        'Error from server (Forbidden): secrets is forbidden: User "vera" cannot list resource "secrets"'
        f' in API group "" in the namespace "{kubectl.namespace}"'
    )


def test_what_a_user_may_do_is_listed(kubectl):
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=rita")

    lines = [line.split() for line in kubectl("auth", "can-i", "--list", "--as=rita").splitlines()]

    assert ["pods", "[]", "[]", "[get", "list]"] in lines
    assert ["pods/log", "[]", "[]", "[get", "list]"] in lines
    assert ["selfsubjectreviews.authentication.k8s.io", "[]", "[]", "[create]"] in lines
    assert ["[/version]", "[]", "[get]"] in lines


def test_roles_are_reconciled(kubectl):
    policy = POLICY.replace("NAMESPACE", kubectl.namespace)
    first = kubectl("auth", "reconcile", "-f", "-", stdin=policy)
    more = policy.replace("[get, list, create]", "[delete]").replace("name: dora", "name: dirk")
    kubectl("auth", "reconcile", "-f", "-", stdin=more)

    assert "role.rbac.authorization.k8s.io/deployer reconciled" in first
    for user in ("dora", "dirk"):
        assert may(kubectl, user, "create", "deployments.apps") == "yes"
        assert may(kubectl, user, "delete", "deployments.apps") == "yes"
    assert may(kubectl, "dora", "delete", "pods") == "no"


def test_a_user_cannot_grant_what_they_do_not_have(kubectl):
    kubectl("create", "rolebinding", "admins", "--clusterrole=admin", "--user=anna")
    kubectl("create", "rolebinding", "mine", "--clusterrole=edit", "--user=eric", "--as=anna")

    refused = kubectl.refused("create", "role", "nodes", "--verb=get", "--resource=nodes", "--as=anna")

    assert refused.startswith(
        'Error from server (Forbidden): roles.rbac.authorization.k8s.io "nodes" is forbidden: user "anna"'
    )
    assert "is attempting to grant RBAC permissions not currently held" in refused
    assert may(kubectl, "eric", "create", "pods") == "yes"
