"""A container's spec becomes a spec: what to run, as whom, with which directories and how much."""

from typing import Any

import pytest

from mainstay.agent.pod.container_spec import build_container_spec
from mainstay.agent.pod.downward import Surroundings
from mainstay.agent.pod.environment import CONFIG_ERROR, Environment, build_environment
from mainstay.agent.pod.facts import ContainerWaiting
from mainstay.agent.runner import ContainerId, ContainerSpec, Mount, PodPlace
from tests.api.builders import a_pod

Object = dict[str, Any]

HERE = Surroundings(node_name="node-1", address="127.64.0.7")
VOLUMES = [{"name": "work", "emptyDir": {}}, {"name": "conf", "configMap": {"name": "m"}}]
PLACE = PodPlace(directory="/pods/u", volumes={"work": "/pods/u/volumes/work", "conf": "/pods/u/volumes/conf"})


def spec(
    *,
    facts: Surroundings = HERE,
    pod: Object | None = None,
    annotations: dict[str, str] | None = None,
    attempt: int = 0,
    **container: Any,
) -> ContainerSpec | ContainerWaiting:
    asked = {"name": "c", "image": "x:1", "command": ["run"], **container}
    whole = a_pod("web", containers=[asked], volumes=VOLUMES, **(pod or {}))
    whole["metadata"] |= {"uid": "u", "annotations": annotations or {}}
    env = build_environment(whole, asked, {}, facts)
    assert isinstance(env, Environment)
    return build_container_spec(whole, asked, attempt, PLACE, env, facts)


def granted(**asked: Any) -> ContainerSpec:
    found = spec(**asked)
    assert isinstance(found, ContainerSpec)
    return found


def refused(**asked: Any) -> ContainerWaiting:
    found = spec(**asked)
    assert isinstance(found, ContainerWaiting)
    return found


def test_a_container_that_says_little_gets_a_plain_wish() -> None:
    found = granted(attempt=3)
    assert found == ContainerSpec(
        id=ContainerId("u", "c", 3),
        namespace="default",
        pod_name="web",
        image="x:1",
        command=("run",),
        env=found.env,
        address="127.64.0.7",
    )
    assert ("POD_NAME", "web") in found.env


def test_command_and_arguments_follow_each_other_with_references_replaced() -> None:
    env = [{"name": "PORT", "value": "8080"}]
    found = granted(env=env, command=["serve", "--at=$(POD_IP):$(PORT)"], args=["$$(PORT)", "$(NOT)", "$(PATH)"])
    assert found.command == ("serve", "--at=127.64.0.7:8080", "$(PORT)", "$(NOT)", "$(PATH)")


@pytest.mark.parametrize("fields", [{"command": []}, {"command": None}, {"command": [], "args": ["x"]}])
def test_an_image_without_a_command_waits_and_says_for_what(fields: Object) -> None:
    message = (
        "set spec.containers[0].command: containers are host processes, there are no images to take a command from"
    )
    assert refused(**fields) == ContainerWaiting("CommandRequired", message)


def test_a_runner_with_images_needs_no_command() -> None:
    facts = Surroundings(node_name="n", has_images=True)
    assert granted(command=None, args=["x"], facts=facts).command == ("x",)


def test_the_container_decides_who_it_runs_as_before_the_pod_does() -> None:
    of_pod = {"runAsUser": 1000, "runAsGroup": 1001, "supplementalGroups": [5, 6, 5], "fsGroup": 2000}
    found = granted(pod={"securityContext": of_pod}, securityContext={"runAsUser": 7, "runAsGroup": None})
    assert (found.user, found.group, found.groups) == (7, 1001, (5, 6, 2000))


@pytest.mark.parametrize(
    ("of_pod", "of_container", "agent", "is_allowed"),
    [
        ({"runAsNonRoot": True}, {}, 0, False),
        ({"runAsNonRoot": True}, {}, 1000, True),
        ({"runAsNonRoot": True}, {"runAsUser": 0}, 1000, False),
        ({"runAsNonRoot": True}, {"runAsUser": 1}, 0, True),
        ({"runAsNonRoot": True}, {"runAsNonRoot": False}, 0, True),
        ({"runAsUser": 0}, {"runAsNonRoot": True}, 0, False),
        ({"runAsUser": 5}, {"runAsNonRoot": True}, 0, True),
    ],
)
def test_who_must_not_be_root_is_not(of_pod: Object, of_container: Object, agent: int, is_allowed: bool) -> None:
    facts = Surroundings(node_name="n", user=agent)
    found = spec(facts=facts, pod={"securityContext": of_pod}, securityContext=of_container)
    assert isinstance(found, ContainerSpec) == is_allowed
    if isinstance(found, ContainerWaiting):
        assert found.reason == CONFIG_ERROR
        assert 'pod: "web_default(u)", container: c' in found.message


@pytest.mark.parametrize(
    ("said", "mount"),
    [
        ({"name": "work", "mountPath": "/work"}, Mount("/pods/u/volumes/work", "/work")),
        ({"name": "work", "mountPath": "work/"}, Mount("/pods/u/volumes/work", "/work")),
        ({"name": "work", "mountPath": "/w", "readOnly": True}, Mount("/pods/u/volumes/work", "/w", True)),
        ({"name": "conf", "mountPath": "/etc/conf"}, Mount("/pods/u/volumes/conf", "/etc/conf", True)),
        ({"name": "work", "mountPath": "/w", "subPath": "a/b"}, Mount("/pods/u/volumes/work", "/w", sub_path="a/b")),
        (
            {"name": "work", "mountPath": "/w", "subPathExpr": "$(POD_NAMESPACE)/$(POD_NAME)"},
            Mount("/pods/u/volumes/work", "/w", sub_path="default/web"),
        ),
        (
            {"name": "conf", "mountPath": "/etc/one", "subPath": "one.conf"},
            Mount("/pods/u/volumes/conf", "/etc/one", True, "one.conf"),
        ),
    ],
)
def test_a_volume_is_mounted_where_it_is_asked_for(said: Object, mount: Mount) -> None:
    assert granted(volumeMounts=[said]).mounts == (mount,)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"subPathExpr": "$(NOT)/$(EMPTY)/$(NOT)"}, "missing value for EMPTY, NOT"),
        ({"subPathExpr": "$(UP)/x"}, "must not contain '..'"),
        ({"subPathExpr": "$(ROOT)"}, "must not be an absolute path"),
        ({"name": "gone"}, 'cannot find volume "gone" to mount into the container'),
    ],
)
def test_a_mount_that_leads_nowhere_or_out_of_its_volume_is_refused(said: Object, message: str) -> None:
    env = [{"name": "UP", "value": "a/.."}, {"name": "ROOT", "value": "/etc"}, {"name": "EMPTY", "value": ""}]
    found = refused(env=env, volumeMounts=[{"name": "work", "mountPath": "/w", **said}])
    assert found.reason == CONFIG_ERROR
    assert message in found.message


def test_amounts_are_counted_and_no_limit_is_none() -> None:
    resources = {"requests": {"cpu": "0.25"}, "limits": {"cpu": "1500m", "memory": "64Mi"}}
    found = granted(resources=resources)
    assert (found.cpu_millis_wanted, found.cpu_millis_max, found.memory_bytes_max) == (250, 1500, 64 * 1024**2)
    unlimited = granted(resources={"limits": {"cpu": "0"}})
    assert (unlimited.cpu_millis_wanted, unlimited.cpu_millis_max, unlimited.memory_bytes_max) == (0, None, None)


def test_the_rest_is_passed_on() -> None:
    found = granted(
        workingDir="/srv",
        stdin=True,
        tty=True,
        terminationMessagePath="/tmp/last-words",
        terminationMessagePolicy="FallbackToLogsOnError",
        annotations={"mainstay.dev/at-most-one": "true"},
    )
    assert found.working_dir == "/srv"
    assert found.has_stdin
    assert found.has_terminal
    assert found.message_path == "/tmp/last-words"
    assert found.is_message_from_log
    assert found.is_at_most_one
