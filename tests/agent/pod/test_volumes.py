"""The volumes of a pod become directories and files, with the content, paths and modes that it asks for."""

from base64 import b64encode
from typing import Any

import pytest

from mainstay.agent.pod.downward import Surroundings
from mainstay.agent.pod.environment import CONFIG_MAP, SECRET, Missing
from mainstay.agent.pod.tokens import TokenNeed, Tokens, find_token_needs
from mainstay.agent.pod.volumes import plan_volumes
from mainstay.agent.runner import VolumeFile, VolumePlan
from tests.api.builders import a_container, a_pod

Object = dict[str, Any]

HERE = Surroundings(node_name="node-1", address="127.64.0.7", allocatable={"cpu": "4", "memory": "8Gi"})
SOURCES = {
    (CONFIG_MAP, "settings"): {
        "metadata": {"name": "settings"},
        "data": {"b.txt": "bee", "a.txt": "é"},
        "binaryData": {"raw": b64encode(b"\xff\0").decode()},
    },
    (CONFIG_MAP, "empty"): {"metadata": {"name": "empty"}},
    (SECRET, "keys"): {"metadata": {"name": "keys"}, "data": {"token": b64encode(b"t0p").decode()}},
    (CONFIG_MAP, "kube-root-ca.crt"): {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "CA"}},
}


NO_TOKENS: Tokens = {}


def plan_of(volume: Object, *, tokens: Tokens = NO_TOKENS, **spec: Any) -> VolumePlan | Missing:
    found = plan_volumes(a_pod(volumes=[{"name": "v", **volume}], **spec), SOURCES, tokens, HERE)
    return found if isinstance(found, Missing) else found[0]


def files_of(volume: Object, *, tokens: Tokens = NO_TOKENS, **spec: Any) -> list[tuple[str, bytes, int]]:
    plan = plan_of(volume, tokens=tokens, **spec)
    assert isinstance(plan, VolumePlan)
    assert plan.files is not None
    return [(file.path, file.data, file.mode) for file in plan.files]


@pytest.mark.parametrize(
    ("volume", "plan"),
    [
        ({"emptyDir": {}}, VolumePlan(name="v")),
        ({}, VolumePlan(name="v")),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, VolumePlan(name="v", is_in_memory=True)),
        ({"hostPath": {"path": "/data"}}, VolumePlan(name="v", host_path="/data")),
        (
            {"hostPath": {"path": "/data", "type": "DirectoryOrCreate"}},
            VolumePlan(name="v", host_path="/data", host_path_type="DirectoryOrCreate"),
        ),
        (
            {"configMap": {"name": "settings", "items": [{"key": "a.txt", "path": "a"}]}},
            VolumePlan(name="v", files=(VolumeFile("a", "é".encode()),)),
        ),
        ({"configMap": {"name": "empty"}}, VolumePlan(name="v", files=())),
        ({"configMap": {"name": "none", "optional": True}}, VolumePlan(name="v", files=())),
    ],
)
def test_a_volume_becomes_a_plan(volume: Object, plan: VolumePlan) -> None:
    assert plan_of(volume) == plan


def test_a_config_map_becomes_a_file_for_each_key_text_or_not() -> None:
    assert files_of({"configMap": {"name": "settings", "defaultMode": 0o444}}) == [
        ("a.txt", "é".encode(), 0o444),
        ("b.txt", b"bee", 0o444),
        ("raw", b"\xff\0", 0o444),
    ]


def test_only_the_named_items_come_at_their_paths_with_their_modes() -> None:
    items = [{"key": "token", "path": "deep/down", "mode": 0o400}, {"key": "token", "path": "again"}]
    assert files_of({"secret": {"secretName": "keys", "items": items, "defaultMode": 0o640}}) == [
        ("again", b"t0p", 0o640),
        ("deep/down", b"t0p", 0o400),
    ]


def test_a_mode_of_nothing_is_a_mode() -> None:
    assert files_of({"secret": {"secretName": "keys", "defaultMode": 0}}) == [("token", b"t0p", 0)]


def test_an_item_that_is_missing_and_optional_is_left_out() -> None:
    items = [{"key": "a.txt", "path": "a"}, {"key": "no", "path": "b"}]
    assert files_of({"configMap": {"name": "settings", "items": items, "optional": True}}) == [
        ("a", "é".encode(), 0o644)
    ]


def test_the_downward_api_writes_fields_maps_and_resources() -> None:
    items = [
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}, "mode": 0o400},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}},
    ]
    containers = [a_container(resources={"limits": {"cpu": "2"}})]
    labels = {"tier": 'say "hi"', "app": "web"}
    assert files_of({"downwardAPI": {"items": items}}, containers=containers, labels=labels) == [
        ("cpu", b"2000", 0o644),
        ("labels", b'app="web"\ntier="say \\"hi\\""', 0o400),
        ("name", b"p", 0o644),
    ]


ACCOUNT = {
    "projected": {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ],
    }
}


def test_what_every_pod_gets_of_its_service_account_is_one_directory() -> None:
    assert files_of(ACCOUNT, tokens={TokenNeed("", 3607): "ey.J"}) == [
        ("ca.crt", b"CA", 0o644),
        ("namespace", b"default", 0o644),
        ("token", b"ey.J", 0o644),
    ]


def test_each_source_of_a_token_gets_the_one_it_asks_for() -> None:
    sources = [
        {"serviceAccountToken": {"path": "api"}},
        {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}},
    ]
    volume = {"projected": {"sources": sources, "defaultMode": 0o400}}
    needs = find_token_needs(a_pod(volumes=[{"name": "v", **volume}, {"name": "w", **volume}, {"name": "e"}]))
    assert needs == [TokenNeed("", 3600), TokenNeed("vault", 600)]
    assert files_of(volume, tokens={needs[0]: "a", needs[1]: "v"}) == [("api", b"a", 0o400), ("vault", b"v", 0o400)]


def test_of_two_projected_files_at_one_path_the_later_wins() -> None:
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "b.txt", "path": "x"}]}},
        {"secret": {"name": "keys", "items": [{"key": "token", "path": "x", "mode": 0o400}]}},
    ]
    assert files_of({"projected": {"sources": sources}}) == [("x", b"t0p", 0o400)]


def test_the_group_of_a_pod_owns_its_volumes_and_may_read_what_is_in_them() -> None:
    group = {"fsGroup": 2000}
    assert plan_of({"emptyDir": {}}, securityContext=group) == VolumePlan(name="v", group=2000)
    assert plan_of({"hostPath": {"path": "/data"}}, securityContext=group) == VolumePlan(name="v", host_path="/data")
    secret = {"secret": {"secretName": "keys", "defaultMode": 0o400}}
    assert files_of(secret, securityContext=group) == [("token", b"t0p", 0o440)]
    assert files_of(ACCOUNT, tokens={TokenNeed("", 3607): "ey.J"}, securityContext=group)[-1] == (
        "token",
        b"ey.J",
        0o640,
    )


@pytest.mark.parametrize(
    ("volume", "message", "missing"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found', "ConfigMap/none"),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found', "Secret/none"),
        (
            {"configMap": {"name": "settings", "items": [{"key": "no", "path": "x"}]}},
            "references non-existent config key: no",
            "ConfigMap/settings/no",
        ),
        (
            {"secret": {"secretName": "keys", "items": [{"key": "no", "path": "x"}]}},
            "references non-existent secret key: no",
            "Secret/keys/no",
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "none"}}]}},
            'configmap "none" not found',
            "ConfigMap/none",
        ),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            "volumes of kind persistentVolumeClaim need a storage driver",
            "",
        ),
        ({"csi": {"driver": "d"}}, "volumes of kind csi need a storage driver", ""),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}, "clusterTrustBundle", ""),
    ],
)
def test_a_volume_that_cannot_be_made_says_why(volume: Object, message: str, missing: str) -> None:
    found = plan_of(volume)
    assert isinstance(found, Missing)
    assert (found.reason, found.missing) == ("FailedMount", missing)
    assert found.message.startswith('MountVolume.SetUp failed for volume "v" : ')
    assert message in found.message


def test_the_content_of_a_secret_is_not_shown_when_a_plan_is() -> None:
    assert "t0p" not in repr(plan_of({"secret": {"secretName": "keys"}}))
