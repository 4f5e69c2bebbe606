"""Roll out a placement policy: which write comes next, from what the two policies and the rollout's status say.

    Pending ─► Starting ─► Progressing: shadow ─► canary ─► wider ─► all ─► Finishing ─► Complete
                               └── regression, deadline, abort ──► RollingBack ─► RolledBack

The truth about which policy applies is in the PlacementPolicies. The status of the rollout says what is *intended*: the
stage is noted there first, then the policy is written, on condition that it is as it was seen, and then the revision of
that write is noted. A crash between any two of them is found by looking: the policy is as the stage before left it, or
as this one wants it. If it is neither, another client has changed it; then nothing is written until that is resolved.

One rollout at a time may use a policy. A rollout claims its two in its status (*Starting*), and looks again when its
cache shows the claim: of several, the one whose claim has the lowest revision goes on, and the others wait. Of two that
claim at once, the later one sees the earlier: it looks at a state that has its own claim, and so all before it.

Rolling back switches policies and removes nothing: no pod is deleted or moved by it, so that whatever serves goes on.

Not done here: choosing nodes by policies (scheduler/), comparing policies on recorded decisions (`mainstay replay`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    PLACEMENT_POLICIES,
    PODS,
    POLICY_ROLLOUTS,
    SERVICE_LEVEL_OBJECTIVES,
)
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_state import is_leaving, parse_time_or_none
from mainstay.api.policy_rollout import (
    CLAIMING,
    ENDED,
    RolloutPhase,
    RolloutReason,
    RolloutStage,
    parse_rollout,
    read_phase,
)
from mainstay.api.policy_scope import is_active, parse_scope
from mainstay.client.indexes import NAMESPACE, PRIORITY_CLASS
from mainstay.controllers.policy_rollout.cohorts import (
    CREATED,
    CohortCounters,
    RolledOut,
    count_cohorts,
    list_created,
    split_pods,
)
from mainstay.controllers.policy_rollout.counters import count_decisions, count_shadow, note_counters
from mainstay.controllers.policy_rollout.freshness import PolicyActivation, find_stale
from mainstay.controllers.policy_rollout.gate import ROLLS_BACK, GateSignals, GateVerdict, decide_gate
from mainstay.controllers.policy_rollout.health import CohortFigures, ShadowFigures, compare_cohorts, judge_shadow
from mainstay.controllers.policy_rollout.objectives import judge_objectives
from mainstay.controllers.policy_rollout.rollout_case import LOOK_EVERY, NO_FIELDS, RolloutCase
from mainstay.controllers.policy_rollout.status import build_figures, build_gate, read_figures
from mainstay.controllers.policy_rollout.switch import (
    SwitchStep,
    is_inactive,
    is_serving,
    is_whole,
    plan_finish,
    plan_rollback,
    read_fields,
)
from mainstay.controllers.policy_rollout.versions import (
    PHASE,
    POLICY_VERSION,
    list_claims,
    wake_progressing,
    wake_users,
)
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import Decision, Tell, WakeAt
from mainstay.loop.evidence import Evidence
from mainstay.loop.signals import collect_controller_errors, collect_queue_age
from mainstay.loop.view import View

MEASURED: Final = ("replicaset", "job", "service-level-objective")
"""The controllers that create the pods which are compared, and the one that measures objectives."""


class PolicyRollouts(Controller):
    name = "policy-rollout"
    kind = POLICY_ROLLOUTS
    indexes = (POLICY_VERSION, PHASE)
    reads = (
        Reads(PLACEMENT_POLICIES, wakes_among=wake_users),
        Reads(COMPONENT_STATES, wakes_among=wake_progressing),
        Reads(SERVICE_LEVEL_OBJECTIVES),
        Reads(PODS, indexes=(CREATED, NAMESPACE, PRIORITY_CLASS)),
    )
    writes = (PLACEMENT_POLICIES,)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        rollout = view.get(POLICY_ROLLOUTS, key)
        if rollout is None or is_leaving(rollout) or read_phase(rollout) in ENDED:
            return Decision()
        asked = parse_rollout(rollout)
        policies = {each["metadata"]["name"]: each for each in view.all(PLACEMENT_POLICIES)}
        case = RolloutCase(view, rollout, asked, rollout.get("status") or {}, policies)
        match case.phase:
            case RolloutPhase.PENDING:
                return _decide_pending(case)
            case RolloutPhase.STARTING:
                return _decide_starting(case)
            case RolloutPhase.PROGRESSING:
                return _decide_progressing(case)
            case RolloutPhase.FINISHING:
                return _decide_finishing(case)
            case _:
                return _decide_rolling_back(case)


# Before anything is changed.


def _decide_pending(case: RolloutCase) -> Decision:
    asked = case.asked
    if asked.is_aborted:
        return _end_unbegun(case)
    candidate = case.policies.get(asked.policy)
    if candidate is None or is_leaving(candidate):
        return case.stall(RolloutReason.CANDIDATE_NOT_FOUND, f"PlacementPolicy {asked.policy} not found")
    if parse_scope(candidate) is None:
        text = (
            f"PlacementPolicy {asked.policy} has no scope, and a policy without one cannot be limited; add scope: {{}}"
        )
        return case.stall(RolloutReason.CANDIDATE_UNSCOPED, text)
    # First of all: another rollout has activated it, and to deactivate it would be against that one.
    waits = _wait_for_others(case, {asked.policy, asked.previous})
    if waits is not None:
        return waits
    if not is_inactive(candidate):
        text = f"PlacementPolicy {asked.policy} is active already; deactivate it, or roll out another one"
        return case.stall(RolloutReason.CANDIDATE_ACTIVE, text)
    baseline, problem = _find_previous(case, candidate)
    if problem:
        return case.stall(RolloutReason.PREVIOUS_UNSUITABLE, problem)
    waits = None if baseline is None else _wait_for_others(case, {baseline["metadata"]["name"]})
    if waits is not None:
        return waits
    if asked.is_paused:
        return case.hold(RolloutReason.PAUSED, "paused before it began")
    text = f"from {'no policy' if baseline is None else baseline['metadata']['name']} to {asked.policy}"
    claim = {"policy": _identify(candidate), "previous": None if baseline is None else _identify(baseline)}
    return case.say(RolloutPhase.STARTING, RolloutReason.STARTING, text, claim)


def _wait_for_others(case: RolloutCase, names: set[str]) -> Decision | None:
    for other in _list_others(case, names - {""}):
        if read_phase(other) in (*CLAIMING, RolloutPhase.STARTING):
            text = f"PolicyRollout {other['metadata']['name']} is using the same policy; this one begins when it ends"
            return case.wait(RolloutReason.WAITING_FOR_ROLLOUT, text)
    return None


def _end_unbegun(case: RolloutCase) -> Decision:
    return case.say(RolloutPhase.ROLLED_BACK, RolloutReason.ABORTED, "aborted before it began", moves=False)


def _find_previous(case: RolloutCase, candidate: Object) -> tuple[Object | None, str]:
    """The active policy with the same scope; and why the one that was named is none."""
    scope = candidate["spec"]["scope"]
    if not case.asked.previous:
        found = [each for each in case.policies.values() if is_active(each) and is_serving(each)]
        same = [each for each in found if parse_scope(each) == parse_scope({**candidate, "spec": {"scope": scope}})]
        return (same[0] if same else None), ""
    name = case.asked.previous
    previous = case.policies.get(name)
    if previous is None:
        return None, f"spec.previous: PlacementPolicy {name} not found"
    if not is_active(previous):
        return None, f"spec.previous: PlacementPolicy {name} is not active"
    if not is_serving(previous):
        return None, f"spec.previous: PlacementPolicy {name} is limited; remove its limit"
    if parse_scope(previous) != parse_scope({**candidate, "spec": {"scope": scope}}):
        return None, f"spec.previous: PlacementPolicy {name} has another scope than {case.asked.policy}"
    return previous, ""


def _list_others(case: RolloutCase, names: set[str]) -> list[Object]:
    """The other rollouts that have claimed one of these policies."""
    own = case.rollout["metadata"]["uid"]
    return [each for each in list_claims(case.view, names) if each["metadata"]["uid"] != own]


def _identify(policy: Object) -> Object:
    return {"name": policy["metadata"]["name"], "uid": policy["metadata"]["uid"]}


def _decide_starting(case: RolloutCase) -> Decision:
    """The claim is in the store, and in this view. Is it the first?"""
    if case.asked.is_aborted:
        return _end_unbegun(case)
    claimed = [case.status.get(role) or {} for role in ("policy", "previous")]
    names = {str(each["name"]) for each in claimed if each}
    own = int(case.rollout["metadata"]["resourceVersion"])
    for other in _list_others(case, names):
        phase = read_phase(other)
        is_first = phase is RolloutPhase.STARTING and int(other["metadata"]["resourceVersion"]) < own
        if phase in CLAIMING or is_first:
            text = f"PolicyRollout {other['metadata']['name']} has claimed the same policy first"
            unclaimed = {"phase": str(RolloutPhase.PENDING), "policy": None, "previous": None}
            return case.wait(RolloutReason.WAITING_FOR_ROLLOUT, text, unclaimed)
    first = case.asked.stages[0]
    return _intend(case, first, f"stage {first.name} is next")


def _intend(case: RolloutCase, stage: RolloutStage, message: str, fields: Mapping[str, Any] = NO_FIELDS) -> Decision:
    """Note the next stage, before anything of it is written."""
    noted = {"stage": stage.name, "activation": None, **fields}
    return case.say(RolloutPhase.PROGRESSING, RolloutReason.ACTIVATING, message, noted)


# A stage.


def _decide_progressing(case: RolloutCase) -> Decision:
    if case.asked.is_aborted:
        return _roll_back(case, RolloutReason.ABORTED, "aborted by spec.aborted")
    number = case.asked.find_stage(str(case.status.get("stage") or ""))
    assert number is not None, "stages are immutable"
    stage = case.asked.stages[number]
    candidate = case.find_claimed("policy")
    problem = _find_interference(case, candidate)
    if problem is not None or candidate is None:
        assert problem is not None
        return problem
    fields, activation = read_fields(candidate), case.status.get("activation")
    if activation is None and fields != stage.fields:
        return _activate(case, number, candidate)
    if fields != stage.fields:
        return case.stall(RolloutReason.CANDIDATE_CHANGED, _describe_change(candidate, stage))
    if activation is None:
        noted = {
            "stage": stage.name,
            "revision": int(candidate["metadata"]["resourceVersion"]),
            "since": times.format_time(case.now),
            "deadline": times.format_time(case.now + case.asked.deadline),
            "counted": note_counters(case.view.all(COMPONENT_STATES), case.find_claimed("previous")),
        }
        text = f"stage {stage.name} is in effect since revision {noted['revision']}"
        said = case.say(case.phase, RolloutReason.HOLDING, text, {"activation": noted, "gate": None})
        return replace(said, result=WakeAt(case.now + LOOK_EVERY, RolloutReason.HOLDING))
    if case.asked.is_paused:
        # The time that it is paused does not count: the deadline starts again.
        text = f"paused in stage {stage.name}"
        return case.hold(RolloutReason.PAUSED, text, {"activation": {**activation, "deadline": ""}})
    if not activation.get("deadline"):
        deadline = times.format_time(case.now + case.asked.deadline)
        return _ask_gate(case, number, candidate, {**activation, "deadline": deadline})
    return _ask_gate(case, number, candidate, activation)


def _find_interference(case: RolloutCase, candidate: Object | None) -> Decision | None:
    """What other clients have done to the policies. Nothing is written against it."""
    if candidate is None:
        name = (case.status.get("policy") or {}).get("name")
        text = f"PlacementPolicy {name} was deleted or replaced; set spec.aborted to end this rollout"
        return case.stall(RolloutReason.CANDIDATE_NOT_FOUND, text)
    if not case.has_previous:
        return None
    name, baseline = case.status["previous"]["name"], case.find_claimed("previous")
    if baseline is None:
        text = (
            f"PlacementPolicy {name} was deleted or replaced: there is nothing to go back to; set spec.aborted to "
            "deactivate the candidate and end this rollout"
        )
        return case.stall(RolloutReason.PREVIOUS_NOT_FOUND, text)
    if not is_serving(baseline):
        text = (
            f"another client has changed PlacementPolicy {name}: it must be active, without limit and shadow; restore "
            "that, or set spec.aborted"
        )
        return case.stall(RolloutReason.PREVIOUS_CHANGED, text)
    return None


def _activate(case: RolloutCase, number: int, candidate: Object) -> Decision:
    stage, fields = case.asked.stages[number], read_fields(candidate)
    is_as_left = not fields.get("active") if number == 0 else fields == case.asked.stages[number - 1].fields
    if not is_as_left:
        return case.stall(RolloutReason.CANDIDATE_CHANGED, _describe_change(candidate, stage))
    if case.asked.is_paused:
        return case.hold(RolloutReason.PAUSED, f"paused before stage {stage.name}")
    write = SwitchStep(candidate, stage.fields, f"begin stage {stage.name}")
    return case.write(RolloutReason.ACTIVATING, write, f"stage {stage.name} takes effect")


def _describe_change(candidate: Object, stage: RolloutStage) -> str:
    name = candidate["metadata"]["name"]
    return (
        f"another client has changed PlacementPolicy {name} to {_show(read_fields(candidate))}; stage "
        f"{stage.name} needs {_show(stage.fields)}: restore that, or set spec.aborted"
    )


def _show(fields: Mapping[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()


def _ask_gate(case: RolloutCase, number: int, candidate: Object, activation: Mapping[str, Any]) -> Decision:
    stage = case.asked.stages[number]
    signals = _gather(case, stage, candidate, activation)
    verdict = decide_gate(signals)
    if verdict.reason in ROLLS_BACK:
        return _roll_back(case, verdict.reason, verdict.message, {"gate": build_gate(signals, verdict)}, signals)
    if verdict.reason is not RolloutReason.GATE_PASSED:
        fields = {"activation": activation, "gate": build_gate(signals, verdict)}
        said = case.say(case.phase, verdict.reason, verdict.message, fields, signals=signals)
        wakes = WakeAt(_find_next_look(signals), verdict.reason)
        return replace(said, result=wakes, events=_tell_of_wait(case, verdict))
    kept = {"gate": build_gate(signals, verdict)}
    if not stage.is_shadow and not stage.is_full:
        kept["reference"] = build_figures(signals.baseline)
    if number + 1 < len(case.asked.stages):
        following = case.asked.stages[number + 1]
        return _intend(case, following, f"{verdict.message}; {following.name} is next", kept)
    return case.say(RolloutPhase.FINISHING, RolloutReason.FINISHING, verdict.message, kept, signals=signals)


def _gather(case: RolloutCase, stage: RolloutStage, candidate: Object, activation: Mapping[str, Any]) -> GateSignals:
    states, rules = case.view.all(COMPONENT_STATES), case.asked.gate
    metadata, since = candidate["metadata"], _read_time(activation["since"])
    activated = PolicyActivation(metadata["name"], metadata["uid"], int(activation["revision"]), stage.is_shadow)
    stale = find_stale(states, activated, case.now, case.asked.freshness)
    evidence: tuple[Evidence, ...] = (
        *collect_queue_age(states, MEASURED, case.now),
        *collect_controller_errors(states, MEASURED, case.now),
    )
    ours, theirs, shadow = CohortFigures(), CohortFigures(), ShadowFigures()
    if stage.is_shadow:
        shadow = count_shadow(states, candidate)
        health = judge_shadow(shadow, rules)
    else:
        baseline = case.find_claimed("previous")
        involved = {metadata["uid"], baseline["metadata"]["uid"] if baseline is not None else ""}
        others = [each for each in case.policies.values() if each["metadata"]["uid"] not in involved]
        noted = activation.get("counted") or ()
        counted = CohortCounters(
            count_decisions(states, candidate), None if baseline is None else count_decisions(states, baseline, noted)
        )
        policies = RolledOut(candidate, baseline, others)
        pods = list_created(case.view, policies.find_scopes()[0], since)
        sides = split_pods(policies, pods)
        cohorts = count_cohorts(sides, counted, case.now, rules.bound_within)
        ours, theirs = cohorts.candidate, cohorts.baseline
        if stage.is_full:
            theirs = read_figures(case.status.get("reference"))
        objectives = judge_objectives(case.view.all(SERVICE_LEVEL_OBJECTIVES), sides.candidate, sides.baseline, since)
        stale, evidence = (*stale, *objectives.stale), (*evidence, *objectives.burning)
        health = compare_cohorts(ours, theirs, rules)
        health = replace(health, regressions=(*health.regressions, *objectives.regressions))
    deadline = _read_time(activation["deadline"])
    return GateSignals(stage, since, deadline, case.now, stale, evidence, health, ours, theirs, shadow)


def _find_next_look(signals: GateSignals) -> datetime:
    """When to ask again, if nothing wakes the rollout."""
    later = (signals.since + signals.stage.hold, signals.deadline)
    return min([signals.now + LOOK_EVERY, *(each for each in later if each > signals.now)])


def _tell_of_wait(case: RolloutCase, verdict: GateVerdict) -> tuple[Tell, ...]:
    """Once: what was said last is in the status."""
    if verdict.reason is not RolloutReason.SIGNALS_STALE or case.status.get("reason") == verdict.reason:
        return ()
    return (Tell(str(verdict.reason), verdict.message),)


def _read_time(text: Any) -> datetime:
    found = parse_time_or_none(text)
    assert found is not None, text
    return found


# The end.


def _decide_finishing(case: RolloutCase) -> Decision:
    if case.asked.is_aborted:
        return _roll_back(case, RolloutReason.ABORTED, "aborted by spec.aborted")
    candidate, baseline = case.find_claimed("policy"), case.find_claimed("previous")
    if candidate is None or (case.has_previous and baseline is None):
        return _find_interference(case, candidate) or Decision()
    if not is_whole(candidate) and not (is_serving(candidate) and (baseline is None or is_inactive(baseline))):
        return case.stall(RolloutReason.CANDIDATE_CHANGED, _describe_change(candidate, case.asked.stages[-1]))
    if baseline is not None and not is_inactive(baseline) and not is_serving(baseline):
        return _find_interference(case, candidate) or Decision()
    write = plan_finish(candidate, baseline)
    name = candidate["metadata"]["name"]
    if write is None:
        text = f"PlacementPolicy {name} applies to all of its scope"
        return case.say(RolloutPhase.COMPLETE, RolloutReason.COMPLETE, text, moves=False)
    if case.asked.is_paused:
        return case.hold(RolloutReason.PAUSED, "paused before the end")
    return case.write(RolloutReason.FINISHING, write, f"{name} takes over all of its scope")


def _roll_back(
    case: RolloutCase,
    reason: RolloutReason,
    message: str,
    fields: Mapping[str, Any] = NO_FIELDS,
    signals: GateSignals | None = None,
) -> Decision:
    """Note it, before anything is written."""
    noted = {"rollback": {"reason": str(reason), "message": message}, **fields}
    return case.say(RolloutPhase.ROLLING_BACK, reason, message, noted, signals=signals)


def _decide_rolling_back(case: RolloutCase) -> Decision:
    candidate, baseline = case.find_claimed("policy"), case.find_claimed("previous")
    said = case.status.get("rollback") or {}
    because = f"{said.get('reason')}: {said.get('message')}"
    is_lost = case.has_previous and baseline is None
    if is_lost and not case.asked.is_aborted:
        text = (
            f"PlacementPolicy {case.status['previous']['name']} was deleted or replaced and cannot be restored; the "
            f"candidate stays until you set spec.aborted, which deactivates it ({because})"
        )
        return case.stall(RolloutReason.PREVIOUS_NOT_FOUND, text)
    write = plan_rollback(candidate, baseline)
    if write is None:
        text = f"the candidate is inactive; there was no previous policy ({because})"
        if baseline is not None:
            text = f"PlacementPolicy {baseline['metadata']['name']} is in force as before ({because})"
        elif is_lost:
            name = case.status["previous"]["name"]
            text = f"the candidate is inactive, and PlacementPolicy {name} was deleted or replaced ({because})"
        return case.say(RolloutPhase.ROLLED_BACK, RolloutReason.ROLLED_BACK, text, moves=False)
    return case.write(RolloutReason.ROLLING_BACK, write, because)
