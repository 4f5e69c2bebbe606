"""Holds, as controllers go by them: a held rollout, frozen evictions, and what a Hold says of itself."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from mainstay.api.holds import HoldReason, HoldScope, in_force, parse_hold
from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, NAMESPACES
from mainstay.api.node_health import RELEASED, UNREACHABLE, HealthState, NodeHealthRecord
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import Change, ChangeType
from mainstay.controllers.deployment import holds as rollout_holds
from mainstay.controllers.holds import controller as holds
from mainstay.controllers.holds.controller import HoldController
from mainstay.controllers.node_health.decide import decide as decide_nodes
from mainstay.controllers.node_health.decide import saying
from mainstay.controllers.node_health.plan import HOLDER, Evict, RemoveDeadPod, ReplacePods, Say, WriteNode
from mainstay.controllers.progress.controller import of_deployment
from mainstay.controllers.registry import CAN_BE_HELD, CONTROLLERS
from mainstay.controllers.repair.decide import RemoveStranded, RepairMemory, RepairSnapshot
from mainstay.controllers.repair.decide import decide as decide_repair
from mainstay.loop.decision import Create, Decision, Delete, Tell, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from tests.controllers.deployment.test_deployment import AT_ONE, a_new, an_old, decide, sizes, ten
from tests.controllers.node_health.nodes import LISTENING, READY, START, a_snapshot, heard_at, some_node
from tests.controllers.node_health.test_node_health import GONE, OTHERS, UNKNOWN, a_pod, with_permits
from tests.controllers.objects import NOON, Object, a_deployment, a_hold, at

WEB = {"kind": "Deployment", "namespace": "default", "name": "web"}
HELD = a_hold(HoldScope.ROLLOUT, WEB, name="rollout.default.web")
FROZEN = tuple(in_force([a_hold(HoldScope.EVICTIONS)], NOON))
WORDS = "anna holds it until 2026-03-01T13:00:00Z: a look"


def said(decision: Decision, name: str = "Progressing") -> Object:
    return next(each for each in decision.status["conditions"] if each["type"] == name)


# A rollout that is held.


def test_a_held_rollout_makes_no_set_and_removes_no_pod_and_says_so():
    decision = decide(a_deployment(10, image="web:2", annotations=AT_ONE), an_old(10), holds=[HELD])

    assert not any(isinstance(each, Create) for each in decision.actions)
    assert sizes(decision) == {}
    condition = said(decision)
    assert (condition["status"], condition["reason"]) == ("Unknown", "RolloutHeld")
    assert condition["message"] == f"Rollout is held by Hold rollout.default.web: {WORDS}"
    assert decision.reasons == (f"held by Hold rollout.default.web: {WORDS}",)
    assert decision.result == WakeAt(NOON + timedelta(hours=1), "RolloutHeld")
    assert [event.reason for event in decision.events] == ["RolloutHeld"]


@pytest.mark.parametrize("room", [13, 12])
def test_a_rollout_that_is_held_half_way_stays_as_it_is_even_where_there_is_room(room):
    """Unlike a paused one, which is filled up to what it may have at most."""
    assert sizes(decide(ten(), an_old(8, most=13), a_new(room - 8, most=13), holds=[HELD])) == {}


def test_a_held_rollout_can_be_scaled_and_its_sets_share():
    decision = decide(
        a_deployment(20, image="web:2", annotations=AT_ONE), an_old(8, most=13), a_new(5, most=13), holds=[HELD]
    )

    assert sum(sizes(decision).values()) == 25  # 20, and a surge of a quarter.
    assert set(sizes(decision)) == {"old", "new"}


def test_what_was_scaled_to_nothing_can_be_scaled_up_while_it_is_held():
    deployment = a_deployment(3, image="web:2", annotations=AT_ONE)

    assert sizes(decide(deployment, an_old(0, desired=0), holds=[HELD])) == {"old": 3}


def test_one_that_was_just_emptied_to_be_recreated_stays_empty():
    deployment = a_deployment(3, image="web:2", annotations=AT_ONE, strategy={"type": "Recreate"})

    assert sizes(decide(deployment, an_old(0, desired=3), holds=[HELD])) == {}


def test_one_that_was_never_rolled_out_gets_no_pods():
    assert decide(a_deployment(3), holds=[HELD]).actions == ()


@pytest.mark.parametrize(
    "hold",
    [
        a_hold(HoldScope.ROLLOUT, WEB, ends=0),
        a_hold(HoldScope.ROLLOUT, {**WEB, "name": "api"}),
        a_hold(HoldScope.ROLLOUT, {**WEB, "namespace": "shop"}),
        a_hold(HoldScope.EVICTIONS),
    ],
)
def test_what_is_over_or_holds_something_else_holds_no_rollout(hold):
    assert sizes(decide(ten(), an_old(8), a_new(3), holds=[hold])) == sizes(decide(ten(), an_old(8), a_new(3)))


def test_a_hold_is_told_once_and_a_longer_one_again():
    first = decide(ten(), an_old(8), a_new(3), holds=[HELD])
    held = ten(status=dict(first.status))

    again = decide(held, an_old(8), a_new(3), holds=[HELD])
    longer = decide(held, an_old(8), a_new(3), holds=[a_hold(HoldScope.ROLLOUT, WEB, ends=7200)])

    assert (again.events, said(again)) == ((), said(first))
    assert longer.events == ()
    assert "14:00:00Z" in said(longer)["message"]


def test_afterwards_it_goes_on_by_itself_with_a_deadline_of_its_own():
    status = dict(decide(ten(), an_old(8, available=8), a_new(3, available=3), holds=[HELD]).status)

    later = NOON + timedelta(hours=1)
    after = decide(ten(status=status), an_old(8, available=8), a_new(3, available=3), holds=[HELD], now=later)

    assert sizes(after) == {"new": 5}
    assert after.events[0] == Tell("RolloutResumed", "Rollout resumed: no Hold applies any more")
    assert (said(after)["reason"], said(after)["lastUpdateTime"]) == ("RolloutResumed", at(3600))
    assert after.result == WakeAt(later + timedelta(seconds=601), "the progress deadline")


def test_a_held_rollout_is_never_late_and_one_that_was_late_stays_so():
    status = dict(decide(ten(), an_old(8), a_new(3), holds=[HELD]).status)
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"}

    hour = decide(ten(status=status), an_old(8), a_new(3), holds=[HELD], now=NOON + timedelta(minutes=59))
    before = decide(ten(status={"conditions": [late]}), an_old(8), a_new(3), holds=[HELD])

    assert said(hour)["reason"] == "RolloutHeld"
    assert (said(before)["reason"], before.events) == ("ProgressDeadlineExceeded", ())


def test_without_a_deadline_it_is_said_too_and_only_while_it_is_held():
    endless = {"progressDeadlineSeconds": 2**31 - 1}
    held = decide(ten(**endless), an_old(8), a_new(3), holds=[HELD])
    after = decide(ten(**endless, status=dict(held.status)), an_old(8), a_new(3))

    assert said(held)["reason"] == "RolloutHeld"
    assert [each["type"] for each in after.status["conditions"]] == ["Available"]


def test_the_progress_of_a_held_rollout_waits_for_the_holder():
    deployment = ten(status=dict(decide(ten(), an_old(10), holds=[HELD]).status))

    progress = of_deployment(deployment, [], NOON)

    assert progress.limited_by is not None
    assert (progress.limited_by.reason, progress.verdict, progress.deadline.state) == ("RolloutHeld", "waiting", "none")
    assert WORDS in progress.limited_by.message


def test_a_hold_wakes_the_deployment_that_it_names():
    cache = Cache(HOLDS)
    woken = []
    for hold in (HELD, a_hold(HoldScope.EVICTIONS)):
        entry = cache.read_item(json.dumps({**hold, "metadata": {**hold["metadata"], "resourceVersion": "1"}}).encode())
        woken.append(list(rollout_holds.held_deployments(Change(HOLDS, entry.key, ChangeType.ADDED, None, entry, 1))))

    assert woken == [[ObjectKey("default", "web")], []]


# Frozen evictions.


def frozen_in(*namespaces: str):
    return tuple(
        in_force([a_hold(HoldScope.EVICTIONS, {"namespace": each} if each else {}) for each in namespaces], NOON)
    )


def silent(taints=(UNREACHABLE,), record: NodeHealthRecord = UNKNOWN):
    return some_node("n1", ready=GONE, taints=taints, record=record)


def test_no_node_is_released_while_evictions_are_frozen_and_the_node_says_why():
    snapshot = a_snapshot(1000, [silent(), *OTHERS], {"n1": 900}, [a_pod("p", ready="Unknown")], frozen=FROZEN)

    plan = decide_nodes(snapshot, with_permits(LISTENING, 1000))

    (step,) = plan.steps
    assert isinstance(step, WriteNode)
    assert step.record is not None
    assert (step.state, step.add) == (HealthState.UNKNOWN, ())
    assert (step.record.held, step.record.hold) == (f"evictions are frozen by Hold hold: {WORDS}", "hold")
    assert saying(LISTENING, plan.memory) == [Say("EvictionsFrozen", f"no pods are evicted: {step.record.held}")]


def released_for_long(frozen, *pods: Object):
    """A node that was released long ago, whose pods tolerate that no more."""
    node = silent((UNREACHABLE, RELEASED), NodeHealthRecord(HealthState.RELEASED, "then", (), "", READY))
    memory = structs.replace(LISTENING, taints_since={("uid-n1", str(RELEASED)): START})
    return decide_nodes(a_snapshot(1000, [node, *OTHERS], {"n1": 100}, pods, frozen=frozen), memory)


def test_no_pod_is_evicted_from_a_node_that_was_released_before():
    assert [type(step) for step in released_for_long((), a_pod("p", ready="Unknown")).steps] == [Evict]
    plan = released_for_long(FROZEN, a_pod("p", ready="Unknown"))
    assert [type(step) for step in plan.steps] == [WriteNode]
    assert isinstance(plan.steps[0], WriteNode)
    assert plan.steps[0].state is HealthState.RELEASED


def test_a_freeze_of_one_namespace_keeps_its_pods_and_no_others():
    other = a_pod("q", ready="Unknown")
    other["metadata"]["namespace"] = "shop"

    steps = released_for_long(frozen_in("shop"), a_pod("p", ready="Unknown"), other).steps

    assert [step.key for step in steps if isinstance(step, Evict)] == [ObjectKey("default", "p")]


def test_a_node_is_released_while_only_a_namespace_is_frozen():
    snapshot = a_snapshot(1000, [silent(), *OTHERS], {"n1": 900}, frozen=frozen_in("shop"))

    (step,) = decide_nodes(snapshot, with_permits(LISTENING, 1000)).steps

    assert isinstance(step, WriteNode)
    assert step.state is HealthState.RELEASED


def test_what_is_told_to_leave_stays_too_and_a_lease_that_was_taken_is_given_back():
    node = some_node(
        "n1", ready=GONE, taints=[UNREACHABLE, RELEASED], record=NodeHealthRecord(HealthState.RELEASED, ready=READY)
    )
    pods = [a_pod("p", leaving=True, single=True, ready="Unknown")]
    heard: dict[str, Any] = {"n1": heard_at(100, holder=HOLDER)}

    usual = decide_nodes(a_snapshot(1000, [node, *OTHERS], heard, pods), LISTENING).steps
    frozen = decide_nodes(a_snapshot(1000, [node, *OTHERS], heard, pods, frozen=FROZEN), LISTENING).steps

    assert [step for step in usual if isinstance(step, ReplacePods)] == [
        ReplacePods("n1", 5, True, (RemoveDeadPod(ObjectKey("default", "p"), "uid-p"),))
    ]
    assert [step for step in frozen if isinstance(step, ReplacePods)] == [ReplacePods("n1", 5, True, ())]


def test_when_it_thaws_that_is_said_and_all_goes_on():
    before = structs.replace(with_permits(LISTENING, 1000), frozen="evictions are frozen")

    plan = decide_nodes(a_snapshot(1000, [silent(), *OTHERS], {"n1": 900}), before)

    assert [step.state for step in plan.steps if isinstance(step, WriteNode)] == [HealthState.RELEASED]
    text = "no Hold freezes evictions any more; pods are evicted again"
    assert saying(before, plan.memory) == [Say("EvictionsThawed", text)]


def test_repair_leaves_pods_of_a_node_that_is_gone_and_says_who_wants_that():
    pod = {"metadata": {"namespace": "default", "name": "p", "uid": "uid-p"}, "spec": {"nodeName": "gone"}}
    snapshot = RepairSnapshot(START, stranded={"gone": (pod,)}, heard={"gone": heard_at(0)})
    memory = RepairMemory(since={"VanishedNode/uid-p": START - 10**12})

    usual, frozen = decide_repair(snapshot, memory), decide_repair(replace(snapshot, frozen=FROZEN), memory)

    assert usual.steps == (RemoveStranded("gone", RemoveDeadPod(ObjectKey("default", "p"), "uid-p")),)
    assert frozen.steps == ()
    assert frozen.findings[0].message == f"its node gone does not exist, and evictions are frozen by Hold hold: {WORDS}"


# Holds themselves.


def judged(hold: Object, *, now: float = 0, deployments=(), namespaces=()) -> Decision:
    controller = HoldController(CAN_BE_HELD)
    indexes = {controller.kind: controller.indexes}
    objects = {
        HOLDS: [hold],
        DEPLOYMENTS: deployments,
        NAMESPACES: [{"metadata": {"name": name}} for name in namespaces],
    }
    view = View.of(objects, NOON + timedelta(seconds=now), indexes=indexes)
    return controller.decide(view, ObjectKey("", hold["metadata"]["name"]), None)


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    return {each.type: (str(each.status), each.reason) for each in decision.conditions}


@pytest.mark.parametrize(
    ("hold", "more"),
    [
        (a_hold(HoldScope.CONTROLLER, {"name": "deployment"}), {}),
        (a_hold(HoldScope.CONTROLLER, {"name": "scheduler"}), {}),
        (a_hold(HoldScope.EVICTIONS), {}),
        (a_hold(HoldScope.EVICTIONS, {"namespace": "shop"}), {"namespaces": ["shop"]}),
        (HELD, {"deployments": [a_deployment(1)]}),
    ],
)
def test_a_hold_says_that_it_is_in_force_and_wakes_when_it_ends(hold, more):
    decision = judged(hold, **more)

    assert decision.status == {"phase": "Active"}
    assert conditions(decision) == {"Active": ("True", "InForce"), "TargetFound": ("True", "TargetFound")}
    assert isinstance(decision.result, WakeAt)
    assert decision.result.at - (NOON + timedelta(hours=1)) < timedelta(seconds=1)
    assert (decision.actions, decision.events) == ((), ())


@pytest.mark.parametrize(
    ("hold", "reason", "text"),
    [
        (
            a_hold(HoldScope.CONTROLLER, {"name": "deploy"}),
            HoldReason.NO_SUCH_CONTROLLER,
            "is not one of Mainstay's: deployment, deployment-progress,",
        ),
        (
            a_hold(HoldScope.EVICTIONS, {"namespace": "shop"}),
            HoldReason.NO_SUCH_NAMESPACE,
            "namespace shop not found",
        ),
        (HELD, HoldReason.NO_SUCH_DEPLOYMENT, "Deployment default/web not found; it will be held once it exists"),
    ],
)
def test_one_that_names_what_is_not_there_says_so_and_tells_once(hold, reason, text):
    decision = judged(hold)

    assert conditions(decision)["TargetFound"] == ("False", str(reason))
    (event,) = decision.events
    assert (event.reason, event.is_warning) == (reason, True)
    assert text in event.message.replace("disruption-budget, ", "")
    said_before = {"conditions": [{"type": holds.FOUND, "status": "False", "reason": str(reason)}]}
    assert judged({**hold, "status": said_before}).events == ()


def test_one_whose_time_is_over_says_so_for_a_day_and_then_goes():
    hold = a_hold(HoldScope.EVICTIONS, status={"phase": "Active"})
    hold["metadata"]["resourceVersion"] = "7"

    over = judged(hold, now=3600)
    expired = {**hold, "status": {"phase": "Expired"}}
    still, gone = judged(expired, now=3600 + 86_399), judged(expired, now=3600 + 86_400)

    assert (over.status, conditions(over)) == ({"phase": "Expired"}, {"Active": ("False", "Expired")})
    assert [event.reason for event in over.events] == ["Expired"]
    assert (still.actions, still.events) == ((), ())
    assert gone.actions == (
        Delete(HOLDS, ObjectKey("", "hold"), "hold", resource_version="7", freshness=Freshness.SEEN_VERSION),
    )


def test_every_controller_can_be_held_by_its_name_and_the_scheduler_as_well():
    assert {each.name for each in CONTROLLERS} < CAN_BE_HELD
    assert {"scheduler", "node-health", "repair", "namespace", "owner-cleanup", "pod-garbage", "root-ca"} < CAN_BE_HELD
    assert parse_hold(a_hold(HoldScope.CONTROLLER, {"name": "scheduler"})) is not None
