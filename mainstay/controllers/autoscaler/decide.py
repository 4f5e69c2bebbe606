"""What an autoscaler asks for, from one look at it: plain functions, which replay calls again.

First what the metrics justify (proposals.py), of several the most; then the rules of behaviour and the bounds of the
spec (scaling_rules.py); and last whether the target would get more replicas at all (limits.py). If not, the number is
not raised above what its spec asks for already. It may still fall, and the minimum of the spec always holds, since a
user asked for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.quantity import parse
from mainstay.controllers.autoscaler.limits import FoundLimit, find_scale_limit
from mainstay.controllers.autoscaler.observation import (
    NO_MEMORY,
    RESCALED,
    AutoscalerInput,
    AutoscalerMemory,
    Recommendation,
    ScaleTarget,
    get_spec,
)
from mainstay.controllers.autoscaler.proposals import MetricFailure, MetricSource, ReplicaProposal, Tolerance, propose
from mainstay.controllers.autoscaler.scaling_rules import ABLE, LIMITED, normalize
from mainstay.journal.record import moment
from mainstay.loop.conditions import Condition, Truth, with_conditions
from mainstay.loop.decision import Tell

ACTIVE: Final = "ScalingActive"


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """What a look leads to. What the status says afterwards also depends on the write (`build_status`)."""

    replicas: int | None = None
    """What the scale is to be set to; None: it stays."""
    desired: int | None = None
    """For the status; None: as before, because it could not be computed."""
    reason: str = ""
    """Why it is to be set, in words."""
    conditions: tuple[Condition, ...] = ()
    metrics: tuple[Object, ...] | None = None
    """For the status; None: as before."""
    events: tuple[Tell, ...] = ()
    memory: AutoscalerMemory = NO_MEMORY


@dataclass(frozen=True, slots=True)
class _Justified:
    """What the metrics come to."""

    best: ReplicaProposal | None
    failure: MetricFailure | None
    metrics: tuple[Object, ...]
    events: tuple[Tell, ...]


def decide(known: AutoscalerInput, pods: Sequence[Object]) -> ScalePlan:
    """What to do about an autoscaler. `pods` are those that the selector of its target finds."""
    target = known.target
    if target is None:
        message = known.unknown.message if known.unknown is not None else ""
        failed = _failed(ABLE, "FailedGetScale", f"failed to get the scale of the target: {message}")
        return ScalePlan(conditions=(failed,), events=(_warn(failed, message),), memory=known.memory)
    able = Condition(ABLE, Truth.TRUE, "SucceededGetScale", "the scale of the target is known")
    least, most = _get_bounds(known)
    current = target.replicas
    known_from = _with_first_recommendation(known, current)
    if current == 0:
        text = "scaling is disabled since the replica count of the target is zero"
        return _keep(known, current, (able, _failed(ACTIVE, "ScalingDisabled", text)))
    if current > most:
        return _rescale(known, most, "current number of replicas above spec.maxReplicas", (able,))
    if current < least:
        return _rescale(known, least, "current number of replicas below spec.minReplicas", (able,))
    if problem := _find_selector_problem(known, target):
        return _keep(known, None, (able, problem), events=(_warn(problem, problem.message),))
    found = _justify(known, target, pods)
    if found.best is None:
        assert found.failure is not None
        text = f"failed to compute the number of replicas: {found.failure}"
        active = _failed(ACTIVE, found.failure.reason, text)
        return _keep(known, None, (able, active), metrics=found.metrics, events=found.events)
    best = found.best
    active = Condition(ACTIVE, Truth.TRUE, "ValidMetricFound", f"the replica count was computed from {best.name}")
    normal = normalize(known_from, current, best.replicas, least, most)
    wanted, limited = normal.replicas, normal.limited
    limit = find_scale_limit(target, known.quota_revision, known.seen_quotas) if known.reads_progress else None
    if wanted > current and limit is not None:
        limited, wanted = _hold_back(limit, wanted, current), current
    conditions = (normal.able, active, limited)
    if wanted == current:
        return ScalePlan(None, current, "", conditions, found.metrics, found.events, normal.memory)
    reason = f"{best.name} above target" if wanted > current else "all metrics below target"
    return ScalePlan(wanted, wanted, reason, conditions, found.metrics, found.events, normal.memory)


def _hold_back(limit: FoundLimit, wanted: int, current: int) -> Condition:
    text = f"the metrics justify {wanted} replicas, kept at {current} because more would not run: {limit.message}"
    return Condition(LIMITED, Truth.TRUE, limit.reason, text)


def _get_bounds(known: AutoscalerInput) -> tuple[int, int]:
    least = get_spec(known, "minReplicas")
    return 1 if least is None else int(least), int(get_spec(known, "maxReplicas") or 0)


def _with_first_recommendation(known: AutoscalerInput, current: int) -> AutoscalerInput:
    """What a controller finds when it begins is as good as a recommendation: it does not scale down at once."""
    if known.memory.recommendations:
        return known
    first = Recommendation(known.now_us, current)
    memory = AutoscalerMemory((first,), known.memory.scale_ups, known.memory.scale_downs)
    return replace(known, memory=memory)


def _find_selector_problem(known: AutoscalerInput, target: ScaleTarget) -> Condition | None:
    if not target.selector:
        return _failed(ACTIVE, "InvalidSelector", "the scale of the target has no selector")
    if known.rivals:
        names = ", ".join(known.rivals)
        return _failed(ACTIVE, "AmbiguousSelector", f"its target is also scaled by {names}: remove all but one of them")
    return None


def _justify(known: AutoscalerInput, target: ScaleTarget, pods: Sequence[Object]) -> _Justified:
    source = MetricSource(
        moment(known.now_us),
        pods,
        known.samples,
        known.samples_problem,
        known.pod_metrics,
        target.replicas,
        _get_tolerance(known),
    )
    specs = known.spec.get("metrics") or ()
    proposals: list[ReplicaProposal] = []
    failures: list[MetricFailure] = []
    for each in specs:
        try:
            proposals.append(propose(each, source))
        except MetricFailure as failure:
            failures.append(failure)
    metrics = tuple([each.status for each in proposals])
    events = tuple([Tell(each.reason, str(each), is_warning=True) for each in failures])
    best = max(proposals, key=lambda each: each.replicas, default=None)
    # A metric that is not known might justify more, so without it the number may rise, and not fall.
    if best is None or (failures and best.replicas < target.replicas):
        return _Justified(None, failures[0] if failures else _NO_METRICS, metrics, events)
    return _Justified(best, None, metrics, events)


_NO_METRICS: Final = MetricFailure("InvalidMetricSourceType", "the spec has no metrics")


def _get_tolerance(known: AutoscalerInput) -> Tolerance:
    def read(direction: str, default: Fraction) -> Fraction:
        text = get_spec(known, "behavior", direction, "tolerance")
        return default if text is None else Fraction(parse(text).nano, 10**9)

    usual = Tolerance()
    return Tolerance(read("scaleUp", usual.up), read("scaleDown", usual.down))


def _keep(
    known: AutoscalerInput,
    desired: int | None,
    conditions: tuple[Condition, ...],
    *,
    metrics: tuple[Object, ...] | None = None,
    events: tuple[Tell, ...] = (),
) -> ScalePlan:
    return ScalePlan(None, desired, "", conditions, metrics, events, known.memory)


def _rescale(known: AutoscalerInput, wanted: int, reason: str, conditions: tuple[Condition, ...]) -> ScalePlan:
    return ScalePlan(wanted, wanted, reason, conditions, memory=known.memory)


def _failed(kind: str, reason: str, message: str) -> Condition:
    return Condition(kind, Truth.FALSE, reason, message)


def _warn(condition: Condition, message: str) -> Tell:
    return Tell(condition.reason, message, is_warning=True)


# Status and Events.


def build_status(known: AutoscalerInput, plan: ScalePlan) -> Object:
    """The status of the autoscaler after the look, whose write of the scale ended as `known.outcome` says."""
    now, before = moment(known.now_us), known.status
    conditions = {each.type: each for each in plan.conditions}
    is_rescaled = plan.replicas is not None and known.outcome == RESCALED
    if is_rescaled:
        text = f"the target was scaled to {plan.replicas}"
        conditions[ABLE] = Condition(ABLE, Truth.TRUE, "SucceededRescale", text)
    elif plan.replicas is not None:
        text = f"failed to scale the target to {plan.replicas}: {known.outcome}"
        conditions[ABLE] = _failed(ABLE, "FailedUpdateScale", text)
    said = with_conditions(before, conditions.values(), None, now)
    status: dict[str, Any] = {"conditions": said.get("conditions") or []}
    if known.target is not None:
        status["currentReplicas"] = known.target.replicas_seen
    if plan.desired is not None:
        is_so = is_rescaled or plan.replicas is None
        status["desiredReplicas"] = plan.desired if is_so else before.get("desiredReplicas", 0)
    if plan.metrics is not None:
        status["currentMetrics"] = list(plan.metrics) or None
    if is_rescaled:
        status["lastScaleTime"] = times.format_time(now)
    if known.generation:
        status["observedGeneration"] = known.generation
    return status


def list_events(known: AutoscalerInput, plan: ScalePlan) -> tuple[Tell, ...]:
    """What to tell people of a look."""
    if plan.replicas is None:
        return plan.events
    text = f"New size: {plan.replicas}; reason: {plan.reason}"
    if known.outcome == RESCALED:
        return (*plan.events, Tell("SuccessfulRescale", text))
    return (*plan.events, Tell("FailedRescale", f"{text}; error: {known.outcome}", is_warning=True))


def is_up_to_date(status: Object, wanted: Mapping[str, Any]) -> bool:
    """Whether a status says all of this already. What is None is to be gone."""
    return all((status.get(name) or None) == (value or None) for name, value in wanted.items())
