"""The real kubectl deletes workloads in all three ways, and namespaces, with real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT, Kubectl
from tests.clients.server_process import ServerProcess, unique_name
from tests.processes import eventually
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """A server, and the controllers."""
    with ServerProcess() as server:
        log = server.home / "controllers.log"
        command = [sys.executable, "-m", "mainstay.cli.main", "controllers", f"--kubeconfig={server.kubeconfig}"]
        only = "--only=deployment,replicaset,serviceaccount,root-ca,namespace,owner-cleanup"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                [*command, only], env={**server.environment, "PYTHONPATH": os.getcwd()}, stdout=output, stderr=output
            ) as controllers,
        ):
            try:
                yield server
            finally:
                controllers.terminate()
                controllers.wait(20)


@pytest.fixture
def kubectl(server: ServerProcess) -> Kubectl:
    name = unique_name("team")
    kubectl = Kubectl(server, name)
    kubectl("create", "namespace", name)
    return kubectl


def names(kubectl: Kubectl, what: str) -> list[str]:
    return [each["metadata"]["name"] for each in kubectl.json("get", what)["items"]]


def roll_out(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    eventually(lambda: len(names(kubectl, "pods")) == 2)


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_a_deployment_takes_its_pods_with_it(kubectl: Kubectl, cascade: str):
    roll_out(kubectl)
    kubectl("delete", "deployment", "web", f"--cascade={cascade}")
    if cascade == "foreground":  # kubectl has waited for it, and it for all that is its.
        assert names(kubectl, "replicasets,pods") == []
    eventually(lambda: names(kubectl, "replicasets,pods") == [])


def test_an_orphaned_set_stays_with_its_pods_and_is_taken_over_again(kubectl: Kubectl):
    roll_out(kubectl)
    before = names(kubectl, "replicasets,pods")
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    (left,) = kubectl.json("get", "replicasets")["items"]
    assert not left["metadata"].get("ownerReferences")
    assert names(kubectl, "replicasets,pods") == before
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    eventually(lambda: kubectl.json("get", "replicasets")["items"][0]["metadata"].get("ownerReferences"))
    assert names(kubectl, "replicasets,pods") == before


def test_a_namespace_goes_with_all_that_is_in_it(kubectl: Kubectl):
    eventually(lambda: names(kubectl, "serviceaccounts") == ["default"])
    (authorities,) = kubectl.json("get", "configmaps")["items"]
    assert authorities["metadata"]["name"] == "kube-root-ca.crt"
    assert authorities["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    roll_out(kubectl)
    kubectl("apply", "-f", "-", stdin=CONFIGMAP)
    held = {"metadata": {"finalizers": ["example.dev/hold"]}}
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", json.dumps(held))
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")

    def waits_for() -> str:
        found = kubectl.json("get", "namespace", kubectl.namespace)["status"].get("conditions") or ()
        return next((each["message"] for each in found if each["type"] == "NamespaceFinalizersRemaining"), "")

    eventually(lambda: waits_for() == "Some content in the namespace has finalizers remaining: example.dev/hold (1)")
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", f"namespace/{kubectl.namespace}", "--timeout=25s")
    assert "NotFound" in kubectl.refused("get", "namespace", kubectl.namespace)
