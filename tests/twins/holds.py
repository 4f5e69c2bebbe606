"""Bugs that holding could have: what is held would move all the same, or never again."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainstay.api.holds import HoldReason, ParsedHold, parse_hold
from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.deployment import controller
from mainstay.controllers.deployment.controller import Deployments, Rollout, RolloutStep
from mainstay.controllers.node_health import decide as node_health
from mainstay.controllers.node_health import loop as node_loop
from mainstay.loop.decision import DONE, Decision, WakeAt
from mainstay.loop.holds import Gate, Holding
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.view import View
from mainstay.server.placement.holds import HoldPoint
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.store.interface import Check, Entry

Twin = Callable[[pytest.MonkeyPatch], None]


# At the server.


def freezes_by_what_it_remembers(patch: pytest.MonkeyPatch) -> None:
    """An eviction looks whether it is frozen, and its commit does not check that this is still so."""

    def no_checks(found: dict[str, Entry | None]) -> list[Check]:
        return []

    patch.setattr("mainstay.server.storage.shared_writes._checks", no_checks)


def notes_no_freeze(patch: pytest.MonkeyPatch) -> None:
    async def parts_for(self: HoldPoint, intended: Intended) -> TransactionParts:
        return NOTHING

    patch.setattr(HoldPoint, "parts_for", parts_for)


def never_thaws(patch: pytest.MonkeyPatch) -> None:
    """What was noted stays when the Hold is removed."""
    honest = HoldPoint.parts_for

    async def parts_for(self: HoldPoint, intended: Intended) -> TransactionParts:
        return await honest(self, intended) if intended.new is not None else NOTHING

    patch.setattr(HoldPoint, "parts_for", parts_for)


SERVER_TWINS: Sequence[Twin] = [freezes_by_what_it_remembers, notes_no_freeze, never_thaws]


# Controllers that are held.


def goes_on_while_it_is_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gate, "set", lambda self, held: None)


def begins_before_it_knows_who_is_held(patch: pytest.MonkeyPatch) -> None:
    """A new leader looks at Holds when the next one changes."""

    def enter(self: Holding, gate: Gate) -> None:
        self._gates[gate] = None

    patch.setattr(Holding, "enter", enter)


def waits_for_another_process_to_end_it(patch: pytest.MonkeyPatch) -> None:
    """It goes on when the Hold is removed, and does not look at the clock."""
    patch.setattr(Holding, "_set_timer", lambda self, delay: None)


def hears_nothing_while_it_is_held(patch: pytest.MonkeyPatch) -> None:
    """What changes meanwhile is not put in line, and is not looked at afterwards."""
    honest = WorkQueue.add

    def add(self: WorkQueue[Any], key: Any, **more: Any) -> bool:
        return True if self._is_paused else honest(self, key, **more)

    patch.setattr(WorkQueue, "add", add)


# Rollouts that are held.


def fills_up_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """As a Deployment that is paused: up to what it may have at most."""

    def held_step(rollout: Rollout, held: ParsedHold) -> RolloutStep:
        return RolloutStep(controller.rescaled(rollout), is_rolling=False, why="held")

    patch.setattr(controller, "held_step", held_step)


def does_not_scale_what_is_held(patch: pytest.MonkeyPatch) -> None:
    def held_step(rollout: Rollout, held: ParsedHold) -> RolloutStep:
        return RolloutStep({}, is_rolling=False, why="held")

    patch.setattr(controller, "held_step", held_step)


def is_not_woken_when_the_time_is_over(patch: pytest.MonkeyPatch) -> None:
    honest = Deployments.decide

    def decide(self: Deployments, view: View, key: ObjectKey, memory: None) -> Decision:
        found = honest(self, view, key, memory)
        is_held = isinstance(found.result, WakeAt) and found.result.reason == HoldReason.ROLLOUT_HELD
        return replace(found, result=DONE) if is_held else found

    patch.setattr(Deployments, "decide", decide)


# Evictions that are frozen.


def evicts_all_the_same(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(node_loop.NodeHealth, "_frozen", lambda self, now: ())


def releases_nodes_all_the_same(patch: pytest.MonkeyPatch) -> None:
    """It only sees to it that no pod is removed."""
    patch.setattr(node_health, "freezing", lambda holds, namespace: None)


def freezes_until_it_is_released(patch: pytest.MonkeyPatch) -> None:
    """Whatever the clock shows."""

    def frozen_by(holds: Iterable[Object], now: datetime) -> tuple[ParsedHold, ...]:
        return tuple([held for each in holds if (held := parse_hold(each)) is not None])

    patch.setattr(node_loop, "frozen_by", frozen_by)
