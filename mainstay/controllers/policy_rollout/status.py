"""What a rollout says about itself: fields of its status, and conditions.

    phase, stage, reason        where it is, and the one word why it is no further
    policy, previous            the two policies, by uid: claimed when it starts
    activation                  the stage in effect: the revision of its write, since when, until when it may take
    gate                        the figures of both sides, the tests, and what is stale
    reference                   the baseline's figures at the last gate that passed: a full stage has none beside it

A merge patch writes these fields, so that objects always have the same keys, and what varies is a list.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.policy_rollout import RolloutPhase, RolloutReason
from mainstay.controllers.policy_rollout.gate import GateSignals, GateVerdict, describe_stale
from mainstay.controllers.policy_rollout.health import CohortFigures, CohortVerdict, describe_p
from mainstay.loop.conditions import Condition, Truth

PROGRESSING: Final = "Progressing"
FRESH: Final = "Fresh"
HEALTHY: Final = "Healthy"
COMPLETE: Final = "Complete"
ROLLED_BACK: Final = "RolledBack"
_AFTER_GATES: Final = frozenset(
    {RolloutPhase.FINISHING, RolloutPhase.COMPLETE, RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK}
)


class GateConditionReason(StrEnum):
    """Of `Fresh` and `Healthy`, where RolloutReason has no word for it. Shown to users: only add."""

    NO_STAGE_IN_EFFECT = "NoStageInEffect"
    """There is nothing to judge: the rollout has not begun, or its next stage has not taken effect."""
    ALL_OBSERVED = "AllObserved"
    """Every component has observed the stage, and every signal is recent."""
    NO_REGRESSION = "NoRegression"
    """The pods under the candidate do no worse than the others."""


def build_conditions(phase: RolloutPhase, reason: RolloutReason, message: str, *, moves: bool) -> list[Condition]:
    """All conditions but those of a gate. `moves`: it needs nothing from users."""
    is_complete, is_back = phase is RolloutPhase.COMPLETE, phase is RolloutPhase.ROLLED_BACK
    return [
        Condition(PROGRESSING, Truth.TRUE if moves else Truth.FALSE, reason, message),
        Condition(COMPLETE, Truth.TRUE if is_complete else Truth.FALSE, reason, message if is_complete else ""),
        Condition(ROLLED_BACK, Truth.TRUE if is_back else Truth.FALSE, reason, message if is_back else ""),
    ]


def build_gate_conditions(phase: RolloutPhase, reason: RolloutReason, signals: GateSignals | None) -> list[Condition]:
    """What the gate says. Without one they stay as they were while a stage is paused, and after the last gate."""
    if signals is None:
        if reason is RolloutReason.PAUSED or phase in _AFTER_GATES:
            return []
        return [Condition(kind, Truth.UNKNOWN, GateConditionReason.NO_STAGE_IN_EFFECT) for kind in (FRESH, HEALTHY)]
    stale = signals.stale
    fresh = Condition(FRESH, Truth.TRUE, GateConditionReason.ALL_OBSERVED, "every component has observed the stage")
    if stale:
        fresh = Condition(FRESH, Truth.FALSE, RolloutReason.SIGNALS_STALE, describe_stale(stale))
    return [fresh, _judge_health(signals.health)]


def _judge_health(health: CohortVerdict) -> Condition:
    if health.is_healthy:
        return Condition(HEALTHY, Truth.TRUE, GateConditionReason.NO_REGRESSION, "no signal regresses")
    if health.regressions:
        return Condition(HEALTHY, Truth.FALSE, RolloutReason.REGRESSION, "; ".join(health.regressions))
    return Condition(HEALTHY, Truth.UNKNOWN, RolloutReason.TOO_FEW_SAMPLES, health.missing)


def build_gate(signals: GateSignals, verdict: GateVerdict) -> Object:
    return {
        "reason": str(verdict.reason),
        "message": verdict.message,
        "stale": [{"component": each.component, "kind": each.kind, "message": each.message} for each in signals.stale],
        "candidate": build_figures(signals.candidate),
        "baseline": build_figures(signals.baseline),
        "shadow": {
            "shadowed": signals.shadow.shadowed,
            "different": signals.shadow.different,
            "unplaced": signals.shadow.unplaced,
        },
        "tests": [
            {
                "signal": each.signal,
                "candidate": f"{each.candidate[0]}/{each.candidate[1]}",
                "baseline": f"{each.baseline[0]}/{each.baseline[1]}",
                "pValue": describe_p(each.p_value),
                "regression": each.is_regression,
            }
            for each in signals.health.tests
        ],
    }


def build_figures(figures: CohortFigures) -> Object:
    return {
        "pods": figures.pods,
        "pending": [{"reason": reason, "count": count} for reason, count in sorted(figures.pending.items())],
        "late": figures.late,
        "disrupted": figures.disrupted,
        "decided": figures.decided,
        "conflicts": figures.conflicts,
        "refused": figures.refused,
        "undecided": figures.undecided,
        "counted": figures.is_counted,
    }


def read_figures(written: Mapping[str, Any] | None) -> CohortFigures:
    """What `build_figures` has written; nothing, if nothing was."""
    said: Mapping[str, Any] = written or {}
    pending: Iterable[Mapping[str, Any]] = said.get("pending") or ()
    counts = [int(said.get(name) or 0) for name in ("pods", "late", "disrupted", "decided", "conflicts", "refused")]
    pods, late, disrupted, decided, conflicts, refused = counts
    by_reason = {str(each["reason"]): int(each["count"]) for each in pending}
    is_counted = bool(said.get("counted"))
    return CohortFigures(pods, by_reason, late, disrupted, decided, conflicts, refused, is_counted=is_counted)
