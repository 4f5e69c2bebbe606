"""What is seen of a Job that is not over, and what is said about it in its status.

`active`, `ready` and `terminating` are of the pods as they are; `succeeded`, `failed` and the indexes are what is
counted so far. Fields that would say none are left out, as upstream does it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainstay.api import pod_state, times
from mainstay.api.kind import Object
from mainstay.controllers.job import indexes
from mainstay.controllers.job.failures import (
    COMPLETE,
    FAILED,
    FAILURE,
    SUCCESS,
    SUSPENDED,
    JobEnd,
    started_at,
    stored_target,
)
from mainstay.controllers.job.indexes import is_indexed
from mainstay.controllers.job.pods import is_withdrawn
from mainstay.controllers.job.tally import JobTally, PodOutcome, tally
from mainstay.loop.conditions import Condition, Truth


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job that is not over, and its pods."""

    job: Object
    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    terminating: int
    counted: JobTally
    now: datetime

    @property
    def is_suspended(self) -> bool:
        return bool(self.job["spec"].get("suspend"))


def take_snapshot(job: Object, pods: tuple[Object, ...], now: datetime) -> JobSnapshot:
    target = stored_target(job)
    is_failing = target is not None and not target.is_success
    return JobSnapshot(
        job=job,
        pods=pods,
        active=tuple([pod for pod in pods if pod_state.is_active(pod) and not is_withdrawn(pod)]),
        terminating=sum(1 for pod in pods if pod_state.is_terminating(pod)),
        counted=tally(job, pods, is_failing=is_failing, is_ending=target is not None),
        now=now,
    )


def build_status(seen: JobSnapshot) -> dict[str, Any]:
    job, counted = seen.job, seen.counted
    before = job.get("status") or {}
    listed = {outcome.value: list(uids) for outcome, uids in zip(PodOutcome, counted.listed, strict=True) if uids}
    # A merge patch leaves alone what is not named.
    gone = {name: None for name in before.get("uncountedTerminatedPods") or {} if name not in listed}
    started = before.get("startTime")
    if not seen.is_suspended and started_at(job) is None:
        started = times.format_time(seen.now)
    status: dict[str, Any] = {
        "startTime": started,
        "active": len(seen.active) or None,
        "ready": sum(1 for pod in seen.active if pod_state.is_ready(pod)),
        "terminating": seen.terminating,
        "succeeded": counted.succeeded or None,
        "failed": counted.failed or None,
        "uncountedTerminatedPods": {**listed, **gone},
    }
    if is_indexed(job):
        status["completedIndexes"] = indexes.render_indexes(counted.completed) or None
        status["failedIndexes"] = indexes.render_indexes(counted.failed_indexes) or None
    return status


def says_more(job: Object, status: dict[str, Any]) -> bool:
    """Whether something follows from a status once it is stored: pods can be let go."""
    before = job.get("status") or {}
    was = before.get("uncountedTerminatedPods") or {}
    is_listing = any(
        uid not in (was.get(name) or ())
        for name, uids in status["uncountedTerminatedPods"].items()
        for uid in uids or ()
    )
    return is_listing or any(status.get(name) != before.get(name) for name in ("completedIndexes", "failedIndexes"))


def build_conditions(seen: JobSnapshot, target: JobEnd | None, *, is_over: bool) -> tuple[Condition, ...]:
    found: list[Condition] = []
    if target is not None:
        names = (SUCCESS, COMPLETE) if target.is_success else (FAILURE, FAILED)
        for name in names if is_over else names[:1]:
            found.append(Condition(name, Truth.TRUE, target.reason, target.message))
    if seen.is_suspended:
        if target is None:
            found.append(Condition(SUSPENDED, Truth.TRUE, "JobSuspended", "Job suspended"))
    elif pod_state.find_condition(seen.job, SUSPENDED) is not None:
        found.append(Condition(SUSPENDED, Truth.FALSE, "JobResumed", "Job resumed"))
    return tuple(found)
