"""The real kubectl, over TLS, against a real server process: what it says when something is refused."""

import pytest

from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT, a_pod
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


def test_what_is_not_there_is_named(kubectl):
    assert kubectl.refused("get", "pod", "gone") == 'Error from server (NotFound): pods "gone" not found'
    assert kubectl.refused("get", "gizmos") == 'error: the server doesn\'t have a resource type "gizmos"'
    assert kubectl.refused("get", "--raw", "/nowhere") == (
        "Error from server (NotFound): the server could not find the requested resource"
    )
    assert kubectl.refused("create", "configmap", "x", "--namespace=gone") == (
        'error: failed to create configmap: namespaces "gone" not found'
    )
    assert kubectl("get", "pods", "--namespace=gone") == ""


def test_what_is_there_already_is_named(kubectl):
    kubectl("create", "configmap", "settings")

    assert kubectl.refused("create", "configmap", "settings") == (
        'error: failed to create configmap: configmaps "settings" already exists'
    )


def test_an_invalid_object_is_refused_with_the_field(kubectl):
    assert kubectl.refused("create", "-f", "-", stdin=a_pod("one", containers=[])) == (
        'The Pod "one" is invalid: spec.containers: Required value'
    )
    assert kubectl.refused("create", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: -1")) == (
        'The Deployment "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )
    assert kubectl.refused("create", "deployment", "Web_1", "--image=x").startswith(
        'error: failed to create deployment: Deployment.apps "Web_1" is invalid: metadata.name: Invalid value: "Web_1"'
    )
    kubectl("create", "-f", "-", stdin=a_pod("one"))
    assert kubectl.refused("patch", "pod", "one", "-p", '{"spec":{"restartPolicy":"Never"}}').startswith(
        'The Pod "one" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )


def test_a_misspelt_field_is_refused_or_warned_about(kubectl):
    misspelt = CONFIGMAP.replace("\ndata", "\ndta")

    assert kubectl.refused("create", "-f", "-", stdin=misspelt) == (
        'Error from server (BadRequest): error when creating "STDIN": ConfigMap in version "v1" cannot be handled '
        'as a ConfigMap: strict decoding error: unknown field "dta"'
    )
    done = kubectl.run(("create", "-f", "-", "--validate=warn"), misspelt, {})
    assert (done.returncode, done.stderr) == (0, 'Warning: unknown field "dta"\n')


def test_logs_of_a_pod_without_a_node_are_refused(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("one"))

    assert kubectl.refused("logs", "one") == ("Error from server (BadRequest): pod one does not have a host assigned")
