"""The gate at the end of a stage: everything it asks, and the one answer.

    every component has seen the stage ─► no evidence against going on ─► enough samples ─► no regression
    ─► held for long enough ─► pass

A regression, and a deadline that has passed, roll the stage back. Everything else that is not as it should be is waited
for, and named: a signal that is missing or old never passes a gate. A regression needs no fresh components to be
believed: going back is the safe side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mainstay.api import times
from mainstay.api.policy_rollout import RolloutReason, RolloutStage
from mainstay.controllers.policy_rollout.freshness import StaleSignal
from mainstay.controllers.policy_rollout.health import CohortFigures, CohortVerdict, ShadowFigures
from mainstay.loop.evidence import Evidence, EvidenceResponse, Signal, allowed

STALE_NAMED_MAX: Final = 3
"""Components that a message names."""
ROLLS_BACK: Final = frozenset({RolloutReason.REGRESSION, RolloutReason.DEADLINE_EXCEEDED})


@dataclass(frozen=True, slots=True)
class GateSignals:
    """What a gate is decided by."""

    stage: RolloutStage
    since: datetime
    deadline: datetime
    now: datetime
    stale: tuple[StaleSignal, ...]
    evidence: tuple[Evidence, ...]
    """About the controllers whose pods are compared, and the objectives of workloads under the candidate."""
    health: CohortVerdict
    candidate: CohortFigures
    baseline: CohortFigures
    shadow: ShadowFigures


@dataclass(frozen=True, slots=True)
class GateVerdict:
    reason: RolloutReason
    message: str


def decide_gate(signals: GateSignals) -> GateVerdict:
    stage, health = signals.stage, signals.health
    if health.regressions:
        return GateVerdict(RolloutReason.REGRESSION, "; ".join(health.regressions))
    waits = _find_wait(signals)
    if waits is None:
        return GateVerdict(RolloutReason.GATE_PASSED, f"stage {stage.name} has passed its gate")
    if signals.now >= signals.deadline:
        text = f"stage {stage.name} did not pass its gate until {times.format_time(signals.deadline)}: {waits.message}"
        return GateVerdict(RolloutReason.DEADLINE_EXCEEDED, text)
    return waits


def _find_wait(signals: GateSignals) -> GateVerdict | None:
    """The first thing that the gate waits for; None if there is nothing."""
    if signals.stale:
        return GateVerdict(RolloutReason.SIGNALS_STALE, describe_stale(signals.stale))
    pausing = [each for each in signals.evidence if EvidenceResponse.PAUSE_ROLLOUT in allowed((each,))]
    if pausing:
        is_slo = all(each.signal is Signal.SLO_BURN for each in pausing)
        reason = RolloutReason.OBJECTIVE_BURNS if is_slo else RolloutReason.EVIDENCE
        return GateVerdict(reason, "; ".join(each.words for each in pausing))
    if signals.health.missing:
        return GateVerdict(RolloutReason.TOO_FEW_SAMPLES, signals.health.missing)
    until = signals.since + signals.stage.hold
    if signals.now < until:
        return GateVerdict(
            RolloutReason.HOLDING, f"stage {signals.stage.name} is held until {times.format_time(until)}"
        )
    return None


def describe_stale(stale: tuple[StaleSignal, ...]) -> str:
    """By component, the first kind of it that is behind, and how many others are."""
    by_component: dict[str, list[str]] = {}
    for each in stale:
        by_component.setdefault(each.component or each.message, []).append(each.message)
    described = [f"{first}{_count_more(others, 'kind')}" for first, *others in by_component.values()]
    return "; ".join(described[:STALE_NAMED_MAX]) + _count_more(described[STALE_NAMED_MAX:], "component")


def _count_more(others: Sequence[str], word: str) -> str:
    if not others:
        return ""
    return f" (and {len(others)} more {word if len(others) == 1 else f'{word}s'})"
