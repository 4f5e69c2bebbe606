"""Planted bugs: signals that lead to more than the table of evidence allows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.api.kinds.objectives import ObjectiveSpec
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.deployment import controller
from mainstay.controllers.deployment import status as rollout_status
from mainstay.controllers.deployment.controller import Rollout, RolloutStep
from mainstay.controllers.objectives import controller as objectives_controller
from mainstay.controllers.objectives import measurement
from mainstay.controllers.objectives.measurement import ObjectiveBurn, ObjectiveMemory, TargetView
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop.conditions import Condition
from mainstay.loop.decision import Decision, Delete
from mainstay.loop.evidence import Evidence
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View


def goes_on_whatever_controllers_report(patch: pytest.MonkeyPatch) -> None:
    def collect(states: Sequence[Object], now: datetime) -> tuple[Evidence, ...]:
        return ()

    patch.setattr(controller, "collect_about_controllers", collect)


def gives_up_the_pods_of_a_rollout_that_is_late(patch: pytest.MonkeyPatch) -> None:
    honest = controller.rolled

    def rolled(rollout: Rollout, view: View) -> RolloutStep:
        if rollout.new is not None and rollout_status.is_timed_out(rollout.deployment, rollout.new):
            return RolloutStep({rollout.new["metadata"]["name"]: 0}, why="the deadline has passed")
        return honest(rollout, view)

    patch.setattr(controller, "rolled", rolled)


def replaces_pods_whose_probes_fail(patch: pytest.MonkeyPatch) -> None:
    honest = ReplicaSets.decide

    def decide(self: ReplicaSets, view: View, key: ObjectKey, memory: None) -> Decision:
        decision, replica_set = honest(self, view, key, memory), view.get(REPLICASETS, key)
        pods = [] if replica_set is None else view.owned_by(PODS, replica_set["metadata"]["uid"])
        unwell = [
            Delete(
                PODS,
                ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"]),
                pod["metadata"]["uid"],
                freshness=Freshness.MAY_BE_STALE,
            )
            for pod in pods
            if pod_state.is_active(pod)
            and (pod_state.find_condition(pod, "Ready") or {}).get("reason") == "ProbeFailed"
        ]
        return replace(decision, actions=(*decision.actions, *unwell))

    patch.setattr(ReplicaSets, "decide", decide)


# Objectives


def goes_on_while_the_budget_burns(patch: pytest.MonkeyPatch) -> None:
    def collect(slos: Sequence[Object], target_uid: str) -> tuple[Evidence, ...]:
        return ()

    patch.setattr(controller, "collect_slo_burn", collect)


def blames_a_template_for_the_one_before(patch: pytest.MonkeyPatch) -> None:
    """What was measured is kept when the template changes: the burn is of the wrong generation."""
    honest = measurement.measure

    def measure(
        target: TargetView, objectives: Iterable[ObjectiveSpec], memory: ObjectiveMemory | None, now: datetime
    ) -> ObjectiveMemory:
        kept = None if memory is None else replace(memory, set_uid=target.set_uid)
        return honest(target, objectives, kept, now)

    patch.setattr(objectives_controller, "measure", measure)


def takes_what_was_not_measured_for_good(patch: pytest.MonkeyPatch) -> None:
    honest = objectives_controller._judge

    def judge(burns: Sequence[tuple[ObjectiveSpec, ObjectiveBurn]]) -> Condition:
        return honest([(each, replace(burn, is_enough=True)) for each, burn in burns])

    patch.setattr(objectives_controller, "_judge", judge)
