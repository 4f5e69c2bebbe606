"""Why a policy rollout is where it is: what its gate waits for, by component and kind, or why it went back.

policies claimed ─► stage in effect ─► components fresh ─► candidate healthy
"""

from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import POLICY_ROLLOUTS
from mainstay.api.pod_state import find_condition, is_leaving, parse_time_or_none
from mainstay.api.policy_rollout import RolloutPhase, RolloutReason, parse_rollout, read_phase
from mainstay.controllers.policy_rollout.status import FRESH, HEALTHY, PROGRESSING
from mainstay.explain.registry import WhyRoom
from mainstay.explain.why.answer import ChainLink, Verdict
from mainstay.explain.why.case import Case
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.control import not_done
from mainstay.explain.why.found import (
    NOTHING,
    Finding,
    broken,
    build_subject,
    done,
    said_by,
    sentence,
    shortened,
    waiting,
)
from mainstay.explain.why.removal import leaving

_CAUSES: Final = {
    RolloutReason.SIGNALS_STALE: Cause.STALE_VIEW,
    RolloutReason.EVIDENCE: Cause.CONTROLLER_FAILING,
    RolloutReason.OBJECTIVE_BURNS: Cause.OBJECTIVE_MISSED,
    RolloutReason.PAUSED: Cause.ROLLOUT_PAUSED,
    RolloutReason.CANDIDATE_NOT_FOUND: Cause.REFERENCE_MISSING,
    RolloutReason.CANDIDATE_ACTIVE: Cause.INVALID,
    RolloutReason.CANDIDATE_UNSCOPED: Cause.INVALID,
    RolloutReason.PREVIOUS_UNSUITABLE: Cause.INVALID,
    RolloutReason.PREVIOUS_NOT_FOUND: Cause.REFERENCE_MISSING,
    RolloutReason.CANDIDATE_CHANGED: Cause.FIGHTING_WRITERS,
    RolloutReason.PREVIOUS_CHANGED: Cause.FIGHTING_WRITERS,
}
"""By the reason of its condition; all others are under way."""
_BLOCKING: Final = frozenset({Cause.INVALID, Cause.REFERENCE_MISSING, Cause.FIGHTING_WRITERS, Cause.ROLLOUT_PAUSED})
_RESTORE: Final = "Restore the fields as the message says, or set `spec.aborted` to true."
_ADVICE: Final = {
    RolloutReason.SIGNALS_STALE: (
        "Check the components that it names: mainstay top, kubectl get componentstates. If one is gone for good, "
        "delete its ComponentState."
    ),
    RolloutReason.TOO_FEW_SAMPLES: (
        "Only pods that were created since the stage took effect are compared: wait for more, restart workloads of the "
        "scope, or lower `spec.gate.minSamples`."
    ),
    RolloutReason.CANDIDATE_NOT_FOUND: "Set `spec.aborted` to true, and create another PolicyRollout.",
    RolloutReason.CANDIDATE_ACTIVE: "Set `spec.active` of that PlacementPolicy to false, or roll out another one.",
    RolloutReason.CANDIDATE_UNSCOPED: "Add `scope: {}`, which selects all pods, or a narrower scope to that policy.",
    RolloutReason.CANDIDATE_CHANGED: _RESTORE,
    RolloutReason.PREVIOUS_NOT_FOUND: "Set `spec.aborted` to true: that deactivates the candidate and ends it.",
    RolloutReason.PREVIOUS_UNSUITABLE: (
        "Create or change the PlacementPolicy that the message names, or delete this rollout and create one without "
        "`spec.previous`: the controller then finds the active policy with the same scope."
    ),
    RolloutReason.PREVIOUS_CHANGED: _RESTORE,
}
_CREATE: Final = (
    "Create that PlacementPolicy; or delete this rollout and create one with the right name, because `spec.policy` is "
    "immutable."
)
_ABORTED: Final = "Nothing, if that is intended. To roll out the policy after all, create another PolicyRollout."


async def why_policy_rollout(case: Case, rollout: Object) -> Finding:
    if is_leaving(rollout):
        return await leaving(case, POLICY_ROLLOUTS, rollout)
    subject, status = build_subject(POLICY_ROLLOUTS, rollout), rollout.get("status") or NOTHING
    said = find_condition(rollout, PROGRESSING)
    if said is None:
        since = parse_time_or_none(rollout["metadata"].get("creationTimestamp"))
        return await not_done(case, POLICY_ROLLOUTS, rollout, "policy-rollout", f"{subject.words} has no status", since)
    policy, phase = rollout["spec"]["policy"], read_phase(rollout)
    reason, message = str(said.get("reason") or ""), shortened(str(said.get("message") or ""))
    since, evidence = parse_time_or_none(said.get("lastTransitionTime")), said_by(rollout, said)
    if phase is RolloutPhase.COMPLETE:
        text = f"{subject.words} is complete: PlacementPolicy {policy} applies to all of its scope"
        link = done("stages", message, evidence)
        return Finding(cause=Cause.SATISFIED, sentence=sentence(text), verdict=Verdict.SATISFIED, chain=(link,))
    if phase is RolloutPhase.ROLLED_BACK:
        text = f"{subject.words} was rolled back: {message}"
        link = broken("stages", message, evidence)
        cause, verdict = Cause.POLICY_ROLLED_BACK, Verdict.BLOCKED
        advice = _ABORTED if parse_rollout(rollout).is_aborted else ""
        return Finding(cause=cause, sentence=sentence(text), verdict=verdict, since=since, chain=(link,), advice=advice)
    stage = str(status.get("stage") or "")
    where = f" in stage {stage}" if stage else ""
    cause = _CAUSES.get(RolloutReason(reason), Cause.ROLLING_OUT)
    is_blocked = cause in _BLOCKING
    advice = _ADVICE.get(RolloutReason(reason), "")
    if phase is RolloutPhase.PENDING and reason == RolloutReason.CANDIDATE_NOT_FOUND:
        advice = _CREATE
    return Finding(
        cause=cause,
        sentence=sentence(f"{subject.words} is {phase}{where} ({reason}): {message}"),
        verdict=Verdict.BLOCKED if is_blocked else Verdict.WAITING,
        since=since,
        chain=(*_link_gate(rollout), (broken if is_blocked else waiting)("rollout", f"{reason}: {message}", evidence)),
        advice=advice,
    )


def _link_gate(rollout: Object) -> tuple[ChainLink, ...]:
    """What is known of its gate, and fulfilled."""
    found = []
    for kind in (FRESH, HEALTHY):
        said = find_condition(rollout, kind) or NOTHING
        if said.get("status") == "True":
            found.append(done(kind.lower(), str(said.get("message") or ""), said_by(rollout, said)))
    return tuple(found)


ROOM: Final = WhyRoom(analyser=why_policy_rollout)
