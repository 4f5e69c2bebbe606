"""Write down how far each workload has come, and what limits it: `status.progress` (api/progress.py).

A ReplicaSet and a Job are judged by their pods, a Deployment by its ReplicaSets: it adds up what these say of
themselves. Nothing acts on the record but who reads it; it is made of what everybody has committed, and depends on its
own last words only where something is remembered (the last action, the last error). So when nothing else changes, it
does not.

The workload's own controller writes the same status. Each writes only its own fields: this one the field `progress`,
by a patch of what differs in it, without looking at the rest. A record is made `EVERY` after the first change that it
tells of, however many pods change until then: it is for people and slow loops, and most of what happens to a workload
happens in bursts. The workload's own controller, which acts at once, has said its word by then, and is not put off by a
status that has changed under its hands.

Not judged here: what a deadline leads to (controllers/deployment/controller.py, controllers/job/controller.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state, times
from mainstay.api.causes import QUOTA_EXCEEDED
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.api.progress import (
    FIELD,
    ActionOutcome,
    Deadline,
    DeadlineState,
    Error,
    PendingReason,
    Progress,
    ProgressAction,
    ProgressLimit,
    ProgressVerdict,
    read_progress,
)
from mainstay.api.stages import PodStage
from mainstay.client.indexes import OWNER
from mainstay.controllers.deployment import status as rollout_status
from mainstay.controllers.progress.holdups import (
    MESSAGE_LENGTH_MAX,
    Holdup,
    count_replicas,
    find_limit,
    pending_reasons,
)
from mainstay.loop.controller import Controller, Reads, owner
from mainstay.loop.decision import Decision, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

EVERY: Final = timedelta(seconds=1)
CREATE_SET: Final = "CreateReplicaSet"
CREATE_POD: Final = "CreatePod"
DRAIN_POD: Final = "DrainPod"
_ACTIONS: Final = (CREATE_SET, CREATE_POD, DRAIN_POD)
"""In the order in which they follow from each other. Times are whole seconds, in which all of them may happen."""

_NO_DEADLINE: Final = Deadline(DeadlineState.NONE)


@dataclass(frozen=True, slots=True)
class Due:
    """What is remembered of a workload: when to look at it."""

    at: datetime


Judge = Callable[[Object, Sequence[Object], datetime], Progress]
"""How far a workload is, from it and what it owns, at a time."""


class ProgressRecorder(Controller):
    """Writes the progress of one kind of workload, as judged from what it owns."""

    conditions_have_generation = False
    says_stalled = False

    def __init__(self, name: str, kind: KindName, owned: KindName, judge: Judge) -> None:
        self.name = name
        self.kind = kind
        self.reads = (Reads(owned, wakes=owner(kind), indexes=(OWNER,)),)
        self._owned = owned
        self._judge = judge

    def decide(self, view: View, key: ObjectKey, memory: Due | None) -> Decision:
        workload = view.get(self.kind, key)
        if workload is None or pod_state.is_leaving(workload):
            return Decision()
        if memory is None or memory.at > view.now + EVERY:  # Or the clock has gone back.
            memory = Due(view.now + EVERY)
        if view.now < memory.at:
            return Decision(result=WakeAt(memory.at, "rate limited"), memory=memory)
        before = (workload.get("status") or {}).get(FIELD) or {}
        owned = view.owned_by(self._owned, workload["metadata"]["uid"])
        wanted = self._judge(workload, owned, view.now).as_object()
        if before == wanted:
            return Decision()
        body = {"status": {FIELD: difference(before, wanted)}}
        patch = Patch(self.kind, key, workload["metadata"]["uid"], body, "status", freshness=Freshness.MAY_BE_STALE)
        return Decision((patch,), reasons=(wanted["verdict"],))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
    """A merge patch that leads from one to the other."""
    changed: Object = dict.fromkeys([name for name in before if name not in after])
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if below := difference(old, value):
                changed[name] = below
        elif old != value:
            changed[name] = value
    return changed


# Of pods.


def of_set(replica_set: Object, pods: Sequence[Object], now: datetime) -> Progress:
    desired = int(replica_set["spec"].get("replicas", 1))
    replicas = count_replicas(pods)
    missing = _not_admitted(replica_set, desired - replicas.admitted, "replicaset")
    limit, verdict = _limit((*missing, *replicas.holdups))
    if limit is None:
        verdict = (
            ProgressVerdict.COMPLETE if replicas.ready == replicas.admitted == desired else ProgressVerdict.PROGRESSING
        )
    before = read_progress(replica_set)
    return Progress(
        observed_generation=replica_set["metadata"].get("generation", 0),
        desired=desired,
        admitted=replicas.admitted,
        pending=replicas.pending,
        bound=replicas.bound,
        starting=replicas.starting,
        ready=replicas.ready,
        serving=replicas.serving,
        pending_reasons=pending_reasons(replicas.holdups),
        last_action=_last_action(replica_set, pods, before),
        last_error=_last_error(limit, verdict, before, now),
        deadline=_NO_DEADLINE,
        limited_by=limit,
        verdict=verdict,
    )


def of_job(job: Object, pods: Sequence[Object], now: datetime) -> Progress:
    spec, status = job["spec"], job.get("status") or {}
    parallel = int(spec.get("parallelism", 1))
    desired, succeeded = int(spec.get("completions") or parallel), int(status.get("succeeded") or 0)
    replicas = count_replicas(pods)
    limit: ProgressLimit | None = None
    error: Error | None = None
    before = read_progress(job)
    failed = _holds(job, "Failed") or _holds(job, "FailureTarget")
    if _holds(job, "Complete") or _holds(job, "SuccessCriteriaMet"):
        verdict = ProgressVerdict.COMPLETE
    elif failed is not None:
        verdict = ProgressVerdict.FAILED
        error = _parse_error(failed)
    elif spec.get("suspend"):
        limit, verdict = (
            ProgressLimit(PodStage.ADMITTED, "job", "Suspended", desired - succeeded),
            ProgressVerdict.WAITING,
        )
    else:
        tried = max(0, min(parallel, desired - succeeded) - replicas.admitted)
        limit, verdict = _limit((*_not_admitted(job, tried, "job"), *replicas.holdups))
    return Progress(
        observed_generation=job["metadata"].get("generation", 0),
        desired=desired,
        admitted=replicas.admitted,
        pending=replicas.pending,
        bound=replicas.bound,
        starting=replicas.starting,
        ready=replicas.ready,
        serving=replicas.serving,
        succeeded=succeeded,
        pending_reasons=pending_reasons(replicas.holdups),
        last_action=_last_action(job, pods, before),
        last_error=error or _last_error(limit, verdict, before, now),
        deadline=_deadline_of_job(job, failed),
        limited_by=limit,
        verdict=verdict,
    )


def _limit(holdups: Sequence[Holdup]) -> tuple[ProgressLimit | None, ProgressVerdict]:
    return find_limit(holdups) or (None, ProgressVerdict.PROGRESSING)


def _not_admitted(workload: Object, count: int, component: str) -> list[Holdup]:
    """One for each replica that is not there."""
    if count <= 0:
        return []
    said = pod_state.find_condition(workload, rollout_status.REPLICA_FAILURE)
    if said is None or said.get("status") != "True":
        return [Holdup(PodStage.ADMITTED, component, "Creating")] * count
    # A quota is others' to give back. What is refused for another reason is refused again.
    message = str(said.get("message") or "")
    is_quota = said.get("cause") == QUOTA_EXCEEDED
    verdict = ProgressVerdict.WAITING if is_quota else ProgressVerdict.STUCK
    reason = QUOTA_EXCEEDED if is_quota else str(said.get("reason") or "FailedCreate")
    return [Holdup(PodStage.ADMITTED, "server", reason, message[:MESSAGE_LENGTH_MAX], verdict)] * count


def _last_action(workload: Object, pods: Iterable[Object], before: Progress | None) -> ProgressAction | None:
    """The last pod that was made or told to end, or could not be made. What was drained and is gone is remembered."""
    pods = list(pods)
    found = [ProgressAction(CREATE_POD, ActionOutcome.COMPLETED, _name(pod), _created(pod)) for pod in pods]
    for pod in pods:
        if pod_state.is_leaving(pod):
            # When it was told to is not kept: the time is when it must have ended, less the time it was given.
            until = pod_state.parse_time_or_none(pod["metadata"]["deletionTimestamp"])
            grace = timedelta(seconds=int(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
            at = times.format_time(until - grace) if until is not None else ""
            found.append(ProgressAction(DRAIN_POD, ActionOutcome.REQUESTED, _name(pod), at))
    failure = pod_state.find_condition(workload, rollout_status.REPLICA_FAILURE)
    if failure is not None and failure.get("status") == "True":
        action = DRAIN_POD if failure.get("reason") == "FailedDelete" else CREATE_POD
        found.append(ProgressAction(action, ActionOutcome.REFUSED, at=str(failure.get("lastTransitionTime") or "")))
    if before is not None and (last := before.last_action) is not None:
        if last.action == DRAIN_POD and all(_name(pod) != last.object for pod in pods):
            last = ProgressAction(last.action, ActionOutcome.COMPLETED, last.object, last.at)
        if all(each.object != last.object or each.action != last.action for each in found):
            found.append(last)
    return max(found, key=_order, default=None)


def _order(action: ProgressAction) -> tuple[str, int, str]:
    rank = _ACTIONS.index(action.action) if action.action in _ACTIONS else -1
    return action.at, rank, action.object


def _last_error(
    limit: ProgressLimit | None, verdict: ProgressVerdict, before: Progress | None, now: datetime
) -> Error | None:
    """What stands in the way; when nothing does, what last stood there."""
    last = before.last_error if before is not None else None
    if limit is None or verdict not in (ProgressVerdict.WAITING, ProgressVerdict.STUCK, ProgressVerdict.FAILED):
        return last
    if last is not None and (last.reason, last.message) == (limit.reason, limit.message):
        return last
    return Error(limit.reason, limit.message, times.format_time(now))


def _parse_error(condition: Mapping[str, Any]) -> Error:
    message = str(condition.get("message") or "")[:MESSAGE_LENGTH_MAX]
    return Error(str(condition.get("reason") or ""), message, str(condition.get("lastTransitionTime") or ""))


def _deadline_of_job(job: Object, failed: Mapping[str, Any] | None) -> Deadline:
    seconds, started = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if failed is not None and failed.get("reason") == "DeadlineExceeded":
        return Deadline(DeadlineState.PASSED)
    since = pod_state.parse_time_or_none(started)
    if seconds is None or since is None or failed is not None or _holds(job, "Complete"):
        return _NO_DEADLINE
    return Deadline(DeadlineState.RUNNING, times.format_time(since + times.to_duration(seconds)))


# Of sets.


def of_deployment(deployment: Object, sets: Sequence[Object], now: datetime) -> Progress:
    spec, status = deployment["spec"], deployment.get("status") or {}
    desired = int(spec.get("replicas", 1))
    parts = [part for each in sets if (part := read_progress(each)) is not None]
    generation = deployment["metadata"].get("generation", 0)
    is_seen = int(status.get("observedGeneration") or 0) >= generation
    updated = int(status.get("updatedReplicas") or 0)
    is_complete = (
        is_seen
        and updated == desired == int(status.get("replicas") or 0)
        and int(status.get("availableReplicas") or 0) == desired
        # What the sets say may be older. Complete is only what is so by both.
        and (not parts or sum(part.admitted for part in parts) == sum(part.ready for part in parts) == desired)
    )
    limit, verdict = _limit_of_sets(deployment, parts, 0 if is_complete else max(0, desired - updated))
    if limit is None:
        verdict = ProgressVerdict.COMPLETE if is_complete else ProgressVerdict.PROGRESSING
    condition = pod_state.find_condition(deployment, rollout_status.PROGRESSING) or {}
    before = read_progress(deployment)
    error = _last_error(limit, verdict, before, now)
    if condition.get("status") == "False":
        verdict = ProgressVerdict.FAILED
        if limit is None or condition.get("reason") == rollout_status.CREATE_FAILED:
            error = _parse_error(condition)
    return Progress(
        observed_generation=generation,
        desired=desired,
        admitted=sum(each.admitted for each in parts),
        pending=sum(each.pending for each in parts),
        bound=sum(each.bound for each in parts),
        starting=sum(each.starting for each in parts),
        ready=sum(each.ready for each in parts),
        serving=sum(each.serving for each in parts),
        pending_reasons=_together(parts),
        last_action=_last_of_sets(sets, parts, before),
        last_error=error,
        deadline=_deadline_of_rollout(deployment, condition, is_complete),
        limited_by=limit,
        verdict=verdict,
    )


def _limit_of_sets(
    deployment: Object, parts: Sequence[Progress], behind: int
) -> tuple[ProgressLimit | None, ProgressVerdict]:
    """What limits most of the replicas in one of the sets; else that the rollout itself has not asked for them yet."""
    found = [part for part in parts if part.limited_by is not None]
    if found:
        worst = max(found, key=lambda each: each.limited_by.count if each.limited_by is not None else 0)
        return worst.limited_by, worst.verdict
    if not behind:
        return None, ProgressVerdict.PROGRESSING
    said = pod_state.find_condition(deployment, rollout_status.PROGRESSING) or {}
    if said.get("reason") == rollout_status.HELD:
        message = str(said.get("message") or "")[:MESSAGE_LENGTH_MAX]
        return ProgressLimit(
            PodStage.ADMITTED, "deployment", rollout_status.HELD, behind, message
        ), ProgressVerdict.WAITING
    if deployment["spec"].get("paused"):
        return ProgressLimit(PodStage.ADMITTED, "deployment", "Paused", behind), ProgressVerdict.WAITING
    return ProgressLimit(PodStage.ADMITTED, "deployment", "RollingOut", behind), ProgressVerdict.PROGRESSING


def _together(parts: Iterable[Progress]) -> tuple[PendingReason, ...]:
    found: dict[str, PendingReason] = {}
    for part in parts:
        for each in part.pending_reasons:
            before = found.get(each.reason)
            count, message = (before.count, before.message) if before is not None else (0, each.message)
            found[each.reason] = PendingReason(each.reason, count + each.count, message)
    return tuple(sorted(found.values(), key=lambda each: (-each.count, each.reason)))


def _last_of_sets(sets: Iterable[Object], parts: Iterable[Progress], before: Progress | None) -> ProgressAction | None:
    found = [ProgressAction(CREATE_SET, ActionOutcome.COMPLETED, _name(each), _created(each)) for each in sets]
    found += [part.last_action for part in parts if part.last_action is not None]
    last = before.last_action if before is not None else None
    if last is not None and all(each.object != last.object or each.action != last.action for each in found):
        found.append(last)
    return max(found, key=_order, default=None)


def _deadline_of_rollout(deployment: Object, condition: Mapping[str, Any], is_complete: bool) -> Deadline:
    if condition.get("reason") == rollout_status.TIMED_OUT:
        return Deadline(DeadlineState.PASSED)
    is_running = rollout_status.has_deadline(deployment) and not is_complete and not deployment["spec"].get("paused")
    since = pod_state.parse_time_or_none(condition.get("lastUpdateTime"))
    if not is_running or since is None or condition.get("reason") in (rollout_status.COMPLETE, rollout_status.HELD):
        return _NO_DEADLINE
    at = since + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])
    return Deadline(DeadlineState.RUNNING, times.format_time(at))


def _holds(obj: Object, name: str) -> Mapping[str, Any] | None:
    condition = pod_state.find_condition(obj, name)
    return condition if condition is not None and condition.get("status") == "True" else None


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _created(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


DEPLOYMENT_PROGRESS: Final = ProgressRecorder("deployment-progress", DEPLOYMENTS, REPLICASETS, of_deployment)
REPLICASET_PROGRESS: Final = ProgressRecorder("replicaset-progress", REPLICASETS, PODS, of_set)
JOB_PROGRESS: Final = ProgressRecorder("job-progress", JOBS, PODS, of_job)
