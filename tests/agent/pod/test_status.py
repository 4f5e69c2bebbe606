"""What is reported of a pod: phases, conditions and container statuses as the kubelet has them, and as kubectl reads
them."""

from typing import Any

import pytest

from mainstay.agent.pod.facts import ContainerWaiting, PodRefused, ProbeVerdicts
from mainstay.agent.pod.lifecycle import decide
from mainstay.agent.pod.status_patch import status_patch
from mainstay.agent.runner import State
from mainstay.api.kind import Object
from mainstay.api.kinds.pods import POD
from mainstay.api.strategic_merge import strategic_merge
from tests.agent.pods_and_facts import (
    NOON,
    a_pod,
    a_sidecar,
    after,
    an_id,
    condition,
    ended,
    instances,
    row,
    running,
    some_facts,
    state_of,
    text,
    with_status,
)
from tests.api.builders import a_container

PROBE = {"exec": {"command": ["true"]}}


def status_at(pod: Object, at: float, _instances: dict[str, State | list[State]], **facts: Any) -> Object:
    return decide(pod, some_facts(instances(**_instances), **facts), after(at)).status


@pytest.mark.parametrize(
    ("policy", "states", "phase"),
    [
        ("Always", {}, "Pending"),
        ("Always", {"a": running()}, "Pending"),  # b was not started yet.
        ("Always", {"a": running(), "b": running()}, "Running"),
        ("Always", {"a": running(), "b": ended(1)}, "Running"),
        ("Always", {"a": ended(0), "b": ended(0)}, "Running"),
        ("Always", {"a": ended(1), "b": ended(1)}, "Running"),
        ("OnFailure", {"a": running(), "b": ended(0)}, "Running"),
        ("OnFailure", {"a": ended(0), "b": ended(0)}, "Succeeded"),
        ("OnFailure", {"a": ended(0), "b": ended(1)}, "Running"),
        ("OnFailure", {"a": ended(0)}, "Pending"),
        ("Never", {"a": running(), "b": ended(1)}, "Running"),
        ("Never", {"a": ended(0), "b": ended(0)}, "Succeeded"),
        ("Never", {"a": ended(1), "b": ended(0)}, "Failed"),
        ("Never", {"a": ended(1)}, "Pending"),
    ],
)
def test_the_phase_follows_from_the_containers(policy: str, states: dict[str, State | list[State]], phase: str):
    assert status_at(a_pod("a", "b", restartPolicy=policy), 60, states)["phase"] == phase


@pytest.mark.parametrize(
    ("policy", "states", "phase"),
    [
        ("Always", {"i": running()}, "Pending"),
        ("Always", {"i": ended(1)}, "Pending"),
        ("Never", {"i": ended(1)}, "Failed"),
        ("Never", {"i": ended(0)}, "Pending"),
        ("Never", {"i": ended(0), "s": running()}, "Pending"),
        ("Never", {"i": ended(0), "s": running(), "app": running()}, "Running"),
        ("Never", {"i": ended(0), "s": ended(1), "app": running()}, "Running"),
        ("Never", {"i": ended(0), "s": running(), "app": ended(0)}, "Running"),
        ("Never", {"i": ended(0), "s": ended(1), "app": ended(0)}, "Succeeded"),
        ("OnFailure", {"i": ended(0), "s": ended(1), "app": ended(1)}, "Running"),
    ],
)
def test_the_phase_with_init_containers_and_sidecars(policy: str, states: dict[str, Any], phase: str):
    pod = a_pod("app", init=(a_container("i"), a_sidecar("s")), restartPolicy=policy)

    assert status_at(pod, 60, states)["phase"] == phase


def test_a_whole_status():
    pod = a_pod("app")
    before = status_at(pod, 0, {}, is_placed=False)
    status = status_at(with_status(pod, before), 5, {"app": running(4)})

    def since(kind: str, at: float) -> Object:
        return {"type": kind, "status": "True", "lastTransitionTime": text(at), "observedGeneration": 1}

    assert status == {
        "observedGeneration": 1,
        "phase": "Running",
        "qosClass": "BestEffort",
        "startTime": text(0),
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "127.64.0.2",
        "podIPs": [{"ip": "127.64.0.2"}],
        "conditions": [
            since("PodReadyToStartContainers", 5),
            since("Initialized", 0),
            since("Ready", 5),
            since("ContainersReady", 5),
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(-1)},
        ],
        "containerStatuses": [
            {
                "name": "app",
                "image": "x:1",
                "imageID": "x:1",
                "containerID": "mainstay://u-1/app/0",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": text(4)}},
                "lastState": {},
            }
        ],
    }


def test_the_status_of_a_container_that_was_started_again():
    attempts: list[State] = [ended(143, since=0, at=9, signal=15, message="bye"), running(10)]

    assert state_of(status_at(a_pod("app"), 11, {"app": attempts})) == {
        "name": "app",
        "image": "x:1",
        "imageID": "x:1",
        "containerID": "mainstay://u-1/app/1",
        "ready": True,
        "started": True,
        "restartCount": 1,
        "state": {"running": {"startedAt": text(10)}},
        "lastState": {
            "terminated": {
                "exitCode": 143,
                "signal": 15,
                "reason": "Error",
                "message": "bye",
                "startedAt": text(0),
                "finishedAt": text(9),
                "containerID": "mainstay://u-1/app/0",
            }
        },
    }


def test_containers_are_listed_by_name_and_init_containers_in_their_order():
    pod = a_pod("b", "a", init=(a_container("z"), a_container("y")))
    status = status_at(pod, 0, {})

    assert [each["name"] for each in status["containerStatuses"]] == ["a", "b"]
    assert [each["name"] for each in status["initContainerStatuses"]] == ["z", "y"]


def test_why_a_pod_is_not_ready_yet():
    pod = a_pod("app", init=(a_container("i"), a_sidecar("s")))
    status = status_at(pod, 0, {"i": running()})

    assert condition(status, "Initialized")["reason"] == "ContainersNotInitialized"
    assert condition(status, "Initialized")["message"] == "containers with incomplete status: [i s]"
    for kind in ("Ready", "ContainersReady"):
        assert condition(status, kind)["reason"] == "ContainersNotReady"
        assert condition(status, kind)["message"] == "containers with unready status: [s app]"


def test_a_pod_is_ready_only_with_its_readiness_gates():
    pod = a_pod("app", readinessGates=[{"conditionType": "example.org/lb"}])
    status = status_at(pod, 0, {"app": running()})
    assert condition(status, "ContainersReady")["status"] == "True"
    assert condition(status, "Ready")["reason"] == "ReadinessGatesNotReady"
    expected = 'corresponding condition of pod readiness gate "example.org/lb" does not exist.'
    assert condition(status, "Ready")["message"] == expected

    def with_gate(holds: str) -> Object:
        gate = {"type": "example.org/lb", "status": holds}
        return with_status(pod, {**status, "conditions": [gate, *status["conditions"]]})

    closed = status_at(with_gate("False"), 5, {"app": running()})
    expected = 'the status of pod readiness gate "example.org/lb" is not "True", but False'
    assert condition(closed, "Ready")["message"] == expected
    is_open = status_at(with_gate("True"), 9, {"app": running()})
    assert condition(is_open, "Ready")["status"] == "True"
    assert condition(is_open, "Ready")["lastTransitionTime"] == text(9)
    assert condition(is_open, "example.org/lb") == {"type": "example.org/lb", "status": "True"}


def test_readiness_and_startup_are_what_the_probes_say():
    pod = a_pod(a_container("app", startupProbe=PROBE, readinessProbe=PROBE))

    def judged(verdicts: ProbeVerdicts) -> tuple[bool, bool]:
        state = state_of(status_at(pod, 5, {"app": running()}, probes={an_id(): verdicts}))
        return state["started"], state["ready"]

    assert judged(ProbeVerdicts()) == (False, False)
    assert judged(ProbeVerdicts(is_ready=True)) == (False, False)
    assert judged(ProbeVerdicts(is_started=True)) == (True, False)
    assert judged(ProbeVerdicts(is_started=True, is_ready=True)) == (True, True)


def test_an_agent_that_was_started_again_leaves_its_pods_ready_until_it_has_probed_them():
    pod = a_pod(a_container("app", startupProbe=PROBE, readinessProbe=PROBE))
    well = {an_id(): ProbeVerdicts(is_started=True, is_ready=True)}
    pod = with_status(pod, status_at(pod, 5, {"app": running()}, probes=well))

    assert status_at(pod, 60, {"app": running()}, is_placed=False) == pod["status"]
    # But not another attempt than the one that was found ready.
    assert not state_of(status_at(pod, 60, {"app": [ended(1), running(50)]}))["ready"]
    sick = {an_id(): ProbeVerdicts(is_started=True, is_ready=False)}
    assert not state_of(status_at(pod, 60, {"app": running()}, probes=sick))["ready"]


def test_conditions_of_a_pod_that_is_over():
    pod = a_pod("app", restartPolicy="Never")

    done = status_at(pod, 60, {"app": ended(0)})
    assert condition(done, "Ready")["reason"] == condition(done, "Initialized")["reason"] == "PodCompleted"
    assert condition(done, "PodReadyToStartContainers")["status"] == "False"
    failed = status_at(pod, 60, {"app": ended(1)})
    assert condition(failed, "Ready")["reason"] == condition(failed, "ContainersReady")["reason"] == "PodFailed"


@pytest.mark.parametrize(
    ("pod", "states", "facts", "shown"),
    [
        (a_pod("app"), {}, {}, ["0/1", "ContainerCreating", "0"]),
        (a_pod("a", "b"), {"a": running(), "b": running()}, {}, ["2/2", "Running", "0"]),
        (a_pod("app"), {"app": [ended(1), running(2)]}, {}, ["1/1", "Running", "1 (59s ago)"]),
        (a_pod("app"), {"app": ended(0)}, {}, ["0/1", "Completed", "0"]),
        (a_pod("app"), {"app": ended(1)}, {}, ["0/1", "Error", "0"]),
        (a_pod("app"), {"app": ended(137, reason="OOMKilled")}, {}, ["0/1", "OOMKilled", "0"]),
        (
            a_pod("app"),
            {"app": [ended(1), ended(1, since=51, at=52)]},
            {},
            ["0/1", "CrashLoopBackOff", "1 (8s ago)"],
        ),
        (a_pod("app", restartPolicy="Never"), {"app": ended(0)}, {}, ["0/1", "Completed", "0"]),
        (a_pod("app", restartPolicy="Never"), {"app": ended(1)}, {}, ["0/1", "Error", "0"]),
        (
            a_pod("app"),
            {},
            {"waiting": {"app": ContainerWaiting("CommandRequired", "no")}},
            ["0/1", "CommandRequired", "0"],
        ),
        (a_pod("app"), {}, {"refused": PodRefused("OutOfcpu", "no")}, ["0/1", "OutOfcpu", "0"]),
        (a_pod("app", init=(a_container("i"), a_container("j"))), {}, {}, ["0/1", "Init:0/2", "0"]),
        (
            a_pod("app", init=(a_container("i"), a_container("j"))),
            {"i": ended(0), "j": running()},
            {},
            ["0/1", "Init:1/2", "0"],
        ),
        (a_pod("app", init=(a_container("i"),)), {"i": ended(1)}, {}, ["0/1", "Init:Error", "0"]),
        (
            a_pod("app", init=(a_container("i"),)),
            {"i": [ended(1), ended(1, since=51, at=52)]},
            {},
            ["0/1", "Init:CrashLoopBackOff", "1 (8s ago)"],
        ),
        (a_pod("app", init=(a_container("i"),)), {"i": ended(0)}, {}, ["0/1", "PodInitializing", "0"]),
        (a_pod("app", init=(a_sidecar("s"),)), {"s": running(), "app": running()}, {}, ["2/2", "Running", "0"]),
        (a_pod("app", deleted_at=50), {"app": running()}, {}, ["1/1", "Terminating", "0"]),
        (a_pod("app", activeDeadlineSeconds=30), {"app": ended(143)}, {}, ["0/1", "Error", "0"]),
        (a_pod("app", activeDeadlineSeconds=30), {}, {}, ["0/1", "DeadlineExceeded", "0"]),
    ],
)
def test_what_kubectl_get_pods_shows(
    pod: Object, states: dict[str, State | list[State]], facts: dict[str, Any], shown: list[str]
):
    assert row(with_status(pod, status_at(pod, 60, states, **facts))) == shown


def test_a_container_that_waits_for_a_secret_names_it_for_programs():
    pod = a_pod("app")
    why = ContainerWaiting("FailedMount", "no secret", missing="Secret/db")

    [app] = status_at(pod, 60, {}, waiting={"app": why})["containerStatuses"]

    assert app["state"] == {"waiting": {"reason": "FailedMount", "message": "no secret", "missing": "Secret/db"}}


# The patch.


def test_nothing_is_written_when_nothing_has_changed():
    pod = a_pod("app")
    pod = with_status(pod, status_at(pod, 0, {"app": running()}))

    assert status_patch(pod["status"], status_at(pod, 60, {"app": running()})) is None


def test_empty_is_as_good_as_missing():
    assert status_patch({"phase": "Pending"}, {"phase": "Pending", "message": "", "podIPs": []}) is None


def test_a_patch_takes_back_what_is_not_said_any_more():
    pod = a_pod("app")
    pod = with_status(pod, {**status_at(pod, 0, {}), "reason": "NodeLost"})
    wanted = status_at(pod, 5, {"app": running()})

    patch = status_patch(pod["status"], wanted)

    assert patch is not None
    assert strategic_merge(pod, {"status": patch}, POD.message)["status"] == wanted
    assert patch["reason"] is None


def test_a_patch_leaves_conditions_of_others_alone():
    pod = a_pod("app")
    wanted = status_at(pod, 0, {})
    patch = status_patch(pod["status"], wanted)
    gate = {"type": "example.org/lb", "status": "True"}
    meanwhile = with_status(pod, {**pod["status"], "conditions": [*pod["status"]["conditions"], gate]})

    written = strategic_merge(meanwhile, {"status": patch}, POD.message)["status"]

    assert condition(written, "example.org/lb") == gate
    assert status_patch(written, decide(with_status(pod, written), some_facts(), NOON).status) is None
