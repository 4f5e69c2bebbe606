"""What a pod's row says of its containers."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.tables import TABLES
from tests.api.table_rows import ago, an_object, row


def running(
    name: str = "app", *, ready: bool = True, restarts: int = 0, last_ended: str | None = None, **rest: Any
) -> Object:
    before = {"lastState": {"terminated": {"finishedAt": last_ended}}} if last_ended else {}
    return {"name": name, "ready": ready, "restartCount": restarts, "state": {"running": {}}, **before, **rest}


def waiting(reason: str, name: str = "app", **rest: Any) -> Object:
    return {"name": name, "ready": False, "restartCount": 0, "state": {"waiting": {"reason": reason}}, **rest}


def ended(exit_code: int, name: str = "app", **terminated: Any) -> Object:
    state = {"terminated": {"exitCode": exit_code, **terminated}}
    return {"name": name, "ready": False, "restartCount": 0, "state": state}


def a_pod(
    *statuses: Object,
    init: tuple[Object, ...] = (),
    phase: str = "Running",
    sidecars: tuple[str, ...] = (),
    conditions: tuple[Object, ...] = (),
    spec: Object | None = None,
    deleted: bool = False,
    **status: Any,
) -> Object:
    init_containers: list[Object] = [{"name": each["name"]} for each in init]
    for container in init_containers:
        if container["name"] in sidecars:
            container["restartPolicy"] = "Always"
    return an_object(
        metadata={"deletionTimestamp": ago(seconds=3)} if deleted else {},
        spec={
            "containers": [{"name": each["name"]} for each in statuses],
            "initContainers": init_containers,
            **(spec or {}),
        },
        status={
            "phase": phase,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(init),
            "conditions": list(conditions),
            **status,
        },
    )


def holds(condition: str, status: str = "True", **rest: str) -> Object:
    return {"type": condition, "status": status, **rest}


def summary(pod: Object) -> tuple[str, str, str]:
    """READY, STATUS, RESTARTS."""
    _, ready, status, restarts, *_ = row("Pod", pod)
    return ready, status, restarts


def conditions(pod: Object) -> list[Object]:
    """What is said of its row besides the cells."""
    write = TABLES["", "Pod"].conditions
    assert write is not None
    return list(write(pod))


def test_a_running_pod_shows_where_it_is():
    pod = a_pod(running(), spec={"nodeName": "node-1"}, podIP="10.0.0.7")

    assert row("Pod", pod) == ["web", "1/1", "Running", "0", "5m", "10.0.0.7", "node-1", "<none>", "<none>"]


def test_a_pod_that_waits_for_a_node_shows_the_one_where_room_is_made():
    pod = a_pod(phase="Pending", spec={"containers": [{}, {}]}, nominatedNodeName="node-2")

    assert row("Pod", pod) == ["web", "0/2", "Pending", "0", "5m", "<none>", "<none>", "node-2", "<none>"]


def test_the_first_of_several_addresses_is_shown():
    assert row("Pod", a_pod(podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]))[5] == "10.0.0.1"


def test_an_empty_object_still_has_a_row():
    assert row("Pod", {}) == ["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize(
    ("status", "pod"),
    [
        ("ContainerCreating", a_pod(waiting("ContainerCreating"), phase="Pending")),
        ("ImagePullBackOff", a_pod(waiting("ImagePullBackOff"), phase="Pending")),
        ("CrashLoopBackOff", a_pod(waiting("CrashLoopBackOff"))),
        ("Error", a_pod(ended(1, reason="Error"), phase="Failed")),
        ("OOMKilled", a_pod(ended(137, reason="OOMKilled"))),
        ("ExitCode:1", a_pod(ended(1))),
        ("Signal:9", a_pod(ended(137, signal=9))),
        ("Completed", a_pod(ended(0, reason="Completed"), phase="Succeeded")),
        ("Evicted", a_pod(phase="Failed", reason="Evicted")),
        (
            "SchedulingGated",
            a_pod(phase="Pending", conditions=(holds("PodScheduled", "False", reason="SchedulingGated"),)),
        ),
        ("Init:0/1", a_pod(init=(running("setup"),), phase="Pending")),
        ("Init:1/2", a_pod(init=(ended(0, "one"), waiting("PodInitializing", "two")), phase="Pending")),
        ("Init:CrashLoopBackOff", a_pod(init=(waiting("CrashLoopBackOff", "setup"),), phase="Pending")),
        ("Init:Error", a_pod(init=(ended(1, "setup", reason="Error"),), phase="Pending")),
        ("Init:ExitCode:2", a_pod(init=(ended(2, "setup"),), phase="Pending")),
        ("Init:Signal:9", a_pod(init=(ended(137, "setup", signal=9),), phase="Pending")),
        ("PodInitializing", a_pod(waiting("PodInitializing"), init=(ended(0, "setup"),), phase="Pending")),
        ("Terminating", a_pod(running(), deleted=True)),
        ("Unknown", a_pod(running(), deleted=True, reason="NodeLost")),
        ("NodeLost", a_pod(running(), reason="NodeLost")),
        ("Completed", a_pod(ended(0, reason="Completed"), phase="Succeeded", deleted=True)),
        ("Failed", a_pod(phase="Failed", deleted=True)),
    ],
)
def test_the_status_is_the_most_telling_word(status: str, pod: Object):
    assert row("Pod", pod)[2] == status


def test_the_first_container_that_has_something_to_say_speaks_for_the_pod():
    pod = a_pod(running("a"), waiting("CrashLoopBackOff", "b"), waiting("ErrImagePull", "c"))

    assert summary(pod) == ("1/3", "CrashLoopBackOff", "0")


def test_a_pod_runs_while_one_container_does_though_another_has_completed():
    containers = (ended(0, "job", reason="Completed"), running("server"))

    assert summary(a_pod(*containers, conditions=(holds("Ready"),))) == ("1/2", "Running", "0")
    assert summary(a_pod(*containers, conditions=(holds("Ready", "False"),))) == ("1/2", "NotReady", "0")


def test_a_failure_is_told_before_a_completion():
    pod = a_pod(ended(0, "a", reason="Completed"), ended(1, "b", reason="Error"), running("c"))

    assert summary(pod) == ("1/3", "Error", "0")


def test_restarts_are_added_up_and_the_last_one_is_dated():
    twice = running("a", restarts=2, last_ended=ago(minutes=20))
    lately = running("b", restarts=1, last_ended=ago(seconds=90))

    assert summary(a_pod(twice, lately))[2] == "3 (90s ago)"
    assert summary(a_pod(running("a", restarts=2)))[2] == "2"
    assert summary(a_pod(running("a", last_ended=ago(seconds=90))))[2] == "0"


def test_only_the_restarts_of_the_stage_that_a_pod_is_in_count():
    setup = running("setup", restarts=4)

    assert summary(a_pod(waiting("PodInitializing"), init=(setup,), phase="Pending"))[2] == "4"
    done = {**ended(0, "setup"), "restartCount": 4}
    assert summary(a_pod(running(restarts=1), init=(done,)))[2] == "1"


def test_sidecars_count_as_containers():
    proxy = running("proxy", started=True, restarts=2)
    pod = a_pod(running(restarts=1), init=(ended(0, "setup"), proxy), sidecars=("proxy",))

    assert summary(pod) == ("2/2", "Running", "3")


def test_a_sidecar_that_has_not_started_holds_up_the_others():
    pod = a_pod(waiting("PodInitializing"), init=(running("proxy", ready=False, started=False),), sidecars=("proxy",))

    assert summary(pod) == ("0/2", "Init:0/1", "0")


def test_a_pod_that_was_initialized_once_is_judged_by_its_containers():
    broken_sidecar = waiting("CrashLoopBackOff", "proxy")
    pod = a_pod(running(), init=(broken_sidecar,), sidecars=("proxy",), conditions=(holds("Initialized"),))

    assert summary(pod) == ("1/2", "Init:CrashLoopBackOff", "0")
    pod = a_pod(
        ended(1, reason="Error"), init=(broken_sidecar,), sidecars=("proxy",), conditions=(holds("Initialized"),)
    )
    assert summary(pod) == ("0/2", "Error", "0")


def test_readiness_gates_are_counted():
    spec = {"readinessGates": [{"conditionType": "example.com/fed"}, {"conditionType": "example.com/watered"}]}

    assert row("Pod", a_pod(running(), spec=spec, conditions=(holds("example.com/fed"),)))[8] == "1/2"


@pytest.mark.parametrize(
    ("phase", "message"), [("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed.")]
)
def test_the_row_of_a_pod_that_is_over_says_so(phase: str, message: str):
    said = {"type": "Completed", "status": "True", "reason": phase, "message": message}

    assert conditions(a_pod(phase=phase)) == [said]


@pytest.mark.parametrize("pod", [{}, {"status": "x"}, a_pod(phase="Pending"), a_pod(running()), a_pod(deleted=True)])
def test_the_row_of_any_other_pod_says_nothing_besides(pod: Object):
    assert conditions(pod) == []
