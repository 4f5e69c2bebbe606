"""How kinds and objects are named."""

from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.api.object_key import ObjectKey

PODS = KindName("", "v1", "Pod", "pods", True)
DEPLOYMENTS = KindName("apps", "v1", "Deployment", "deployments", True)
NODES = KindName("", "v1", "Node", "nodes", False)


def test_addresses():
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("default") == "/api/v1/namespaces/default/pods"
    assert PODS.path("default", "one", "status") == "/api/v1/namespaces/default/pods/one/status"
    assert DEPLOYMENTS.path("a", "b") == "/apis/apps/v1/namespaces/a/deployments/b"
    assert NODES.path("ignored", "n1") == "/api/v1/nodes/n1"


def test_a_name_cannot_leave_its_place_in_an_address():
    assert PODS.path("a/b", "../x?y=z%2f") == "/api/v1/namespaces/a%2Fb/pods/..%2Fx%3Fy%3Dz%252f"


def test_how_a_kind_is_called():
    assert (PODS.text, str(DEPLOYMENTS)) == ("pods", "deployments.apps")
    assert (PODS.group_version, DEPLOYMENTS.group_version) == ("v1", "apps/v1")


def test_the_kinds_that_are_served_have_such_names():
    kinds = {kind.reference.text: kind.reference for kind in BUILTIN}

    assert (kinds["pods"], kinds["deployments.apps"], kinds["nodes"]) == (PODS, DEPLOYMENTS, NODES)


def test_keys_of_objects_are_sorted_and_shown_by_namespace_and_name():
    keys = [ObjectKey("b", "a"), ObjectKey("a", "b"), ObjectKey("", "node")]

    assert [str(key) for key in sorted(keys)] == ["node", "a/b", "b/a"]
