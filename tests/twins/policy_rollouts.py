"""Rollouts of policies that pass gates which they should not, or leave pods without a policy: tests must find each."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.policy_rollout import GateRules, RolloutPhase, RolloutReason
from mainstay.controllers.policy_rollout import controller
from mainstay.controllers.policy_rollout.freshness import PolicyActivation, StaleSignal, find_stale
from mainstay.controllers.policy_rollout.gate import GateSignals, GateVerdict, decide_gate
from mainstay.controllers.policy_rollout.health import CohortFigures, CohortVerdict, compare_cohorts
from mainstay.controllers.policy_rollout.rollout_case import NO_FIELDS, RolloutCase
from mainstay.controllers.policy_rollout.switch import SwitchStep, is_inactive
from mainstay.loop.decision import Decision


def passes_when_signals_are_missing(patch: pytest.MonkeyPatch) -> None:
    """A component that has not published for long is taken for one that is gone."""

    def find(states: Any, activation: PolicyActivation, now: datetime, within: timedelta) -> tuple[StaleSignal, ...]:
        return tuple([each for each in find_stale(states, activation, now, within) if each.kind])

    patch.setattr(controller, "find_stale", find)


def asks_only_whether_the_policy_was_seen(patch: pytest.MonkeyPatch) -> None:
    """The other kinds that a component follows may be as late as they are."""

    def find(states: Any, activation: PolicyActivation, now: datetime, within: timedelta) -> tuple[StaleSignal, ...]:
        found = find_stale(states, activation, now, within)
        return tuple([each for each in found if each.kind in ("", "placementpolicies.mainstay.dev")])

    patch.setattr(controller, "find_stale", find)


def compares_whatever_there_is(patch: pytest.MonkeyPatch) -> None:
    """However few samples there are, they are compared; and what shows nothing is healthy."""

    def compare(candidate: CohortFigures, baseline: CohortFigures, rules: GateRules) -> CohortVerdict:
        return compare_cohorts(candidate, baseline, replace(rules, min_samples=0))

    patch.setattr(controller, "compare_cohorts", compare)


def overlooks_regressions(patch: pytest.MonkeyPatch) -> None:
    """Pods that wait are not a sign of anything."""

    def compare(candidate: CohortFigures, baseline: CohortFigures, rules: GateRules) -> CohortVerdict:
        return compare_cohorts(replace(candidate, pending={}, late=0), replace(baseline, pending={}, late=0), rules)

    patch.setattr(controller, "compare_cohorts", compare)


def deactivates_the_previous_policy_first(patch: pytest.MonkeyPatch) -> None:
    """The stage of all pods begins with the end of the previous policy."""
    honest = controller._activate

    def activate(case: RolloutCase, number: int, candidate: Object) -> Decision:
        baseline = case.find_claimed("previous")
        is_last = number == len(case.asked.stages) - 1
        if is_last and baseline is not None and not is_inactive(baseline):
            step = SwitchStep(baseline, {"active": False}, "deactivate it")
            return case.write(RolloutReason.ACTIVATING, step, "make room")
        return honest(case, number, candidate)

    patch.setattr(controller, "_activate", activate)


def forgets_the_deadline(patch: pytest.MonkeyPatch) -> None:
    def decide(signals: GateSignals) -> GateVerdict:
        return decide_gate(replace(signals, deadline=signals.now + timedelta(days=1)))

    patch.setattr(controller, "decide_gate", decide)


def rolls_back_without_restoring(patch: pytest.MonkeyPatch) -> None:
    """That the rollout is over is said at once, and the candidate stays."""
    patch.setattr(controller, "plan_rollback", lambda candidate, baseline: None)


def skips_a_stage(patch: pytest.MonkeyPatch) -> None:
    """After the first gate has passed, all pods are next."""
    honest = controller._intend

    def intend(case: RolloutCase, stage: Any, message: str, fields: Any = NO_FIELDS) -> Decision:
        is_first = case.phase is not RolloutPhase.PROGRESSING
        return honest(case, stage if is_first else case.asked.stages[-1], message, fields)

    patch.setattr(controller, "_intend", intend)
