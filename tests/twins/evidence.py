"""Planted bugs: signals that lead to more than the table of evidence allows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pytest

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.deployment import controller
from mainstay.controllers.deployment import status as rollout_status
from mainstay.controllers.deployment.controller import Rollout, RolloutStep
from mainstay.controllers.replicaset.controller import ReplicaSets
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
