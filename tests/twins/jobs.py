"""Bugs in the counting of Jobs and in disruption budgets, which scenarios must find."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.controllers.budget import controller
from mainstay.controllers.job import controller as job
from mainstay.controllers.job import pods as job_pods
from mainstay.controllers.job import status
from mainstay.controllers.job import tally as job_counting
from mainstay.controllers.job.tally import JobTally
from mainstay.controllers.pods import slots
from mainstay.loop.conditions import Condition
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Action, Decision, Patch
from mainstay.loop.freshness import Freshness
from tests.twins import scenarios


def _tallying(patch: pytest.MonkeyPatch, change: Callable[[Object, Sequence[Object], JobTally], JobTally]) -> None:
    honest = job_counting.tally

    def tally(of: Object, pods: Sequence[Object], **how: bool) -> JobTally:
        return change(of, pods, honest(of, pods, **how))

    patch.setattr(status, "tally", tally)


def lets_go_what_is_not_stored_as_listed(patch: pytest.MonkeyPatch) -> None:
    """A crash between the two loses a pod."""

    def change(of: Object, pods: Sequence[Object], found: JobTally) -> JobTally:
        listed = frozenset(itertools.chain(*found.listed))
        known = frozenset(pod["metadata"]["uid"] for pod in found.let_go)
        more = [pod for pod in pods if pod["metadata"]["uid"] in listed - known and job_pods.is_tracked(pod)]
        return replace(found, let_go=(*found.let_go, *more))

    _tallying(patch, change)


def ends_before_all_are_counted(patch: pytest.MonkeyPatch) -> None:
    _tallying(patch, lambda of, pods, found: replace(found, is_settled=True))


def forgets_the_pods_of_a_job_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job, "_strays", lambda *_: [])


def withdraws_without_saying_so(patch: pytest.MonkeyPatch) -> None:
    def withdraw(pods: Sequence[Object]) -> tuple[Action, ...]:
        actions: list[Action] = []
        for pod in pods:
            actions += [job_pods.let_go(pod)] if job_pods.is_tracked(pod) else []
            actions += [] if pod_state.is_leaving(pod) else [job_pods.delete(pod)]
        return tuple(actions)

    patch.setattr(job_pods, "withdraw", withdraw)


def makes_another_pod_at_each_look(patch: pytest.MonkeyPatch) -> None:
    """Names that come from nothing, and decisions on caches that are late."""
    numbers = itertools.count()
    patch.setattr(slots, "name_in", lambda owner, *_: f"{owner['name']}-{next(numbers)}")
    scenarios.decides_without_having_seen_its_own_writes(patch)


# Budgets


def writes_a_status_over_whatever_is_there(patch: pytest.MonkeyPatch) -> None:
    """The controller's count wins over what an eviction has taken meanwhile. (kubernetes #82149)"""
    honest = ControllerLoop._status_patch

    def status_patch(
        self: ControllerLoop, decision: Decision, key: Any, subject: Object, stalled: Condition | None
    ) -> Patch | None:
        found = honest(self, decision, key, subject, stalled)
        if found is None:
            return None
        return replace(found, resource_version="", freshness=Freshness.MAY_BE_STALE)

    patch.setattr(ControllerLoop, "_status_patch", status_patch)


def believes_its_cache_about_evicted_pods(patch: pytest.MonkeyPatch) -> None:
    """A pod that was evicted, and is still in the cache of pods, is taken for healthy."""

    def still_disrupted(
        budget: Object, pods: Sequence[Object], now: datetime
    ) -> tuple[Mapping[str, str], datetime | None]:
        return {}, None

    patch.setattr(controller, "still_disrupted", still_disrupted)
