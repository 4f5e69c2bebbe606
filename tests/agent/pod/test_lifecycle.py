"""What the agent does next about a pod, case by case as the kubelet would."""

from typing import Any

import pytest

from mainstay.agent.pod.facts import (
    ContainerWaiting,
    FailedProbe,
    HookDone,
    HookFailed,
    HookRunning,
    PodRefused,
    ProbeVerdicts,
)
from mainstay.agent.pod.lifecycle import NO_LEASE, decide
from mainstay.agent.pod.plan import End, EndReason, MakeVolumes, PodPlan, Prune, RemovePod, RunHook, StartContainer
from mainstay.agent.runner import State
from mainstay.api.annotations import AT_MOST_ONE
from mainstay.api.kind import Object
from tests.agent.pods_and_facts import (
    NOON,
    STARTING,
    a_pod,
    a_sidecar,
    after,
    an_id,
    condition,
    ended,
    instances,
    running,
    seconds,
    some_facts,
    state_of,
    with_status,
)
from tests.api.builders import a_container

HOOK = {"exec": {"command": ["true"]}}
PROBE = {"exec": {"command": ["true"]}, "failureThreshold": 3, "periodSeconds": 10}


def starts(plan: PodPlan) -> list[tuple[str, int]]:
    return [(step.name, step.attempt) for step in plan.steps if isinstance(step, StartContainer)]


def ends(plan: PodPlan) -> list[tuple[str, EndReason]]:
    return [(step.id.name, step.why) for step in plan.steps if isinstance(step, End)]


def reported(pod: Object, at: float = 0, **facts: Any) -> Object:
    """The pod after what is so now was reported."""
    return with_status(pod, decide(pod, some_facts(**facts), after(at)).status)


# Starting.


def test_all_main_containers_start_at_once():
    plan = decide(a_pod("a", "b"), some_facts(), NOON)

    assert plan.steps == (StartContainer("a", 0), StartContainer("b", 0))


def test_nothing_starts_before_the_volumes_are_there():
    plan = decide(a_pod("a"), some_facts(is_placed=False), NOON)

    assert plan.steps == (MakeVolumes(),)
    assert condition(plan.status, "PodReadyToStartContainers")["status"] == "False"


def test_init_containers_run_one_after_the_other_and_then_the_main_ones():
    pod = a_pod("app", init=(a_container("i0"), a_container("i1")))

    def started_with(**states: State | list[State]) -> list[tuple[str, int]]:
        return starts(decide(pod, some_facts(instances(**states)), after(100)))

    assert started_with() == [("i0", 0)]
    assert started_with(i0=STARTING) == []
    assert started_with(i0=running()) == []
    assert started_with(i0=ended(0)) == [("i1", 0)]
    assert started_with(i0=ended(1)) == [("i0", 1)]
    assert started_with(i0=ended(0), i1=running()) == []
    assert started_with(i0=ended(0), i1=ended(0)) == [("app", 0)]
    assert started_with(i0=ended(0), i1=ended(0), app=running()) == []
    assert started_with(i0=ended(0), i1=ended(0), app=ended(1)) == [("app", 1)]


def test_an_init_container_is_not_run_again_after_the_pod_was_initialized_even_if_nothing_is_known_of_it():
    pod = a_pod("app", init=(a_container("i0"),))

    assert starts(decide(pod, some_facts(instances(app=ended(1))), after(100))) == [("app", 1)]


def test_an_init_container_that_fails_ends_the_pod_if_nothing_is_to_be_restarted():
    pod = a_pod("app", init=(a_sidecar("s"), a_container("i0")), restartPolicy="Never")

    plan = decide(pod, some_facts(instances(s=running(), i0=ended(1))), after(100))

    assert starts(plan) == []
    assert ends(plan) == [("s", EndReason.POD_OVER)]
    assert plan.status["phase"] == "Pending"  # Something of it runs still.
    assert decide(pod, some_facts(instances(s=ended(0), i0=ended(1))), after(100)).status["phase"] == "Failed"


def test_a_sidecar_lets_the_next_one_start_as_soon_as_it_has_started():
    pod = a_pod("app", init=(a_sidecar("s", startupProbe=PROBE), a_container("i0")))
    begun = instances(s=running())
    started = {an_id("s"): ProbeVerdicts(is_started=True)}

    assert starts(decide(pod, some_facts(), NOON)) == [("s", 0)]
    assert starts(decide(pod, some_facts(begun), after(5))) == []
    assert starts(decide(pod, some_facts(begun, probes=started), after(5))) == [("i0", 0)]


def test_a_sidecar_that_ends_is_started_again_whatever_its_pod_and_its_exit_code_say():
    pod = a_pod("app", init=(a_sidecar("s"), a_container("i0")), restartPolicy="Never")

    assert starts(decide(pod, some_facts(instances(s=ended(0))), after(9))) == [("s", 1)]
    assert starts(decide(pod, some_facts(instances(s=ended(0), i0=running())), after(9))) == [("s", 1)]
    assert starts(decide(pod, some_facts(instances(s=ended(0), i0=ended(0))), after(9))) == [("s", 1), ("app", 0)]
    over = instances(s=ended(0), i0=ended(0), app=running())
    assert starts(decide(pod, some_facts(over), after(9))) == [("s", 1)]


def test_while_a_post_start_hook_runs_nothing_else_starts():
    pod = a_pod(a_container("a", lifecycle={"postStart": HOOK}), "b")
    runs = instances(a=running())

    assert decide(pod, some_facts(), NOON).steps == (StartContainer("a", 0),)
    assert decide(pod, some_facts(instances(a=STARTING)), NOON).steps == ()
    assert decide(pod, some_facts(runs), NOON).steps == (RunHook(an_id("a"), HOOK),)
    assert decide(pod, some_facts(runs, hooks={an_id("a"): HookRunning()}), NOON).steps == ()
    assert decide(pod, some_facts(runs, hooks={an_id("a"): HookDone()}), NOON).steps == (StartContainer("b", 0),)


def test_a_container_is_not_shown_as_running_before_its_hook_is_through():
    pod = a_pod(a_container("app", lifecycle={"postStart": HOOK}))
    runs = instances(app=running())

    plan = decide(pod, some_facts(runs, hooks={an_id(): HookRunning()}), NOON)

    assert state_of(plan.status)["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert plan.status["phase"] == "Pending"
    plan = decide(pod, some_facts(runs, hooks={an_id(): HookDone()}), NOON)
    assert plan.status["phase"] == "Running"


def test_a_container_whose_hook_fails_is_ended_and_says_why():
    pod = a_pod(a_container("app", lifecycle={"postStart": HOOK, "preStop": HOOK}))

    plan = decide(pod, some_facts(instances(app=running()), hooks={an_id(): HookFailed("exit 3")}), after(5))

    assert plan.steps == (End(an_id(), seconds(30), HOOK, EndReason.POST_START),)
    assert state_of(plan.status)["state"] == {"waiting": {"reason": "PostStartHookError", "message": "exit 3"}}


def test_an_agent_that_was_started_again_does_not_repeat_a_hook_that_was_reported_as_done():
    pod = a_pod(a_container("app", lifecycle={"postStart": HOOK}))
    pod = reported(pod, instances=instances(app=running()), hooks={an_id(): HookDone()})

    plan = decide(pod, some_facts(instances(app=running())), after(60))

    assert plan.steps == ()
    assert plan.status == pod["status"]


# Starting again.


@pytest.mark.parametrize(
    ("policy", "code", "phase", "is_restarted"),
    [
        ("Always", 0, "Running", True),
        ("Always", 1, "Running", True),
        ("OnFailure", 0, "Succeeded", False),
        ("OnFailure", 1, "Running", True),
        ("Never", 0, "Succeeded", False),
        ("Never", 1, "Failed", False),
    ],
)
def test_what_ends_is_started_again_by_policy(policy: str, code: int, phase: str, is_restarted: bool):
    plan = decide(a_pod("app", restartPolicy=policy), some_facts(instances(app=ended(code))), after(100))

    assert starts(plan) == ([("app", 1)] if is_restarted else [])
    assert plan.status["phase"] == phase


def test_a_container_that_crashes_again_waits_and_says_until_when():
    crashed = some_facts(instances(app=[ended(1, since=0, at=1), ended(1, since=1, at=2)]))

    plan = decide(a_pod("app"), crashed, after(5))

    assert plan.steps == ()
    assert plan.wake_at == after(12)
    assert state_of(plan.status)["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=app pod=web_default(u-1)",
    }
    assert state_of(plan.status)["lastState"]["terminated"]["containerID"] == "mainstay://u-1/app/1"
    assert starts(decide(a_pod("app"), crashed, after(12))) == [("app", 2)]


def test_it_goes_on_saying_so_until_it_runs_again():
    attempts: list[State] = [ended(1, since=0, at=1), ended(1, since=1, at=2)]
    pod = reported(a_pod("app"), 5, instances=instances(app=attempts))

    assert decide(pod, some_facts(instances(app=attempts)), after(12)).status == pod["status"]
    assert decide(pod, some_facts(instances(app=[*attempts, STARTING])), after(12)).status == pod["status"]
    plan = decide(pod, some_facts(instances(app=[*attempts, running(12)])), after(12))
    assert "running" in state_of(plan.status)["state"]
    assert state_of(plan.status)["restartCount"] == 2


def test_an_init_container_that_crashes_again_waits_too():
    pod = a_pod("app", init=(a_container("i0"),))

    plan = decide(pod, some_facts(instances(i0=[ended(1), ended(1, since=1, at=2)])), after(3))

    assert starts(plan) == []
    assert state_of(plan.status, "i0")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert state_of(plan.status, "app")["state"]["waiting"]["reason"] == "PodInitializing"
    assert plan.status["phase"] == "Pending"


def test_old_attempts_are_forgotten_but_for_the_last_two():
    attempts: list[State] = [ended(1), ended(1), ended(1, at=2), running(30)]

    assert decide(a_pod("app"), some_facts(instances(app=attempts)), after(40)).steps == (Prune("app", 2),)
    assert decide(a_pod("app"), some_facts(instances(app=attempts[1:])), after(40)).steps == ()


def test_what_cannot_be_started_says_why_and_is_tried_again_when_that_makes_sense():
    hopeless = some_facts(waiting={"app": ContainerWaiting("CommandRequired", "say what to run")})
    plan = decide(a_pod("app"), hopeless, NOON)
    assert (plan.steps, plan.wake_at) == ((), None)
    assert state_of(plan.status)["state"] == {"waiting": {"reason": "CommandRequired", "message": "say what to run"}}
    assert plan.status["phase"] == "Pending"

    later = some_facts(waiting={"app": ContainerWaiting("CreateContainerConfigError", "no secret", after(10))})
    plan = decide(a_pod("app"), later, NOON)
    assert (plan.steps, plan.wake_at) == ((), after(10))
    again = decide(with_status(a_pod("app"), plan.status), later, after(10))
    assert starts(again) == [("app", 0)]
    assert again.status == plan.status  # Until it has started, that is what is known of it.


def test_an_at_most_one_pod_starts_only_while_the_lease_is_held():
    pod = a_pod("app", annotations={AT_MOST_ONE: "true"})

    plan = decide(pod, some_facts(is_lease_held=False), NOON)
    assert plan.steps == ()
    assert state_of(plan.status)["state"]["waiting"]["reason"] == NO_LEASE.reason
    fenced = instances(app=ended(137, reason="Fenced"))
    assert decide(pod, some_facts(fenced, is_lease_held=False), after(60)).steps == ()
    assert starts(decide(pod, some_facts(fenced), after(60))) == [("app", 1)]
    assert starts(decide(a_pod("app"), some_facts(is_lease_held=False), NOON)) == [("app", 0)]


def test_a_container_the_runner_has_lost_is_started_again_under_the_next_number():
    pod = reported(a_pod("app"), instances=instances(app=running()))

    plan = decide(pod, some_facts(), after(60))

    assert starts(plan) == [("app", 1)]
    assert state_of(plan.status)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert plan.status["phase"] == "Running"
    never = reported(a_pod("app", restartPolicy="Never"), instances=instances(app=running()))
    assert decide(never, some_facts(), after(60)).status["phase"] == "Failed"


def test_a_container_that_the_spec_does_not_have_is_ended():
    plan = decide(a_pod("app"), some_facts(instances(app=running(), old=running())), after(5))

    assert ends(plan) == [("old", EndReason.NOT_WANTED)]


# Probes.


def test_a_container_whose_liveness_fails_is_ended_and_started_again():
    probe = {**PROBE, "terminationGracePeriodSeconds": 7}
    pod = a_pod(a_container("app", livenessProbe=probe), restartPolicy="OnFailure")
    failed = {an_id(): ProbeVerdicts(failed=FailedProbe.LIVENESS)}

    plan = decide(pod, some_facts(instances(app=running()), probes=failed), after(60))
    assert plan.steps == (End(an_id(), seconds(7), None, EndReason.LIVENESS),)
    # It was ended for a failure, so it is one, even if it says that all went well.
    plan = decide(pod, some_facts(instances(app=ended(0, at=61)), probes=failed), after(61))
    assert starts(plan) == [("app", 1)]
    assert plan.status["phase"] == "Running"
    # What was found about one attempt is not held against the next.
    assert decide(pod, some_facts(instances(app=[ended(0), running(62)]), probes=failed), after(63)).steps == ()


def test_startup_that_fails_ends_the_container_with_the_grace_of_the_pod():
    pod = a_pod(a_container("app", startupProbe=PROBE), restartPolicy="Never")
    failed = {an_id(): ProbeVerdicts(failed=FailedProbe.STARTUP)}

    plan = decide(pod, some_facts(instances(app=running()), probes=failed), after(60))

    assert plan.steps == (End(an_id(), seconds(30), None, EndReason.STARTUP),)
    assert decide(pod, some_facts(instances(app=ended(0, at=61)), probes=failed), after(61)).steps == ()


def test_a_container_whose_image_was_changed_is_started_again():
    pod = reported(a_pod("app"), instances=instances(app=running()))
    pod["spec"]["containers"][0]["image"] = "x:2"

    plan = decide(pod, some_facts(instances(app=running())), after(60))

    assert ends(plan) == [("app", EndReason.CHANGED)]
    assert state_of(plan.status)["image"] == "x:1"


# Ending.


def test_a_deleted_pod_is_reported_as_not_ready_before_anything_ends():
    runs = instances(app=running())
    pod = reported(a_pod("app"), instances=runs)
    deleted = {**a_pod("app", deleted_at=60), "status": pod["status"]}

    plan = decide(deleted, some_facts(runs, ending_since=after(60)), after(60))
    assert (plan.steps, plan.wake_at) == ((), after(62))
    assert condition(plan.status, "Ready")["status"] == "False"
    assert state_of(plan.status)["ready"] is True

    plan = decide(with_status(deleted, plan.status), some_facts(runs, ending_since=after(60)), after(61))
    assert plan.steps == (End(an_id(), seconds(29), None, EndReason.POD_DELETED),)
    # If it cannot be reported, it is ended all the same.
    plan = decide(deleted, some_facts(runs, ending_since=after(60)), after(62))
    assert plan.steps == (End(an_id(), seconds(28), None, EndReason.POD_DELETED),)


def test_main_containers_end_first_then_sidecars_the_last_one_first():
    pod = a_pod("a", "b", init=(a_sidecar("s0"), a_sidecar("s1", lifecycle={"preStop": HOOK})), deleted_at=60)
    facts = {"ending_since": after(60)}

    def ended_with(_at: float = 61, **states: Any) -> list[str]:
        return [name for name, _ in ends(decide(pod, some_facts(instances(**states), **facts), after(_at)))]

    sides: dict[str, Any] = {"s0": running(), "s1": running()}
    assert ended_with(**sides, a=running(), b=running()) == ["a", "b"]
    assert ended_with(**sides, a=ended(), b=running()) == ["b"]
    assert ended_with(**sides, a=ended(), b=ended()) == ["s1"]
    assert ended_with(s0=running(), s1=ended(), a=ended(), b=ended()) == ["s0"]
    # When there is no time left, no container waits for its turn.
    assert ended_with(90, **sides, a=running(), b=ended()) == ["a", "s1", "s0"]
    plan = decide(pod, some_facts(instances(**sides, a=ended(), b=ended()), **facts), after(85))
    assert plan.steps == (End(an_id("s1"), seconds(5), HOOK, EndReason.POD_DELETED),)
    assert plan.wake_at == after(90)


def test_a_shorter_grace_that_was_asked_for_later_counts():
    runs = instances(app=running())

    plan = decide(a_pod("app", deleted_at=60, grace=1), some_facts(runs, ending_since=after(60)), after(60.5))
    assert plan.steps == (End(an_id(), seconds(1), None, EndReason.POD_DELETED),)


def test_a_deleted_pod_is_removed_when_its_last_status_is_stored():
    pod = a_pod("app", deleted_at=60)
    over = some_facts(instances(app=ended(143, at=62)), ending_since=after(60))

    plan = decide(pod, over, after(63))
    assert plan.steps == ()
    assert plan.status["phase"] == "Failed"
    assert state_of(plan.status)["state"]["terminated"]["exitCode"] == 143
    plan = decide(with_status(pod, plan.status), over, after(63))
    assert plan.steps == (RemovePod(),)


def test_a_deleted_pod_that_never_ran_never_starts_and_is_removed():
    pod = a_pod("app", deleted_at=60)

    plan = decide(pod, some_facts(), after(60))
    assert (plan.steps, plan.status["phase"]) == ((), "Failed")
    assert decide(with_status(pod, plan.status), some_facts(), after(60)).steps == (RemovePod(),)


def test_a_deleted_pod_that_only_waits_for_its_finalizers_is_left_alone():
    pod = a_pod("app", deleted_at=60, grace=0)
    pod = reported(pod, 60)

    assert decide(pod, some_facts(), after(61)).steps == ()


def test_nothing_is_started_again_in_a_deleted_pod():
    pod = a_pod("app", "b", deleted_at=60)

    plan = decide(pod, some_facts(instances(app=ended(1), b=running())), after(61))

    assert starts(plan) == []
    assert ends(plan) == [("b", EndReason.POD_DELETED)]


def test_a_pod_that_runs_into_its_deadline_fails_when_nothing_of_it_runs_any_more():
    pod = a_pod("app", activeDeadlineSeconds=100)
    runs = instances(app=running())
    pod = reported(pod, instances=runs)

    assert decide(pod, some_facts(runs), after(99)).wake_at == after(100)
    plan = decide(pod, some_facts(runs), after(100))
    assert condition(plan.status, "Ready")["status"] == "False"
    assert plan.status["phase"] == "Running"
    plan = decide(with_status(pod, plan.status), some_facts(runs, ending_since=after(100)), after(101))
    assert plan.steps == (End(an_id(), seconds(29), None, EndReason.DEADLINE),)
    # If it cannot be reported, it is ended all the same.
    assert ends(decide(pod, some_facts(runs), after(102))) == [("app", EndReason.DEADLINE)]
    plan = decide(pod, some_facts(instances(app=ended(143, at=102))), after(103))
    assert plan.steps == ()
    assert plan.status["phase"] == "Failed"
    assert plan.status["reason"] == "DeadlineExceeded"
    assert plan.status["message"] == "Pod was active on the node longer than the specified deadline"
    # And so it stays.
    again = decide(with_status(pod, plan.status), some_facts(instances(app=ended(143, at=102))), after(999))
    assert (again.steps, again.status) == ((), plan.status)


def test_an_agent_that_was_restarted_counts_the_deadline_from_when_the_pod_started():
    runs = instances(app=running())
    pod = reported(a_pod("app", activeDeadlineSeconds=100), instances=runs)

    # Its second agent took the pod on 60 seconds later.
    assert decide(pod, some_facts(runs, accepted_at=after(60)), after(99)).wake_at == after(100)
    assert ends(decide(pod, some_facts(runs, accepted_at=after(60)), after(102))) == [("app", EndReason.DEADLINE)]


def test_sidecars_end_when_the_main_containers_have_done_their_work():
    pod = a_pod("app", init=(a_sidecar("s"),), restartPolicy="OnFailure")

    plan = decide(pod, some_facts(instances(s=running(), app=ended(0))), after(60))
    assert ends(plan) == [("s", EndReason.POD_OVER)]
    assert plan.status["phase"] == "Running"
    plan = decide(pod, some_facts(instances(s=ended(143), app=ended(0))), after(60))
    assert (plan.steps, plan.status["phase"]) == ((), "Succeeded")


def test_a_refused_pod_fails_with_the_reason_and_nothing_of_it_starts():
    pod = a_pod("app")

    plan = decide(pod, some_facts(refused=PodRefused("OutOfcpu", "too little")), NOON)

    assert plan.steps == ()
    assert plan.status["phase"] == "Failed"
    assert (plan.status["reason"], plan.status["message"]) == ("OutOfcpu", "Pod was rejected: too little")
    assert "containerStatuses" not in plan.status
    again = decide(with_status(pod, plan.status), some_facts(), after(60))
    assert (again.steps, again.status) == ((), plan.status)


def test_what_still_runs_of_a_pod_that_others_have_failed_is_ended():
    runs = instances(app=running())
    pod = reported(a_pod("app"), instances=runs)
    failed = with_status(pod, {**pod["status"], "phase": "Failed", "reason": "Evicted"})

    plan = decide(failed, some_facts(runs, ending_since=after(60)), after(63))

    assert ends(plan) == [("app", EndReason.POD_OVER)]
    assert (plan.status["phase"], plan.status["reason"]) == ("Failed", "Evicted")
