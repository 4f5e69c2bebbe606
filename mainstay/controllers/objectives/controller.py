"""Keep the status of each ServiceLevelObjective: what was measured, how fast the budget burns, and whether that is bad.

A look at the target is taken when its ReplicaSets change, when the next pod will be late, and once a minute. What it
adds up is in measurement.py, and is about the present template only. The condition `BudgetBurning` is True when the
budget of an objective burns faster than it lasts both over 5 minutes and over an hour, and Unknown while too little was
measured: what is not known is not good. It is evidence (`SloBurn`, loop/signals.py) on which rollouts pause.

Not done here: anything about it. Whether a rollout pauses is decided by who rolls out.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state, times
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, PODS, REPLICASETS, SERVICE_LEVEL_OBJECTIVES
from mainstay.api.kinds.objectives import ObjectiveSpec, SloSpec, parse_slo
from mainstay.api.object_key import ObjectKey
from mainstay.api.objectives import BURNING, ObjectiveReason, ObjectiveType, TargetKind
from mainstay.client.indexes import OWNER
from mainstay.controllers.deployment import revisions
from mainstay.controllers.objectives.measurement import (
    ObjectiveBurn,
    ObjectiveMemory,
    TargetView,
    compute_burn,
    find_next_deadline,
    measure,
)
from mainstay.controllers.objectives.targets import TARGET, waking_objectives
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import DONE, Decision, Result, WakeAt
from mainstay.loop.view import View

LOOK_EVERY: Final = timedelta(minutes=1)


class ServiceLevelObjectives(Controller):
    name = "service-level-objective"
    kind = SERVICE_LEVEL_OBJECTIVES
    indexes = (TARGET,)
    reads = (
        Reads(DEPLOYMENTS, wakes_among=waking_objectives()),
        Reads(REPLICASETS, wakes_among=waking_objectives(), indexes=(OWNER,)),
        Reads(PODS, indexes=(OWNER,)),
    )

    def decide(self, view: View, key: ObjectKey, memory: ObjectiveMemory | None) -> Decision:
        slo = view.get(SERVICE_LEVEL_OBJECTIVES, key)
        if slo is None or pod_state.is_leaving(slo):
            return Decision()
        spec = parse_slo(slo)
        target = _find_target(view, key.namespace, spec)
        if isinstance(target, Condition):
            # A set that is not made or seen yet: if it is the same again, what was measured still counts.
            kept = memory if target.reason == ObjectiveReason.NOT_OBSERVED else None
            return _say(slo, target, {"objectives": [], "targetUid": None, "since": None}, memory=kept)
        memory = measure(target, spec.objectives, memory, view.now)
        measured = {each.type: each for each in memory.measured}
        burns = [(each, compute_burn(measured[each.type], each.good_percent, view.now)) for each in spec.objectives]
        status = {
            "objectives": [_describe(objective, burn) for objective, burn in burns],
            "targetUid": memory.set_uid,
            "since": times.format_time(memory.since),
        }
        due = find_next_deadline(target, spec.objectives, view.now)
        wake_at = min(view.now + LOOK_EVERY, due or view.now + LOOK_EVERY)
        return _say(slo, _judge(burns), status, WakeAt(wake_at, "the next measurement"), memory)


def _say(
    slo: Object,
    condition: Condition,
    status: dict[str, Any],
    result: Result = DONE,
    memory: ObjectiveMemory | None = None,
) -> Decision:
    status["observedGeneration"] = slo["metadata"].get("generation", 0)
    reasons = (f"{condition.reason}: {condition.message}",)
    return Decision(result=result, status=status, conditions=(condition,), reasons=reasons, memory=memory)


def _find_target(view: View, namespace: str, spec: SloSpec) -> TargetView | Condition:
    kind, name = spec.target.kind, spec.target.name
    target_kind = DEPLOYMENTS if kind is TargetKind.DEPLOYMENT else REPLICASETS
    found = view.get(target_kind, ObjectKey(namespace, name))
    if found is None:
        return Condition(BURNING, Truth.UNKNOWN, ObjectiveReason.NO_TARGET, f"{kind} {name} not found")
    current, sets = found, [found]
    if kind is TargetKind.DEPLOYMENT:
        sets = view.owned_by(REPLICASETS, found["metadata"]["uid"])
        newest = revisions.new_set(found, sets)
        if newest is None:
            text = f"{kind} {name} has no ReplicaSet for its present template yet"
            return Condition(BURNING, Truth.UNKNOWN, ObjectiveReason.NOT_OBSERVED, text)
        current = newest
    pods = {each["metadata"]["uid"]: view.owned_by(PODS, each["metadata"]["uid"]) for each in sets}
    active = [pod for each in pods.values() for pod in each if pod_state.is_active(pod)]
    return TargetView(
        set_uid=current["metadata"]["uid"],
        desired=int(found["spec"].get("replicas", 1)),
        pods=[pod for pod in pods[current["metadata"]["uid"]] if not pod_state.is_leaving(pod)],
        ready=sum(pod_state.is_ready(pod) for pod in active),
    )


def _judge(burns: Sequence[tuple[ObjectiveSpec, ObjectiveBurn]]) -> Condition:
    burning = [(objective, burn) for objective, burn in burns if burn.rate >= 1]
    if burning:
        worst, burn = max(burning, key=lambda each: (each[1].rate, each[0].type))
        text = f"{worst.type} burns {_rate(burn.rate)} times as fast as its budget lasts"
        return Condition(BURNING, Truth.TRUE, ObjectiveReason.BURNING, text, worst.type)
    unknown = [str(objective.type) for objective, burn in burns if not burn.is_enough]
    if unknown:
        text = f"too little was measured of the present template: {', '.join(unknown)}"
        return Condition(BURNING, Truth.UNKNOWN, ObjectiveReason.TOO_FEW, text)
    return Condition(BURNING, Truth.FALSE, ObjectiveReason.WITHIN_BUDGET, "all objectives are within their budgets")


def _describe(objective: ObjectiveSpec, burn: ObjectiveBurn) -> dict[str, Any]:
    said: dict[str, Any] = {
        "type": str(objective.type),
        "burn": {window: _rate(rate) for window, rate in burn.burns.items() if rate is not None},
    }
    if burn.budget_left_percent is not None:
        said["budgetLeftPercent"] = burn.budget_left_percent
    if objective.type is not ObjectiveType.AVAILABILITY:  # Of which the figures change with every look.
        said |= {"pods": burn.all, "late": burn.late}
    return said


def _rate(rate: float) -> str:
    return f"{rate:.1f}"
