"""The real kubectl, over TLS, against a real server process: creating, changing and deleting."""

import json
import re

import pytest

from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT, LIMIT_S, a_pod, lines_until
from tests.clients.server_process import unique_name
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


# Create.


def test_typed_creates_send_protobuf_and_make_what_they_say(kubectl):
    ours = unique_name()
    # What is created, and the part of it that the command line decides.
    kubectl("create", "namespace", ours)
    kubectl("create", "configmap", "settings", "--from-literal=colour=red")
    kubectl("create", "secret", "generic", "password", "--from-literal=word=hunter2")
    kubectl("create", "serviceaccount", "robot")
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3", "--port=80")
    kubectl("create", "job", "once", "--image=busybox", "--", "echo", "hi")
    kubectl("create", "cronjob", "often", "--image=busybox", "--schedule=*/5 * * * *", "--", "echo", "hi")
    kubectl("create", "quota", "limits", "--hard=pods=2,cpu=1500m")
    kubectl("create", "poddisruptionbudget", "budget", "--selector=app=web", "--min-available=50%")
    kubectl("create", "priorityclass", ours, "--value=1000", "--description=for tests")
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl("create", "rolebinding", "readers", "--role=reader", "--user=alice")
    kubectl("create", "clusterrole", ours, "--verb=get", "--resource=nodes")
    kubectl("create", "clusterrolebinding", ours, f"--clusterrole={ours}", "--group=devs")
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")

    assert kubectl.json("get", "namespace", ours)["status"] == {"phase": "Active"}
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "red"}
    secret = kubectl.json("get", "secret", "password")
    assert (secret["type"], secret["data"]) == ("Opaque", {"word": "aHVudGVyMg=="})
    assert kubectl("get", "serviceaccount", "robot", "-o", "name") == "serviceaccount/robot\n"
    deployment = kubectl.json("get", "deployment", "web")["spec"]
    assert (deployment["replicas"], deployment["selector"]) == (3, {"matchLabels": {"app": "web"}})
    container = deployment["template"]["spec"]["containers"][0]
    assert (container["image"], container["ports"]) == ("nginx:1", [{"containerPort": 80, "protocol": "TCP"}])
    job = kubectl.json("get", "job", "once")["spec"]["template"]["spec"]
    assert (job["containers"][0]["command"], job["restartPolicy"]) == (["echo", "hi"], "Never")
    cronjob = kubectl.json("get", "cronjob", "often")["spec"]
    assert (cronjob["schedule"], cronjob["concurrencyPolicy"]) == ("*/5 * * * *", "Allow")
    assert kubectl.json("get", "quota", "limits")["spec"] == {"hard": {"cpu": "1500m", "pods": "2"}}
    budget = kubectl.json("get", "pdb", "budget")["spec"]
    assert budget == {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}
    priority = kubectl.json("get", "priorityclass", ours)
    assert (priority["value"], priority["description"]) == (1000, "for tests")
    role = kubectl.json("get", "role", "reader")["rules"]
    assert role == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    readers = kubectl.json("get", "rolebinding", "readers")
    assert readers["subjects"] == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]
    assert readers["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    assert kubectl.json("get", "clusterrolebinding", ours)["subjects"][0]["kind"] == "Group"
    ports = kubectl.json("get", "service", "web")["spec"]["ports"]
    assert ports == [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}]

    kubectl("delete", "priorityclass,clusterrole,clusterrolebinding,namespace", ours, "--wait=false")


def test_secrets_of_other_types_are_made_from_files(kubectl):
    kubectl("create", "secret", "docker-registry", "registry", "--docker-username=a", "--docker-password=b")
    certificate, key = kubectl.server.data_dir / "server.crt", kubectl.server.data_dir / "server.key"
    kubectl("create", "secret", "tls", "pair", f"--cert={certificate}", f"--key={key}")

    assert kubectl.table("get", "secrets") == [
        {"NAME": "pair", "TYPE": "kubernetes.io/tls", "DATA": "2"},
        {"NAME": "registry", "TYPE": "kubernetes.io/dockerconfigjson", "DATA": "1"},
    ]


def test_a_job_is_made_from_a_cronjob(kubectl):
    kubectl("create", "cronjob", "often", "--image=busybox", "--schedule=@daily")
    kubectl("create", "job", "now", "--from=cronjob/often")

    owner = kubectl.json("get", "job", "now")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", "often", True)


def test_objects_are_created_from_a_file_with_generated_names(kubectl):
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: part-}\n"

    made = [kubectl("create", "-f", "-", "-o", "name", stdin=body).strip() for _ in range(2)]

    assert len(set(made)) == 2
    assert all(re.fullmatch(r"configmap/part-[a-z0-9]{5}", name) for name in made)


def test_a_pod_is_run_and_exposed(kubectl):
    kubectl("run", "web", "--image=nginx:1", "--port=80", "--labels=app=web", "--env=A=b", "--", "serve", "-v")
    kubectl("expose", "pod", "web", "--port=80", "--target-port=8080")

    container = kubectl.json("get", "pod", "web")["spec"]["containers"][0]
    assert (container["args"], container["env"]) == (["serve", "-v"], [{"name": "A", "value": "b"}])
    service = kubectl.json("get", "service", "web")["spec"]
    assert service["selector"] == {"app": "web"}
    assert service["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 8080}]


# Small changes.


def test_each_type_of_patch_changes_what_it_says(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    side = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}'

    kubectl("patch", "deployment", "web", "-p", side)  # Strategic: a list of containers is merged by name.
    kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"paused":true,"replicas":null}}')
    kubectl("patch", "deployment", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/app"}]')

    deployment = kubectl.json("get", "deployment", "web")
    images = [each["image"] for each in deployment["spec"]["template"]["spec"]["containers"]]
    assert sorted(images) == ["nginx:1", "side:1"]
    assert (deployment["spec"]["paused"], deployment["spec"]["replicas"]) == (True, 1)
    assert "labels" not in deployment["metadata"]


def test_a_patch_that_changes_nothing_says_so(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)

    said = kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"replicas":2}}')

    assert said == "deployment.apps/web patched (no change)\n"


def test_a_json_patch_whose_test_fails_is_refused(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    patch = '[{"op":"test","path":"/data/colour","value":"blue"},{"op":"remove","path":"/data"}]'

    refusal = kubectl.refused("patch", "configmap", "settings", "--type=json", "-p", patch)

    assert refusal == "The request is invalid: the server rejected our request due to an error in our request"
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "red"}


def test_status_is_only_changed_by_its_subresource(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    patch = '{"metadata":{"labels":{"a":"b"}},"status":{"replicas":2,"readyReplicas":1}}'

    kubectl("patch", "deployment", "web", "--type=merge", "-p", patch)
    assert "readyReplicas" not in kubectl.json("get", "deployment", "web")["status"]
    kubectl("patch", "deployment", "web", "--type=merge", "--subresource=status", "-p", patch)

    assert kubectl.json("get", "deployment", "web", "--subresource=status")["status"]["readyReplicas"] == 1
    assert kubectl.table("get", "deployment", "web") == [
        {"NAME": "web", "READY": "1/2", "UP-TO-DATE": "0", "AVAILABLE": "0"}
    ]


def test_labels_and_annotations_are_set_and_removed(kubectl):
    for name in ("one", "two"):
        kubectl("create", "-f", "-", stdin=a_pod(name, {"app": name}))

    kubectl("label", "pods", "--all", "tier=front")
    assert kubectl.refused("label", "pod", "one", "tier=back") == (
        "error: 'tier' already has a value (front), and --overwrite is false"
    )
    kubectl("label", "pod", "one", "tier=back", "--overwrite")
    kubectl("label", "pod", "two", "tier-", "app-")
    kubectl("annotate", "pod", "one", "note=hello", "other=x")
    kubectl("annotate", "pod", "one", "other-")

    one, two = (kubectl.json("get", "pod", name)["metadata"] for name in ("one", "two"))
    assert (one["labels"], one["annotations"]) == ({"app": "one", "tier": "back"}, {"note": "hello"})
    assert "labels" not in two


def test_set_changes_the_pod_template(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)

    kubectl("set", "image", "deployment/web", "web=nginx:2")
    kubectl("set", "env", "deployment/web", "COLOUR=red")
    kubectl("set", "resources", "deployment/web", "--limits=cpu=200m,memory=512Mi")
    kubectl("set", "serviceaccount", "deployment/web", "robot")

    spec = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert spec["serviceAccountName"] == "robot"
    assert container["image"] == "nginx:2"
    assert container["env"] == [{"name": "COLOUR", "value": "red"}]
    assert container["resources"] == {"limits": {"cpu": "200m", "memory": "512Mi"}}


def test_scale_goes_through_the_scale_subresource(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)

    assert kubectl("scale", "deployment/web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert kubectl.refused("scale", "deployment/web", "--replicas=6", "--current-replicas=2") == (
        "error: Expected replicas to be 2, was 5"
    )
    scale = kubectl.json("get", "deployment", "web", "--subresource=scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 5})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}


def test_a_rollout_is_paused_resumed_and_restarted(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)

    kubectl("rollout", "pause", "deployment/web")
    assert kubectl.refused("rollout", "pause", "deployment/web") == 'error: deployments.apps "web" is already paused'
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")

    spec = kubectl.json("get", "deployment", "web")["spec"]
    assert "paused" not in spec
    assert list(spec["template"]["metadata"]["annotations"]) == ["kubectl.kubernetes.io/restartedAt"]
    assert kubectl("rollout", "history", "deployment/web") == "deployment.apps/web \nNo rollout history found.\n"


def test_rollout_status_ends_when_the_rollout_is_complete(kubectl):
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    with kubectl.running("rollout", "status", "deployment/web") as waiting:
        lines_until(waiting, "Waiting for deployment spec update to be observed")
        counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
        status = json.dumps({"status": {"observedGeneration": 1, **counts}})
        kubectl("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", status)

        lines_until(waiting, 'deployment "web" successfully rolled out')
        assert waiting.wait(LIMIT_S) == 0


# Delete.


def test_delete_removes_by_name_by_label_and_all(kubectl):
    for name in ("one", "two", "three", "four"):
        kubectl("create", "configmap", name)
    kubectl("label", "configmap", "one", "two", "old=yes")

    assert kubectl("delete", "configmap", "-l", "old=yes").splitlines() == [
        'configmap "one" deleted',
        'configmap "two" deleted',
    ]
    kubectl("delete", "configmap/three", "--now")
    kubectl("delete", "configmaps", "--all")

    assert kubectl("get", "configmaps", "-o", "name") == ""
    assert kubectl.refused("delete", "configmap", "one") == ('Error from server (NotFound): configmaps "one" not found')
    assert kubectl("delete", "configmap", "one", "--ignore-not-found") == ""


def test_delete_waits_until_the_last_finalizer_is_gone(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/last"]}}')
    with kubectl.running("delete", "configmap", "settings") as deleting:
        lines_until(deleting, "deleted")
        terminating = kubectl.json("get", "configmap", "settings")["metadata"]
        assert terminating["deletionTimestamp"]
        assert deleting.poll() is None

        kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        assert deleting.wait(LIMIT_S) == 0

    kubectl.refused("get", "configmap", "settings")


def test_a_namespace_that_is_being_deleted_takes_nothing_new(kubectl):
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")

    phase = kubectl("get", "namespace", kubectl.namespace, "-o", "jsonpath={.status.phase}")
    assert phase == "Terminating"
    assert kubectl.refused("create", "configmap", "late") == (
        'error: failed to create configmap: configmaps "late" is forbidden: unable to create new content in '
        f"namespace {kubectl.namespace} because it is being terminated"
    )
