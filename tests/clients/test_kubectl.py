"""The real kubectl, over TLS, against a real server process. Each test has a namespace of its own."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.clients.server_process import ServerProcess, eventually, shared_server, unique_name
from tests.requirements import needs

pytestmark = needs("kubectl")

LIMIT_S: Final = 30.0  # For one command, on a busy machine.

DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1", ports: [{containerPort: 80}]}
"""
CONFIGMAP: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
"""
SERVICE: Final = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
"""


class Kubectl:
    """Runs kubectl in one namespace of a server. Call it for what should work: `kubectl("get", "pods")`."""

    def __init__(self, server: ServerProcess, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> str:
        """What it says, when it succeeds."""
        done = self.run(arguments, stdin, environment)
        assert done.returncode == 0, (arguments, done)
        return done.stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """What it complains about, when it fails as it should."""
        done = self.run(arguments, stdin, {})
        assert done.returncode == 1, (arguments, done)
        return done.stderr.strip()

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """The rows of a table, without the ages."""
        header, *lines = self(*arguments).splitlines()
        starts = [found.start() for found in re.finditer(r"(?<!\S )\S+(?: \S+)*", header)]
        columns = list(zip(starts, [*starts[1:], None], strict=True))
        titles = [header[start:end].strip() for start, end in columns]
        rows = [[line[start:end].strip() for start, end in columns] for line in lines]
        return [
            {title: cell for title, cell in zip(titles, row, strict=True) if title not in ("AGE", "CREATED AT")}
            for row in rows
        ]

    def run(
        self, arguments: tuple[str, ...], stdin: str, environment: dict[str, str]
    ) -> "subprocess.CompletedProcess[str]":
        """However it ends."""
        return subprocess.run(
            self._command(arguments),
            env={**self.server.environment, **environment},
            cwd=self.server.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    @contextlib.contextmanager
    def running(self, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
        """A command that goes on while others run. The time limit is kubectl's own, so reading its output ends."""
        with subprocess.Popen(
            self._command((*arguments, f"--request-timeout={LIMIT_S:.0f}s")),
            env=self.server.environment,
            cwd=self.server.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return ["kubectl", f"--namespace={self.namespace}", *arguments]


@pytest.fixture
def kubectl() -> Kubectl:
    kubectl = Kubectl(shared_server(), unique_name())
    kubectl("create", "namespace", kubectl.namespace)
    return kubectl


@pytest.fixture
def node(kubectl) -> Iterator[str]:
    name = unique_name("node")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "well"}
    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "conditions": [ready]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    yield name
    kubectl("delete", "node", name)


def a_pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> str:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    spec = {"containers": [{"name": "c", "image": "x:1"}], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def lines_until(process: "subprocess.Popen[str]", last: str) -> list[list[str]]:
    """The words of each line, up to the one that contains `last`."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line.split())
        if last in line:
            return found
    raise AssertionError(f"the output ended without {last!r}: {found}")


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


# Apply, diff, edit, replace.


def test_apply_creates_then_changes_then_leaves_alone(kubectl):
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    before = kubectl.json("get", "deployment", "web")["metadata"]
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    assert kubectl.json("get", "deployment", "web")["metadata"] == before

    # What another has set, and the file does not mention, stays.
    kubectl("annotate", "deployment", "web", "note=ours")
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("replicas: 2", "minReadySeconds: 5")
    assert kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"

    after = kubectl.json("get", "deployment", "web")
    assert after["metadata"]["annotations"]["note"] == "ours"
    assert after["metadata"]["generation"] == 2
    # The file no longer says how many: the default counts again.
    assert (after["spec"]["replicas"], after["spec"]["minReadySeconds"]) == (1, 5)
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert "nginx:2" in kubectl("apply", "view-last-applied", "deployment", "web")


def test_server_side_apply_does_not_take_fields_from_others(kubectl):
    apply = ("apply", "--server-side", "-f", "-")
    theirs = DEPLOYMENT.replace("replicas: 2", "replicas: 4")

    assert kubectl(*apply, stdin=DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    before = kubectl.json("get", "deployment", "web")["metadata"]["resourceVersion"]
    kubectl(*apply, stdin=DEPLOYMENT)
    assert kubectl.json("get", "deployment", "web")["metadata"]["resourceVersion"] == before

    refusal = kubectl.refused(*apply, "--field-manager=other", stdin=theirs)
    assert refusal.startswith('error: Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas\n')
    kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=theirs)
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 4
    assert 'conflict with "other": .spec.replicas' in kubectl.refused(*apply, stdin=DEPLOYMENT)


def test_what_was_applied_by_the_client_can_be_applied_by_the_server(kubectl):
    kubectl("apply", "-f", "-", stdin=CONFIGMAP)

    kubectl("apply", "--server-side", "-f", "-", stdin=CONFIGMAP.replace("colour", "shade"))

    assert kubectl.json("get", "configmap", "settings")["data"] == {"shade": "red"}


def test_apply_takes_a_directory(kubectl, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(f"{CONFIGMAP}\n---\n{SERVICE}")
    (tmp_path / "b.json").write_text(a_pod("one"))
    (tmp_path / "notes.txt").write_text("not for kubectl")

    assert kubectl("apply", "-f", str(tmp_path)).splitlines() == [
        "configmap/settings created",
        "service/web created",
        "pod/one created",
    ]
    assert kubectl("apply", "-f", str(tmp_path)).splitlines() == [
        "configmap/settings unchanged",
        "service/web unchanged",
        "pod/one unchanged",
    ]
    kubectl("delete", "-f", str(tmp_path))
    assert kubectl("get", "configmaps,services,pods", "-o", "name") == ""


def test_diff_shows_what_apply_would_change_and_changes_nothing(kubectl):
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("diff", "-f", "-", stdin=DEPLOYMENT) == ""

    done = kubectl.run(("diff", "-f", "-"), DEPLOYMENT.replace("replicas: 2", "replicas: 4"), {})

    assert done.returncode == 1
    changed = [line.strip() for line in done.stdout.splitlines() if re.match(r"[-+] ", line)]
    assert [re.sub(r"\s+", " ", line) for line in changed] == [
        "- generation: 1",
        "+ generation: 2",
        "- replicas: 2",
        "+ replicas: 4",
    ]
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 2


def test_a_server_side_dry_run_shows_defaults_and_stores_nothing(kubectl):
    shown = kubectl("create", "deployment", "web", "--image=x:1", "--dry-run=server", "-o", "yaml")
    assert yaml.safe_load(shown)["spec"]["progressDeadlineSeconds"] == 600
    assert kubectl("apply", "-f", "-", "--dry-run=server", stdin=CONFIGMAP) == (
        "configmap/settings created (server dry run)\n"
    )
    assert kubectl("get", "deployments,configmaps", "-o", "name") == ""

    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    kubectl("delete", "configmap", "settings", "--dry-run=server")
    kubectl("label", "configmap", "settings", "a=b", "--dry-run=server")
    assert "labels" not in kubectl.json("get", "configmap", "settings")["metadata"]


def test_edit_sends_what_the_editor_leaves(kubectl, tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nexec sed -i s/red/green/ "$1"\n')
    editor.chmod(0o755)
    kubectl("create", "-f", "-", stdin=CONFIGMAP)

    assert kubectl("edit", "configmap", "settings", EDITOR=str(editor)) == "configmap/settings edited\n"
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "green"}


def test_replace_is_refused_when_somebody_was_faster(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    read = kubectl("get", "configmap", "settings", "-o", "yaml")

    assert kubectl("replace", "-f", "-", stdin=read.replace("red", "blue")) == "configmap/settings replaced\n"
    assert kubectl.refused("replace", "-f", "-", stdin=read.replace("red", "green")) == (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps '
        '"settings": the object has been modified; please apply your changes to the latest version and try again'
    )
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "blue"}


def test_a_forced_replace_makes_the_object_anew(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    before = kubectl.json("get", "configmap", "settings")["metadata"]["uid"]

    kubectl("replace", "--force", "-f", "-", stdin=CONFIGMAP)

    assert kubectl.json("get", "configmap", "settings")["metadata"]["uid"] != before


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


# Who one is, and what there is.


def test_whoever_has_the_kubeconfig_may_do_everything(kubectl):
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


# Custom resources.


@pytest.fixture
def wheels(kubectl) -> Iterator[str]:
    """A kind of this test, by its plural."""
    group = f"{unique_name('wheels')}.example.com"
    size = {"type": "integer", "minimum": 1}
    spec = {"type": "object", "required": ["size"], "properties": {"size": size, "spokes": {"default": 8} | size}}
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": "wheels", "singular": "wheel", "kind": "Wheel", "shortNames": ["wh"]}
    crd = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kubectl("create", "-f", "-", stdin=json.dumps(body | {"metadata": {"name": f"wheels.{group}"}, "spec": crd}))
    eventually(lambda: "True" in kubectl("get", "crd", f"wheels.{group}", "-o", "jsonpath={.status.conditions}"))
    yield f"wheels.{group}"
    kubectl("delete", "crd", f"wheels.{group}")


def a_wheel(wheels: str, **spec: Any) -> str:
    group = wheels.partition(".")[2]
    return json.dumps({"apiVersion": f"{group}/v1", "kind": "Wheel", "metadata": {"name": "front"}, "spec": spec})


def test_custom_resources_are_handled_like_others(kubectl, wheels):
    front = f"wheel.{wheels.partition('.')[2]}/front"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=26)) == f"{front} created\n"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=26)) == f"{front} unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=28)) == f"{front} configured\n"
    assert kubectl.table("get", wheels) == [{"NAME": "front", "SIZE": "28"}]
    kubectl("patch", wheels, "front", "--type=merge", "--subresource=status", "-p", '{"status":{"ready":true}}')
    kubectl("label", wheels, "front", "a=b")

    wheel = kubectl.json("get", wheels, "front")

    assert (wheel["spec"], wheel["status"]) == ({"size": 28, "spokes": 8}, {"ready": True})
    assert wheel["metadata"]["labels"] == {"a": "b"}
    assert kubectl("wait", "--for=jsonpath={.status.ready}=true", f"{wheels}/front") == f"{front} condition met\n"
    assert "Size:    28" in kubectl("describe", wheels, "front")
    kubectl("delete", wheels, "front")
    assert kubectl("get", wheels, "-o", "name") == ""


def test_custom_resources_are_checked_by_their_schema(kubectl, wheels):
    refusal = kubectl.refused("create", "-f", "-", stdin=a_wheel(wheels, size=0))

    assert refusal == (
        'The Wheel "front" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal '
        "to 1"
    )


# Errors.


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
