"""Jobs on real processes, used with the real kubectl: made, waited for, looked at; one that fails, and an indexed one.

Server, scheduler and controllers are ours, each a process; what the pods run are processes, too.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.clients.kubectl import Kubectl
from tests.clients.server_process import ServerProcess
from tests.clients.test_kubectl_rollout import component
from tests.processes import eventually

pytestmark = pytest.mark.slow

WITHIN = "--timeout=60s"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kubectl]:
    with ServerProcess() as server, ExitStack() as stack:
        stack.enter_context(component(server, "controllers", "--only=job,disruption-budget,owner-cleanup,pod-garbage"))
        stack.enter_context(component(server, "scheduler"))
        stack.enter_context(component(server, "agent", "--name=node-1"))
        yield Kubectl(server, "default")


def test_a_job_is_made_and_waited_for_and_says_what_it_did(cluster):
    kubectl = cluster

    kubectl("create", "job", "hello", "--image=busybox", "--", "/bin/sh", "-c", "echo hello from $HOSTNAME")
    kubectl("wait", "--for=condition=complete", "job/hello", WITHIN)

    (row,) = kubectl.table("get", "jobs")
    assert (row["NAME"], row["STATUS"], row["COMPLETIONS"]) == ("hello", "Complete", "1/1")
    assert kubectl("logs", "job/hello").startswith("hello from ")
    status = kubectl.json("get", "job", "hello")["status"]
    assert (status["succeeded"], status["ready"], status["terminating"]) == (1, 0, 0)
    assert status["uncountedTerminatedPods"] == {}
    assert status["startTime"] <= status["completionTime"]
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ]
    (pod,) = kubectl.json("get", "pods", "-l", "job-name=hello")["items"]
    assert not pod["metadata"].get("finalizers")
    # Its pod goes with it.
    kubectl("delete", "job", "hello")
    eventually(lambda: not kubectl.json("get", "pods", "-l", "job-name=hello")["items"])


def test_a_job_that_fails_says_why(cluster):
    kubectl = cluster

    kubectl("create", "-f", "-", stdin=_job("bad", "exit 3", backoffLimit=0))
    kubectl("wait", "--for=condition=failed", "job/bad", WITHIN)

    status = kubectl.json("get", "job", "bad")["status"]
    assert status["failed"] == 1
    assert {each["reason"] for each in status["conditions"]} == {"BackoffLimitExceeded"}


def test_each_pod_of_an_indexed_job_knows_its_index(cluster):
    kubectl = cluster

    given = _job("parts", "echo part $JOB_COMPLETION_INDEX", completions=3, parallelism=3, completionMode="Indexed")
    kubectl("create", "-f", "-", stdin=given)
    kubectl("wait", "--for=condition=complete", "job/parts", WITHIN)

    assert kubectl.json("get", "job", "parts")["status"]["completedIndexes"] == "0-2"
    logs = kubectl("logs", "-l", "job-name=parts")
    assert sorted(logs.splitlines()) == ["part 0", "part 1", "part 2"]


def test_a_job_goes_with_its_pods_some_time_after_its_end(cluster):
    kubectl = cluster

    kubectl("create", "-f", "-", stdin=_job("brief", "true", ttlSecondsAfterFinished=1))

    eventually(lambda: not kubectl.json("get", "jobs", "--field-selector=metadata.name=brief")["items"])
    eventually(lambda: not kubectl.json("get", "pods", "-l", "job-name=brief")["items"])


def _job(name: str, script: str, **spec: Any) -> str:
    container = {"name": "main", "image": "busybox", "command": ["/bin/sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {**spec, "template": template}}
    return json.dumps(body)
