"""When a Job as a whole is over, and how long it waits before it tries again what has failed.

The end comes in two steps. First the *target* is written down, `SuccessCriteriaMet` or `FailureTarget`, with its
reason: from then on nothing changes it, and the pods that are left are taken away. When the last of them has ended and
is counted, `Complete` or `Failed` follows with the same reason. So readers of these can rely on nothing running.

After a failure there is a pause of 10 s before the next pod, twice as long after each further failure in a row, and ten
minutes at most; with `backoffLimitPerIndex` for each index by itself. It is worked out from the pods that are there, so
that it is the same after a crash.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.times import to_duration
from mainstay.controllers.job import indexes
from mainstay.controllers.job.failure_policy import FailureAction, rule_for
from mainstay.controllers.job.indexes import is_indexed
from mainstay.controllers.job.pods import is_tracked, is_withdrawn
from mainstay.controllers.job.tally import JobTally, PodOutcome, failures_after, find_outcome

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
PAUSE_MIN: Final = timedelta(seconds=10)
PAUSE_MAX: Final = timedelta(minutes=10)
_DOUBLINGS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How it ends."""

    is_success: bool
    reason: str
    message: str


def stored_target(job: Object) -> JobEnd | None:
    """What was written down; it stays so."""
    for name in (SUCCESS, FAILURE):
        condition = pod_state.find_condition(job, name) or {}
        if is_said(job, name):
            return JobEnd(name == SUCCESS, condition.get("reason", ""), condition.get("message", ""))
    return None


def find_end(job: Object, pods: Sequence[Object], tally: JobTally, active: int, now: datetime) -> JobEnd | None:
    """How it ends, if it is clear by now. Failures first, as upstream."""
    return _failure(job, pods, tally, now) or _success(job, tally, active)


def _failure(job: Object, pods: Sequence[Object], tally: JobTally, now: datetime) -> JobEnd | None:
    spec = job["spec"]
    for pod in pods:
        rule = rule_for(job, pod) if is_tracked(pod) and not is_withdrawn(pod) else None
        if rule is not None and rule.action is FailureAction.FAIL_JOB:
            return JobEnd(False, "PodFailurePolicy", rule.message)
    limit = int(spec.get("backoffLimit", 6))
    if tally.failed_in_all > limit or _restarts_too_often(job, pods, limit):
        return JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    deadline = find_deadline(job, now)
    if deadline is not None and now >= deadline:
        return JobEnd(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    if spec.get("backoffLimitPerIndex") is not None and tally.failed_indexes:
        count = len(tally.failed_indexes)
        most = spec.get("maxFailedIndexes")
        if most is not None and count > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            return JobEnd(False, "MaxFailedIndexesExceeded", text)
        if count + len(tally.completed) >= int(spec.get("completions") or 0):
            return JobEnd(False, "FailedIndexes", "Job has failed indexes")
    return None


def _success(job: Object, tally: JobTally, active: int) -> JobEnd | None:
    spec = job["spec"]
    completions = spec.get("completions")
    if is_indexed(job):
        rule = indexes.success_rule(spec.get("successPolicy"), tally.completed, int(completions or 0))
        if rule is not None:
            return JobEnd(True, "SuccessPolicy", f"Matched rules at index {rule}")
    if completions is None:
        # One that succeeds speaks for all of them; those that run may end in their own time.
        is_reached = tally.succeeded_in_all > 0 and active == 0
    else:
        is_reached = tally.succeeded_in_all >= completions
    return JobEnd(True, "CompletionsReached", "Reached expected number of succeeded pods") if is_reached else None


def find_deadline(job: Object, now: datetime) -> datetime | None:
    """When a job that runs has run for too long."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    if seconds is None or job["spec"].get("suspend"):
        return None
    return (started_at(job) or now) + to_duration(seconds)


def started_at(job: Object) -> datetime | None:
    """Since when it runs; None if it begins just now: for the first time, or again after it was suspended."""
    if is_said(job, SUSPENDED):
        return None
    return pod_state.parse_time_or_none((job.get("status") or {}).get("startTime"))


def is_said(job: Object, name: str) -> bool:
    """Whether a condition is true in its stored status."""
    condition = pod_state.find_condition(job, name)
    return condition is not None and condition.get("status") == "True"


def _restarts_too_often(job: Object, pods: Sequence[Object], limit: int) -> bool:
    """Where containers are restarted in their pods, each time counts."""
    if (job["spec"]["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        int(each.get("restartCount") or 0)
        for pod in pods
        if not pod_state.is_over(pod) and not is_withdrawn(pod)
        for field in ("initContainerStatuses", "containerStatuses")
        for each in (pod.get("status") or {}).get(field) or ()
    )
    return restarts > 0 if limit == 0 else restarts >= limit


# Pauses.


def next_try(job: Object, pods: Iterable[Object]) -> datetime | None:
    """When the next pod may be made, after those that have failed since the last success; None: at any time."""
    ended = sorted(
        (
            (ended_at(pod), outcome)
            for pod in pods
            if not is_withdrawn(pod) and (outcome := find_outcome(job, pod, is_failing=False)) is not None
        ),
        key=lambda each: each[0],
    )
    in_a_row = 0
    for _, outcome in reversed(ended):
        if outcome is PodOutcome.SUCCEEDED:
            break
        in_a_row += 1
    return ended[-1][0] + pause_after(in_a_row) if in_a_row else None


def next_try_of_index(job: Object, last: Object | None) -> datetime | None:
    """The same for one index. `last` is its last pod."""
    if last is None or find_outcome(job, last, is_failing=False) is not PodOutcome.FAILED:
        return None
    return ended_at(last) + pause_after(max(1, failures_after(job, last)))


def pause_after(failures: int) -> timedelta:
    doublings = min(max(0, failures - 1), _DOUBLINGS_MAX)
    return min(PAUSE_MAX, PAUSE_MIN * (1 << doublings))


def ended_at(pod: Object) -> datetime:
    """When its last container ended; else when it was told to leave; else when it stopped being ready."""
    status: Any = pod.get("status") or {}
    found = [
        at
        for field in ("containerStatuses", "initContainerStatuses")
        for each in status.get(field) or ()
        if (at := pod_state.parse_time_or_none(((each.get("state") or {}).get("terminated") or {}).get("finishedAt")))
        is not None
    ]
    if found:
        return max(found)
    metadata = pod["metadata"]
    leaves = pod_state.parse_time_or_none(metadata.get("deletionTimestamp"))
    if leaves is not None:
        return leaves - timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    ready = pod_state.find_condition(pod, "Ready")
    return pod_state.parse_time_or_none((ready or {}).get("lastTransitionTime")) or pod_state.created_at(pod)
