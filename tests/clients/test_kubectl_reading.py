"""The real kubectl, over TLS, against a real server process: getting, watching, waiting and describing."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT, LIMIT_S, SERVICE, a_pod, lines_until
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


# Get.


def test_get_prints_the_columns_of_each_kind(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl("create", "-f", "-", stdin=a_pod("one", {"app": "web"}))

    pod = {"NAME": "one", "READY": "0/1", "STATUS": "Pending", "RESTARTS": "0"}
    assert kubectl.table("get", "pods") == [pod]
    nowhere = {"IP": "<none>", "NODE": "<none>", "NOMINATED NODE": "<none>", "READINESS GATES": "<none>"}
    assert kubectl.table("get", "pods", "-o", "wide") == [pod | nowhere]
    assert kubectl.table("get", "pods", "--show-labels") == [pod | {"LABELS": "app=web"}]
    assert kubectl.table("get", "pods", "-L", "app") == [pod | {"APP": "web"}]
    assert {"NAMESPACE": kubectl.namespace} | pod in kubectl.table("get", "pods", "--all-namespaces")
    assert kubectl.table("get", "deployments", "-o", "wide") == [
        {
            "NAME": "web",
            "READY": "0/2",
            "UP-TO-DATE": "0",
            "AVAILABLE": "0",
            "CONTAINERS": "web",
            "IMAGES": "nginx:1",
            "SELECTOR": "app=web",
            "PROGRESS": "<none>",
            "LIMITED BY": "<none>",
        }
    ]


def test_get_all_prints_a_table_for_each_kind_that_is_there(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    kubectl("create", "-f", "-", stdin=a_pod("one"))
    kubectl("create", "job", "once", "--image=busybox")

    assert re.findall(r"^(\S+/\S+)", kubectl("get", "all"), re.MULTILINE) == [
        "pod/one",
        "deployment.apps/web",
        "job.batch/once",
    ]


def test_get_prints_objects_in_each_form(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)

    as_json = kubectl.json("get", "configmap", "settings")
    assert as_json["kind"] == "ConfigMap"
    assert as_json["data"] == {"colour": "red"}
    assert yaml.safe_load(kubectl("get", "configmap", "settings", "-o", "yaml")) == as_json
    listed = kubectl.json("get", "configmaps")
    assert (listed["kind"], listed["items"]) == ("List", [as_json])
    assert kubectl("get", "configmaps", "-o", "name") == "configmap/settings\n"
    assert kubectl("get", "configmaps", "-o", "jsonpath={.items[*].data.colour}") == "red"
    assert kubectl("get", "configmap/settings", "-o", "go-template={{.metadata.name}}") == "settings"
    assert kubectl.table("get", "cm", "-o", "custom-columns=WHO:.metadata.name,HUE:.data.colour") == [
        {"WHO": "settings", "HUE": "red"}
    ]


def test_get_selects_by_labels_and_fields(kubectl):
    for name, app in (("one", "web"), ("two", "web"), ("three", "job")):
        kubectl("create", "-f", "-", stdin=a_pod(name, {"app": app}))

    def names(*selection: str) -> Any:
        return kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}", *selection)

    assert names("-l", "app=web") == "one two"
    assert names("-l", "app notin (web)") == "three"
    assert names("-l", "app,!other", "--sort-by=.metadata.labels.app") == "three one two"
    assert names("--field-selector", "metadata.name!=one,status.phase=Pending") == "three two"
    assert names("-l", "app=web", "--field-selector", "metadata.name=three") == ""
    assert kubectl.refused("get", "pods", "--field-selector", "spec.shoe=1") == (
        'Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", '
        'field selector "spec.shoe=1": field label not supported: spec.shoe'
    )


def test_get_reads_a_long_list_in_pages(kubectl):
    for number in range(5):
        kubectl("create", "configmap", f"part-{number}")

    rows = kubectl.table("get", "configmaps", "--chunk-size=2")

    assert [row["NAME"] for row in rows] == [f"part-{number}" for number in range(5)]


def test_get_raw_passes_a_path_through(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    path = f"/api/v1/namespaces/{kubectl.namespace}/configmaps/settings"

    assert json.loads(kubectl("get", "--raw", path))["data"] == {"colour": "red"}
    assert json.loads(kubectl("delete", "--raw", path))["status"] == "Success"
    assert kubectl("get", "--raw", "/healthz") == "ok"
    assert "apiserver_request_total" in kubectl("get", "--raw", "/metrics")


# Watch and wait.


def test_a_watched_table_gets_a_row_for_each_change(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("one"))
    with kubectl.running("get", "pods", "--watch", "--output-watch-events") as watch:
        seen = lines_until(watch, "one")
        kubectl("create", "-f", "-", stdin=a_pod("two"))
        running = '{"status":{"phase":"Running"}}'
        kubectl("patch", "pod", "one", "--subresource=status", "--type=merge", "-p", running)
        kubectl("delete", "pod", "two")
        seen += lines_until(watch, "DELETED")

    assert [row[:4] for row in seen] == [
        ["EVENT", "NAME", "READY", "STATUS"],
        ["ADDED", "one", "0/1", "Pending"],
        ["ADDED", "two", "0/1", "Pending"],
        ["MODIFIED", "one", "0/1", "Running"],
        ["DELETED", "two", "0/1", "Pending"],
    ]


def test_watched_objects_come_in_the_form_asked_for(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    with kubectl.running("get", "cm", "settings", "-w", "-o", "jsonpath={.data.colour}{'\\n'}") as watch:
        seen = lines_until(watch, "red")
        kubectl("patch", "configmap", "settings", "-p", '{"data":{"colour":"blue"}}')
        seen += lines_until(watch, "blue")

    assert seen == [["red"], ["blue"]]


def test_waiting_ends_when_the_condition_is_met(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("one"))
    with (
        kubectl.running("wait", "--for=condition=Ready", "pod/one") as for_condition,
        kubectl.running("wait", "--for=jsonpath={.status.phase}=Running", "pod/one") as for_phase,
    ):
        ready = '{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'
        kubectl("patch", "pod", "one", "--subresource=status", "-p", ready)

        assert lines_until(for_condition, "met") == [["pod/one", "condition", "met"]]
        assert lines_until(for_phase, "met") == [["pod/one", "condition", "met"]]


def test_waiting_for_deletion_ends_with_the_object(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP.replace("name: settings", "name: settings, finalizers: [a.b/last]"))
    kubectl("delete", "configmap", "settings", "--wait=false")
    with kubectl.running("wait", "--for=delete", "configmap/settings") as waiting:
        kubectl(
            "patch", "configmap", "settings", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]'
        )
        assert waiting.wait(LIMIT_S) == 0


def test_waiting_for_what_does_not_happen_fails_in_time(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("one"))

    refusal = kubectl.refused("wait", "--for=condition=Ready", "pod/one", "--timeout=100ms")

    assert refusal == "error: timed out waiting for the condition on pods/one"


# Describe and events.


def described(text: str) -> dict[str, str]:
    """What stands behind each title at the beginning of a line."""
    lines = [line.partition(":") for line in text.splitlines() if re.match(r"\S.*:", line)]
    return {title: rest.strip() for title, _, rest in lines}


def test_describe_tells_about_a_pod_and_its_events(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("one", {"app": "web"}))
    uid = kubectl.json("get", "pod", "one")["metadata"]["uid"]
    about = {"apiVersion": "v1", "kind": "Pod", "name": "one", "namespace": kubectl.namespace, "uid": uid}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about}
    event |= {"reason": "Seen", "message": "it was seen", "type": "Normal", "lastTimestamp": "2026-01-01T00:00:00Z"}
    kubectl("create", "-f", "-", stdin=json.dumps(event))

    text = kubectl("describe", "pod", "one")

    shown = described(text)
    assert {title: shown[title] for title in ("Name", "Labels", "Status", "QoS Class", "Service Account")} == {
        "Name": "one",
        "Labels": "app=web",
        "Status": "Pending",
        "QoS Class": "BestEffort",
        "Service Account": "default",
    }
    assert text.splitlines()[-1].split()[:2] == ["Normal", "Seen"]
    assert text.endswith("it was seen\n")
    assert [(row["REASON"], row["MESSAGE"]) for row in kubectl.table("events", "--for=pod/one")] == [
        ("Seen", "it was seen")
    ]
    assert [row["OBJECT"] for row in kubectl.table("get", "events")] == ["pod/one"]


def test_describe_tells_about_other_kinds(kubectl, node):
    kubectl("create", "-f", "-", stdin=f"{DEPLOYMENT}\n---\n{CONFIGMAP}\n---\n{SERVICE}")
    kubectl("create", "-f", "-", stdin=a_pod("one", nodeName=node))

    deployment = described(kubectl("describe", "deployment", "web"))
    assert deployment["Replicas"] == "2 desired | 0 updated | 0 total | 0 available | 0 unavailable"
    assert deployment["RollingUpdateStrategy"] == "25% max unavailable, 25% max surge"
    service = described(kubectl("describe", "service", "web"))
    assert (service["Selector"], service["Port"]) == ("app=web", "<unset>  80/TCP")
    assert "colour:\n----\nred\n" in kubectl("describe", "configmap", "settings")
    text = kubectl("describe", "node", node)
    assert described(text)["Unschedulable"] == "false"
    assert re.search(rf"{kubectl.namespace} +one ", text)
    assert described(kubectl("describe", "namespace", kubectl.namespace))["Status"] == "Active"
