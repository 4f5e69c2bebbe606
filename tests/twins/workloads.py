"""Bugs in what keeps workloads as they are wanted, and in how controllers take turns and try again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.node_health import HealthState
from mainstay.api.retry_shape import RetryShape
from mainstay.controllers.deployment import controller
from mainstay.controllers.deployment.controller import Rollout, RolloutStep, read_size
from mainstay.controllers.node_health import decide
from mainstay.controllers.replicaset import replacement
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop import controller_loop, deletion_order
from mainstay.loop.queue import items as outcomes
from mainstay.loop.view import View
from tests.twins import queue

# Rollouts


def waits_until_the_template_before_has_come_up(patch: pytest.MonkeyPatch) -> None:
    """As a StatefulSet does: what is broken is never replaced."""
    honest = controller.rolled

    def rolled(rollout: Rollout, view: View) -> RolloutStep:
        sizes = [read_size(each) for each in rollout.old]
        if rollout.new is None and any(each.wanted > each.available for each in sizes):
            return RolloutStep({}, why="the last rollout is not done")
        return honest(rollout, view)

    patch.setattr(controller, "rolled", rolled)


def takes_the_last_of_a_zone_for_a_rollout(patch: pytest.MonkeyPatch) -> None:
    """Or for a rollback: it counts pods, wherever they are."""
    patch.setattr(controller, "_with_spares", lambda rollout, sizes, view: list(sizes))


def chooses_pods_without_regard_to_zones(patch: pytest.MonkeyPatch) -> None:
    honest = deletion_order.chosen

    def chosen(pods: Sequence[Object], count: int, **known: Any) -> list[Object]:
        return honest(pods, count, **{**known, "zones": {}})

    patch.setattr(deletion_order, "chosen", chosen)


# Replacing


def replaces_whatever_has_failed_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replacement, "not_before", lambda pods: {})


# Trying again


def tries_again_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RetryShape, "delay", lambda self, attempt, jitter: timedelta(milliseconds=50))


def serves_failing_keys_before_all_others(patch: pytest.MonkeyPatch) -> None:
    """Never waits for longer than a second, and has no other tenant's turn before all of one's are done."""
    patch.setattr(RetryShape, "delay", lambda self, attempt, jitter: timedelta(seconds=1.1))
    queue.serves_one_tenant_until_it_has_nothing_left(patch)


def forgets_what_has_failed(patch: pytest.MonkeyPatch) -> None:
    """It is in the logs; it is not looked at again."""
    patch.setattr(controller_loop, "follow_up", lambda error: outcomes.DONE)


def says_refusals_in_logs_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReplicaSets, "after_failure", lambda self, decision, action, error: decision)


# The missing replica


def gives_up_every_pod_that_was_unknown_once(patch: pytest.MonkeyPatch) -> None:
    """That it is heard of again does not count."""
    honest = decide._verdict

    def verdict(facts: Any, heard: Any, since_ns: int, now_ns: int, silences: Any) -> Any:
        if facts.record.state in (HealthState.UNKNOWN, HealthState.RELEASED):
            heard = replace(heard, heartbeat_ns=since_ns, first_ns=since_ns)
        return honest(facts, heard, since_ns, now_ns, silences)

    patch.setattr(decide, "_verdict", verdict)


# The store
