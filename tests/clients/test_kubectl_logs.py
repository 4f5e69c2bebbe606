"""kubectl's logs, of a node that serves them over TLS."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.agent.serving_node import ServingNode
from tests.clients.kubectl import a_pod
from tests.processes import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def node(kubectl, tmp_path):
    with ServingNode(kubectl, tmp_path) as node:
        yield node


def test_a_log_is_shown_from_beginning_to_end(kubectl, node):
    container = node.add_pod("web")["c"]
    for number in range(3):
        node.runner.say(container, f"line {number}\n")
    node.runner.say(container, "no newline")

    assert kubectl("logs", "web") == "line 0\nline 1\nline 2\nno newline"


def test_the_end_of_a_log_and_its_times(kubectl, node):
    container = node.add_pod("web")["c"]
    for number in range(10):
        node.runner.say(container, f"line {number}\n")

    assert kubectl("logs", "web", "--tail=2") == "line 8\nline 9\n"
    assert kubectl("logs", "web", "--tail=0") == ""
    assert kubectl("logs", "web", "--limit-bytes=9") == "line 0\nli"
    assert kubectl("logs", "web", "--tail=1", "--timestamps") == "2026-11-16T08:00:09.000000000Z line 9\n"
    assert kubectl("logs", "web", "--since-time=2026-11-16T08:00:08Z") == "line 8\nline 9\n"


def test_what_was_said_lately(kubectl, node):
    container = node.add_pod("web")["c"]
    now = datetime.now(UTC)
    node.runner.say(container, "long ago\n", at=now - timedelta(hours=1))
    node.runner.say(container, "just now\n", at=now - timedelta(seconds=5))

    assert kubectl("logs", "web", "--since=10m") == "just now\n"


def test_a_log_is_followed_until_its_container_ends(kubectl, node):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "first\n")

    with kubectl.running("logs", "-f", "web") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "first\n"
        node.call(node.runner.say, container, "second\n")
        assert following.stdout.readline() == "second\n"
        node.call(node.runner.finish, container)
        assert following.stdout.read() == ""
        assert following.wait(10) == 0


def test_who_stops_following_is_not_written_to_any_more(kubectl, node):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "first\n")

    with kubectl.running("logs", "-f", "web") as following:
        assert following.stdout is not None
        following.stdout.readline()
        assert node.runner.readers == 1
    eventually(lambda: node.runner.readers == 0)


def test_one_container_of_several_has_to_be_named(kubectl, node):
    containers = node.add_pod("web", "a", "b")
    node.runner.say(containers["a"], "of a\n")
    node.runner.say(containers["b"], "of b\n")

    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/web/log"
    assert kubectl.refused("get", "--raw", path) == (
        "Error from server (BadRequest): a container name must be specified for pod web, choose one of: [a b]"
    )
    assert kubectl("logs", "web", "-c", "b") == "of b\n"
    both = kubectl("logs", "web", "--all-containers", "--prefix").splitlines()
    assert sorted(both) == ["[pod/web/a] of a", "[pod/web/b] of b"]  # kubectl keeps its requests in a map.
    assert kubectl.refused("logs", "web", "-c", "x") == "error: container x is not valid for pod web"


def test_the_log_of_the_attempt_before(kubectl, node):
    first = node.add_pod("web")["c"]
    node.runner.say(first, "I fail\n")

    assert kubectl.refused("logs", "web", "--previous") == (
        'Error from server (BadRequest): previous terminated container "c" in pod "web" not found'
    )
    node.call(node.runner.finish, first, 1)
    second = node.call(node.runner.begin, first.pod_uid, "c", 1)
    node.runner.say(second, "I run\n")
    assert kubectl("logs", "web", "--previous") == "I fail\n"
    assert kubectl("logs", "web") == "I run\n"


def test_while_a_container_waits_to_be_started_again_what_ended_is_the_previous_one(kubectl, node):
    first = node.add_pod("web")["c"]
    node.runner.say(first, "I fail\n")
    node.call(node.runner.finish, first, 1)
    pod = node.pods[kubectl.namespace, "web"]
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}

    assert kubectl("logs", "web", "--previous") == "I fail\n"
    assert kubectl("logs", "web") == "I fail\n"


def test_a_container_that_was_not_started_has_no_log(kubectl, node):
    container = node.add_pod("web")["c"]
    del node.runner.states[container]
    pod = node.pods[kubectl.namespace, "web"]
    pod["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CreateContainerConfigError"}}

    assert kubectl.refused("logs", "web") == (
        'Error from server (BadRequest): container "c" in pod "web" is waiting to start: CreateContainerConfigError'
    )


def test_a_large_log_comes_whole(kubectl, node):
    container = node.add_pod("web")["c"]
    line = "x" * 99 + "\n"
    for _ in range(50_000):
        node.runner.say(container, line)

    assert kubectl("logs", "web") == line * 50_000


def test_an_agent_that_is_gone_is_said_to_be(kubectl, node):
    node.add_pod("web")
    node.stop()

    assert kubectl.refused("logs", "web") == (
        f'Error from server (ServiceUnavailable): the agent of node "{node.name}" cannot be reached at'
        f" https://127.0.0.1:{node.port}: Connection refused"
    )


def test_an_agent_with_another_certificate_is_not_asked(kubectl, node, tmp_path):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "secret\n")
    known = node.digest
    node.stop()
    (tmp_path / "other").mkdir()
    node.start(node.port, directory=tmp_path / "other")

    refused = kubectl.refused("logs", "web")
    assert f'is not the agent of node "{node.name}"' in refused
    # What answers at an address that a node names is for the log of the server alone.
    assert node.digest not in refused
    assert known in refused
    assert node.runner.lines_read == 0

    node.tell()
    assert kubectl("logs", "web") == "secret\n"


def test_a_node_that_says_nothing_of_a_certificate_is_not_asked(kubectl, node):
    node.add_pod("web")
    kubectl("annotate", "node", node.name, "mainstay.dev/agent-certificate-")

    assert "has no certificate of its agent" in kubectl.refused("logs", "web")


def test_the_same_name_of_another_pod_gives_no_log(kubectl, node):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "secret\n")
    node.pods[kubectl.namespace, "web"]["metadata"]["uid"] = "another"

    assert "has another pod named" in kubectl.refused("logs", "web")


def test_a_pod_on_a_node_that_does_not_exist(kubectl):
    kubectl("create", "-f", "-", stdin=a_pod("web", nodeName="nowhere"))

    assert kubectl.refused("logs", "web") == 'Error from server (NotFound): nodes "nowhere" not found'


def test_impossible_wishes_are_refused(kubectl, node):
    node.add_pod("web")
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/web/log"

    for query, words in {
        "tailLines=-1": "tailLines: Invalid value: -1: must be greater than or equal to 0",
        "limitBytes=0": "limitBytes: Invalid value: 0: must be greater than 0",
        "sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z": "at most one of `sinceTime` or `sinceSeconds`",
        "stream=Stdin": 'Unsupported value: "Stdin"',
        "sinceTime=yesterday": 'parsing time "yesterday"',
    }.items():
        assert words in kubectl.refused("get", "--raw", f"{path}?{query}")


def test_one_stream_alone(kubectl, node):
    container = node.add_pod("web")["c"]
    node.runner.say(container, "out\n")
    node.runner.say(container, "err\n", "stderr")
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/web/log"

    assert kubectl("get", "--raw", f"{path}?stream=Stderr") == "err\n"
    assert kubectl("get", "--raw", f"{path}?stream=All") == "out\nerr\n"
