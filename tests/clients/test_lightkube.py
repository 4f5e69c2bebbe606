"""lightkube, as it comes, against a real server process."""

from collections.abc import Iterator

import pytest
from lightkube import ApiError, Client, KubeConfig
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.core_v1 import Container, PodCondition, PodSpec, PodStatus, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod
from lightkube.types import PatchType

from tests.clients.server_process import shared_server, unique_name

pytestmark = pytest.mark.slow


@pytest.fixture
def client() -> Iterator[Client]:
    config = KubeConfig.from_file(shared_server().kubeconfig)
    namespace = unique_name()
    with Client(config=config, namespace=namespace) as client:
        client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        client.delete(ConfigMap, "kube-root-ca.crt")  # Tests count ConfigMaps.
        yield client


def a_configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data=data or None)


def a_pod(name: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=[Container(name="c", image="x:1")]))


def a_deployment(name: str) -> Deployment:
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": name}), spec=PodSpec(containers=[Container(name="c", image="x:1")])
    )
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(matchLabels={"app": name}), template=template)
    return Deployment(metadata=ObjectMeta(name=name), spec=spec)


def test_an_object_is_created_read_replaced_and_deleted(client):
    created = client.create(a_configmap("settings", colour="red"))
    assert client.get(ConfigMap, "settings") == created

    created.data["colour"] = "blue"
    assert client.replace(created).data == {"colour": "blue"}
    with pytest.raises(ApiError) as conflict:
        client.replace(created)
    assert (conflict.value.status.code, conflict.value.status.reason) == (409, "Conflict")

    client.delete(ConfigMap, "settings")
    with pytest.raises(ApiError) as missing:
        client.get(ConfigMap, "settings")
    assert missing.value.status.reason == "NotFound"


def test_lists_are_selected_and_paged(client):
    for number in range(5):
        client.create(a_configmap(f"part-{number}", {"odd": str(number % 2)}))

    listed = list(client.list(ConfigMap, chunk_size=2))
    assert [each.metadata.name for each in listed] == [f"part-{number}" for number in range(5)]
    odd = client.list(ConfigMap, labels={"odd": "1"})
    assert [each.metadata.name for each in odd] == ["part-1", "part-3"]
    not_two = client.list(ConfigMap, fields={"metadata.name": "part-2"})
    assert [each.metadata.name for each in not_two] == ["part-2"]

    client.deletecollection(ConfigMap)
    assert list(client.list(ConfigMap)) == []


def test_each_type_of_patch_changes_what_it_says(client):
    client.create(a_deployment("web"))
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "y:1"}]}}}}

    strategic = client.patch(Deployment, "web", side)
    assert sorted(each.name for each in strategic.spec.template.spec.containers) == ["c", "side"]
    merged = client.patch(Deployment, "web", side, patch_type=PatchType.MERGE)
    assert [each.name for each in merged.spec.template.spec.containers] == ["side"]
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    assert client.patch(Deployment, "web", operations, patch_type=PatchType.JSON).spec.replicas == 3


def test_server_side_apply_does_not_take_fields_from_others(client):
    client.apply(a_configmap("settings", colour="red"), field_manager="ours")

    with pytest.raises(ApiError) as conflict:
        client.apply(a_configmap("settings", colour="blue"), field_manager="theirs")
    assert conflict.value.status.code == 409
    client.apply(a_configmap("settings", colour="blue"), field_manager="theirs", force=True)

    assert client.get(ConfigMap, "settings").data == {"colour": "blue"}


def test_subresources_are_read_and_written(client):
    client.create(a_deployment("web"))
    scale = client.get(Deployment.Scale, "web")
    scale.spec.replicas = 4
    client.replace(scale, "web")
    assert client.get(Deployment, "web").spec.replicas == 4

    pod = client.create(a_pod("one"))
    pod.status = PodStatus(phase="Running")
    client.replace(Pod.Status(metadata=pod.metadata, spec=pod.spec, status=pod.status))
    assert client.get(Pod.Status, "one").status.phase == "Running"


def test_a_watch_delivers_changes(client):
    version = client.create(a_configmap("one")).metadata.resourceVersion
    client.create(a_configmap("two"))
    client.patch(ConfigMap, "two", {"data": {"a": "b"}})
    client.delete(ConfigMap, "one")

    watch = client.watch(ConfigMap, resource_version=version, server_timeout=20)
    seen = [next(watch) for _ in range(3)]

    assert [(change, each.metadata.name) for change, each in seen] == [
        ("ADDED", "two"),
        ("MODIFIED", "two"),
        ("DELETED", "one"),
    ]


def test_waiting_ends_when_a_condition_holds(client):
    client.create(a_pod("one"))
    ready = PodStatus(conditions=[PodCondition(type="Ready", status="True")])
    client.patch(Pod.Status, "one", {"status": ready.to_dict()})

    assert client.wait(Pod, "one", for_conditions=["Ready"]).metadata.name == "one"
