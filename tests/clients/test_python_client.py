"""The `kubernetes` Python client, as it comes, against a real server process."""

# Its models say that every part may be missing, and its helpers do not say anything.
# mypy: disable-error-code="arg-type,index,no-any-return,no-untyped-call,operator,union-attr"

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes import client, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import leaderelection
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.clients.python_client import python_client
from tests.clients.server_process import ServerProcess, shared_server, unique_name

pytestmark = pytest.mark.slow


@pytest.fixture
def api() -> Iterator[client.ApiClient]:
    with python_client(shared_server().kubeconfig) as api:
        yield api


@pytest.fixture
def core(api) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def namespace(core) -> str:
    name = unique_name()
    core.create_namespace({"metadata": {"name": name}})
    core.delete_namespaced_config_map("kube-root-ca.crt", name)  # Tests count ConfigMaps.
    return name


def a_configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data or None)


def a_pod_template(app: str) -> client.V1PodTemplateSpec:
    container = client.V1Container(name="web", image="nginx:1", env=[client.V1EnvVar(name="A", value="b")])
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": app}), spec=client.V1PodSpec(containers=[container])
    )


def a_deployment(name: str, replicas: int) -> client.V1Deployment:
    selector = client.V1LabelSelector(match_labels={"app": name})
    spec = client.V1DeploymentSpec(replicas=replicas, selector=selector, template=a_pod_template(name))
    return client.V1Deployment(metadata=client.V1ObjectMeta(name=name), spec=spec)


def changes(stream: Any) -> list[tuple[str, str]]:
    return [(change["type"], change["object"].metadata.name) for change in stream]


# One object.


def test_an_object_is_created_read_replaced_and_deleted(core, namespace):
    created = core.create_namespaced_config_map(namespace, a_configmap("settings", colour="red"))
    assert core.read_namespaced_config_map("settings", namespace) == created

    created.data = {"colour": "blue"}
    replaced = core.replace_namespaced_config_map("settings", namespace, created)
    assert replaced.data == {"colour": "blue"}
    assert int(replaced.metadata.resource_version) > int(created.metadata.resource_version)
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("settings", namespace, created)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")

    deleted = core.delete_namespaced_config_map("settings", namespace)
    assert deleted["status"] == "Success"
    assert deleted["details"] == {"kind": "configmaps", "name": "settings", "uid": created.metadata.uid}
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_config_map("settings", namespace)
    assert missing.value.status == 404
    assert '"reason":"NotFound"' in missing.value.body


def test_typed_models_are_read_back_with_their_defaults(api, namespace):
    apps = client.AppsV1Api(api)

    deployment = apps.create_namespaced_deployment(namespace, a_deployment("web", 3))

    assert deployment.spec.strategy.rolling_update.max_surge == "25%"
    assert deployment.spec.template.spec.containers[0].env == [client.V1EnvVar(name="A", value="b")]
    assert datetime.now(UTC) - deployment.metadata.creation_timestamp < timedelta(minutes=5)
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 5
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 5


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("job", {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}),
        (
            "cron_job",
            {
                "schedule": "@daily",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
                        }
                    }
                },
            },
        ),
    ],
)
def test_kinds_of_other_groups_are_created_and_listed(api, namespace, kind, body):
    batch = client.BatchV1Api(api)

    getattr(batch, f"create_namespaced_{kind}")(namespace, {"metadata": {"name": "work"}, "spec": body})

    listed = getattr(batch, f"list_namespaced_{kind}")(namespace).items
    assert [each.metadata.name for each in listed] == ["work"]


def test_a_pod_is_bound_reports_its_status_and_is_evicted(core, namespace):
    core.create_namespaced_pod(namespace, {"metadata": {"name": "one"}, "spec": a_pod_template("web").spec})

    target = client.V1ObjectReference(kind="Node", name="node-1")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="one"), target=target)
    # The answer is a Status, which this client takes for a Binding without a target.
    core.create_namespaced_pod_binding("one", namespace, binding, _preload_content=False)
    condition = {"type": "Ready", "status": "True"}
    core.patch_namespaced_pod_status("one", namespace, {"status": {"phase": "Running", "conditions": [condition]}})
    pod = core.read_namespaced_pod("one", namespace)
    assert (pod.spec.node_name, pod.status.phase) == ("node-1", "Running")
    assert sorted(each.type for each in pod.status.conditions) == ["PodScheduled", "Ready"]

    now = client.V1DeleteOptions(grace_period_seconds=0)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="one"), delete_options=now)
    core.create_namespaced_pod_eviction("one", namespace, eviction)
    assert core.list_namespaced_pod(namespace).items == []


def test_each_form_of_patch_is_sent_as_what_it_is(api, namespace):
    apps = client.AppsV1Api(api)
    apps.create_namespaced_deployment(namespace, a_deployment("web", 1))

    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    strategic = apps.patch_namespaced_deployment("web", namespace, side)
    assert sorted(each.name for each in strategic.spec.template.spec.containers) == ["side", "web"]

    operations = [{"op": "replace", "path": "/spec/replicas", "value": 4}]
    assert apps.patch_namespaced_deployment("web", namespace, operations).spec.replicas == 4

    merged = apps.patch_namespaced_deployment("web", namespace, side, _content_type="application/merge-patch+json")
    assert [each.name for each in merged.spec.template.spec.containers] == ["side"]


def test_a_dry_run_stores_nothing(core, namespace):
    shown = core.create_namespaced_config_map(namespace, a_configmap("settings"), dry_run="All")

    assert shown.metadata.uid
    assert core.list_namespaced_config_map(namespace).items == []


def test_an_invalid_object_is_refused_with_its_causes(core, namespace):
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(namespace, {"metadata": {"name": "one"}, "spec": {"containers": []}})

    assert refused.value.status == 422
    assert '"field":"spec.containers"' in refused.value.body


def test_objects_are_created_from_a_dictionary(api, core, namespace):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    }

    utils.create_from_dict(api, service, namespace=namespace)

    assert core.read_namespaced_service("web", namespace).spec.ports[0].target_port == 80


# Lists and watches.


def test_a_list_is_read_in_pages_and_by_selectors(core, namespace):
    for number in range(5):
        core.create_namespaced_config_map(namespace, a_configmap(f"part-{number}", {"odd": str(number % 2)}))

    pages, token = [], None
    while token is None or token:
        page = core.list_namespaced_config_map(namespace, limit=2, _continue=token)
        pages.append([each.metadata.name for each in page.items])
        token = page.metadata._continue or ""
    assert pages == [["part-0", "part-1"], ["part-2", "part-3"], ["part-4"]]

    odd = core.list_namespaced_config_map(namespace, label_selector="odd=1").items
    assert [each.metadata.name for each in odd] == ["part-1", "part-3"]
    one = core.list_namespaced_config_map(namespace, field_selector="metadata.name=part-2").items
    assert [each.metadata.name for each in one] == ["part-2"]


def test_a_collection_is_deleted_by_its_selector(core, namespace):
    for name, tier in (("one", "old"), ("two", "old"), ("three", "new")):
        core.create_namespaced_config_map(namespace, a_configmap(name, {"tier": tier}))

    core.delete_collection_namespaced_config_map(namespace, label_selector="tier=old")

    assert [each.metadata.name for each in core.list_namespaced_config_map(namespace).items] == ["three"]


def test_a_watch_delivers_changes_and_goes_on_from_where_another_ended(core, namespace):
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, a_configmap("one"))
    core.create_namespaced_config_map(namespace, a_configmap("two"))
    core.delete_namespaced_config_map("one", namespace)

    listing = core.list_namespaced_config_map
    first = watch.Watch()
    seen = []
    for change in first.stream(listing, namespace, resource_version=version, timeout_seconds=20):
        seen.append((change["type"], change["object"].metadata.name))
        if len(seen) == 2:
            first.stop()
    assert seen == [("ADDED", "one"), ("ADDED", "two")]

    rest = watch.Watch().stream(listing, namespace, resource_version=first.resource_version, timeout_seconds=1)
    assert changes(rest) == [("DELETED", "one")]


def test_a_watch_without_a_version_begins_with_what_is_there(core, namespace):
    core.create_namespaced_config_map(namespace, a_configmap("one"))

    stream = watch.Watch().stream(core.list_namespaced_config_map, namespace, timeout_seconds=1)

    assert changes(stream) == [("ADDED", "one")]


def test_after_a_crash_a_list_goes_on_and_a_watch_from_before_is_told_to_list_again():
    with ServerProcess() as server, python_client(server.kubeconfig) as api:
        core = client.CoreV1Api(api)
        core.delete_namespaced_config_map("kube-root-ca.crt", "default")  # What is listed below is what is made here.
        for name in ("one", "three", "two"):
            core.create_namespaced_config_map("default", a_configmap(name))
        page = core.list_namespaced_config_map("default", limit=2)
        core.delete_namespaced_config_map("two", "default")

        server.kill()
        server.start()

        # A page belongs to the moment when the list began.
        rest = core.list_namespaced_config_map("default", limit=2, _continue=page.metadata._continue)
        assert [each.metadata.name for each in rest.items] == ["two"]
        assert rest.metadata.resource_version == page.metadata.resource_version
        with pytest.raises(ApiException) as gone:
            list(watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version="1"))
        assert gone.value.status == 410
        listed = core.list_namespaced_config_map("default")
        assert [each.metadata.name for each in listed.items] == ["one", "three"]


# The dynamic client, and leader election.


def test_the_dynamic_client_finds_kinds_by_discovery(api, namespace, tmp_path):
    resources = dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery"))
    configmaps = resources.resources.get(api_version="v1", kind="ConfigMap")
    deployments = resources.resources.get(api_version="apps/v1", kind="Deployment")
    assert (configmaps.name, deployments.short_names) == ("configmaps", ["deploy"])

    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "settings"}, "data": {"colour": "red"}}
    configmaps.create(body=body, namespace=namespace)
    patch = {"data": {"size": "9"}}
    content_type = "application/merge-patch+json"
    configmaps.patch(name="settings", namespace=namespace, body=patch, content_type=content_type)
    assert configmaps.get(name="settings", namespace=namespace).data.to_dict() == {"colour": "red", "size": "9"}

    watched = configmaps.watch(namespace=namespace, timeout=1)
    assert [(change["type"], change["object"].metadata.name) for change in watched] == [("ADDED", "settings")]
    configmaps.delete(name="settings", namespace=namespace)
    assert configmaps.get(namespace=namespace).items == []


def test_one_of_two_candidates_holds_the_lease(api, namespace, monkeypatch):
    # The lock makes a client of its own from what is set as default.
    monkeypatch.setattr(client.Configuration, "_default", api.configuration)

    def candidate(name: str) -> leaderelection.LeaderElection:
        lock = LeaseLock("leader", namespace, name)
        times = {"lease_duration": 60, "renew_deadline": 20, "retry_period": 5}
        return leaderelection.LeaderElection(Config(lock, **times, onstarted_leading=print, onstopped_leading=print))

    first, second = candidate("first"), candidate("second")

    assert [each.try_acquire_or_renew() for each in (first, second, first)] == [True, False, True]
    lease = client.CoordinationV1Api(api).read_namespaced_lease("leader", namespace)
    assert lease.spec.holder_identity == "first"
