"""Run the pods of a Job until as many of them have succeeded as it wants, or it is clear that they will not.

Each decision looks at the job and its pods and says all that can be done now:

    count      what has ended, exactly once                                    tally.py
    end        if enough have succeeded, or too much has failed or taken long  failures.py
    take away  what is too many, at the end, or while the job is suspended     pods.py
    make       what is missing, after a pause if something has failed          controllers/pods/slots.py, indexes.py

A pod is never more than once in any of these, because each step is told by what is stored, and each write is of the
very version that was looked at, or under a name that can be taken only once. There are never more pods active than
`parallelism`, nor more than are still needed.

Not handled here: what becomes of the pods of a job that is deleted (owner clean-up); but they are let go here, so that
they can. When a finished job is past its `ttlSecondsAfterFinished`, it is deleted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from mainstay.api import pod_state, times
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller, is_controlled_by
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError, Conflict, Throttled, Unavailable
from mainstay.client.indexes import NAMESPACE, OWNER
from mainstay.controllers.job import indexes as job_indexes
from mainstay.controllers.job import pods as job_pods
from mainstay.controllers.job.failures import (
    COMPLETE,
    FAILED,
    JobEnd,
    find_deadline,
    find_end,
    is_said,
    next_try,
    next_try_of_index,
    stored_target,
)
from mainstay.controllers.job.indexes import is_indexed, read_index
from mainstay.controllers.job.pods import HELD, is_tracked, is_withdrawn, new_pod, read_job_name, replaces_only_failed
from mainstay.controllers.job.status import JobSnapshot, build_conditions, build_status, says_more, take_snapshot
from mainstay.controllers.job.tally import PodOutcome, failures_after, find_outcome
from mainstay.controllers.pods import slots
from mainstay.controllers.pods.adoption import ORPHANS, claim, selecting_orphans
from mainstay.controllers.pods.events import describe_pods, refused
from mainstay.loop import deletion_order
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import DONE, Action, Create, Decision, Delete, Result, Tell, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.queue.items import Priority
from mainstay.loop.view import View

BURST: Final = 500
MANAGER: Final = "kubernetes.io/job-controller"
"""A job that names another controller in `spec.managedBy` is left to it."""


def _job_of_pod(change: Change) -> Iterable[ObjectKey]:
    """Wakes the job that a pod was made for, also when it is gone, or does not own it any more."""
    found: dict[ObjectKey, None] = {}
    for entry in (change.old, change.new):
        if entry is None or b"batch" not in entry.raw:
            continue  # Cheap for the many that no job has made: nothing is decoded.
        name = read_job_name(entry.object()["metadata"])
        if name:
            found[ObjectKey(change.key.namespace, name)] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class _Next:
    """What to do with pods, and when more can be done."""

    actions: tuple[Action, ...] = ()
    wake_at: datetime | None = None
    reason: str = ""


class Jobs(Controller):
    name = "job"
    kind = JOBS
    indexes = (NAMESPACE,)
    reads = (Reads(PODS, wakes=_job_of_pod, wakes_among=selecting_orphans(), indexes=(OWNER, ORPHANS, HELD)),)
    writes = (PODS,)
    conditions_have_generation = False

    def priority(self, obj: Object) -> Priority:
        """A Job that has ended, or is deleted, is only cleaned up. No user waits for the next pod of a Job as for that
        of a server (controllers/pods/urgency.py)."""
        return Priority.BACKGROUND if pod_state.is_leaving(obj) or _ended_at(obj) is not None else Priority.NORMAL

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        job = view.get(JOBS, key)
        strays = tuple([job_pods.let_go(pod) for pod in _strays(view, key, job)])
        if job is None:
            return Decision(strays, at_once=True)
        if job["spec"].get("managedBy") not in (None, MANAGER):
            return Decision()
        owned = [
            pod for pod in view.owned_by(PODS, job["metadata"]["uid"]) if is_controlled_by(pod, job["metadata"]["uid"])
        ]
        if pod_state.is_leaving(job):
            let_go = [job_pods.let_go(pod) for pod in owned if is_tracked(pod)]
            return Decision((*strays, *let_go), at_once=True)
        ended_at = _ended_at(job)
        if ended_at is not None:
            return _after_the_end(job, owned, strays, ended_at, view.now)
        claimed = claim(view, PODS, job, JOBS)
        if claimed.patches:
            changes = [
                job_pods.claiming(patch, job["metadata"]["uid"], _finalizers(view, patch.key))
                for patch in claimed.patches
            ]
            return Decision((*strays, *changes), reasons=(f"{len(changes)} change owner",))
        return _go_on(take_snapshot(job, claimed.mine, view.now), strays, view, key)

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        """People are told that a pod was refused."""
        if not isinstance(action, Create) or isinstance(error, Unavailable | Throttled | Conflict):
            return decision
        return replace(decision, events=(*decision.events, refused(action, error)))


def _go_on(seen: JobSnapshot, strays: tuple[Action, ...], view: View, key: ObjectKey) -> Decision:
    """What is to be done for a job that is not over."""
    stored = stored_target(seen.job)
    target = stored or find_end(seen.job, seen.pods, seen.counted, len(seen.active), seen.now)
    status = build_status(seen)
    wake_at: datetime | None = None
    if target is not None:
        # Nothing is taken away before it is written down why: what it follows from may be among it.
        what = _end(seen, stored) if stored is not None else _Next()
    elif seen.is_suspended:
        what = _Next(job_pods.withdraw(seen.active), reason="suspended")
    else:
        what = _manage(seen, view, key)
        wake_at = find_deadline(seen.job, seen.now)
    is_over = target is not None and not seen.active and not seen.terminating and seen.counted.is_settled
    if is_over and target is not None and target.is_success:
        status["completionTime"] = times.format_time(seen.now)
    is_to_go = is_over and seen.job["spec"].get("ttlSecondsAfterFinished") is not None
    if says_more(seen.job, status) or (target != stored and not is_over) or is_to_go:
        wake_at = seen.now  # What follows from it can be done as soon as it is stored, and that enqueues no key.
    let_go = [job_pods.let_go(pod) for pod in seen.counted.let_go]
    left = job_pods.withdraw([pod for pod in seen.pods if is_withdrawn(pod)])
    times_to_look = [at for at in (wake_at, what.wake_at) if at is not None]
    result: Result = WakeAt(min(times_to_look), what.reason or "more can be done") if times_to_look else DONE
    return Decision(
        (*strays, *let_go, *left, *what.actions),
        result,
        status,
        build_conditions(seen, target, is_over=is_over),
        reasons=(what.reason,) if what.reason else (),
        events=(*describe_pods(what.actions), *(_told(target) if is_over and target is not None else ())),
        at_once=all(isinstance(each, Create) for each in what.actions) and not left,
    )


def _told(target: JobEnd) -> tuple[Tell, ...]:
    """How it has ended."""
    if target.is_success:
        return (Tell("Completed", "Job completed"),)
    return (Tell(target.reason, target.message, is_warning=True),)


def _end(seen: JobSnapshot, target: JobEnd) -> _Next:
    """Take away what is left. A failure is one of all pods; after a success the others are just not needed."""
    if target.is_success:
        return _Next(job_pods.withdraw(seen.active), reason=target.reason)
    return _Next(tuple([job_pods.delete(pod) for pod in seen.active]), reason=target.reason)


# How many, and which.


def _manage(seen: JobSnapshot, view: View, key: ObjectKey) -> _Next:
    too_many = _too_many(seen)
    if too_many:
        return _Next(job_pods.withdraw(too_many[:BURST]), reason=f"{len(too_many)} too many")
    missing = _wanted(seen) - len(seen.active)
    if replaces_only_failed(seen.job):
        missing -= seen.terminating
    if missing <= 0:
        return _Next()

    def is_taken(name: str) -> bool:
        return view.get(PODS, ObjectKey(key.namespace, name)) is not None

    is_each_index_by_itself = seen.job["spec"].get("backoffLimitPerIndex") is not None
    if not is_each_index_by_itself:
        at = next_try(seen.job, seen.pods)
        if at is not None and at > seen.now:
            return _Next(wake_at=at, reason="backing off after a failure")
    if not is_indexed(seen.job):
        places = slots.vacant(seen.pods, min(missing, BURST))
        created = [Create(PODS, new_pod(seen.job, place, is_taken=is_taken)) for place in places]
        return _Next(tuple(created), reason=f"{missing} missing")

    last = job_pods.last_of_each_index(seen.pods)
    found: list[Create] = []
    later: list[datetime] = []
    for index in job_indexes.pending(seen.job, _taken(seen), seen.job["spec"]["completions"]):
        before = last.get(index)
        at = next_try_of_index(seen.job, before) if is_each_index_by_itself else None
        if at is not None and at > seen.now:
            later.append(at)
        elif len(found) < min(missing, BURST):
            place = slots.Vacant(index, before["metadata"]["uid"] if before is not None else "")
            failures = _failures(seen.job, before) if is_each_index_by_itself else None
            found.append(Create(PODS, new_pod(seen.job, place, failures=failures, is_taken=is_taken)))
        else:
            break
    return _Next(tuple(found), min(later, default=None), f"{missing} missing")


def _wanted(seen: JobSnapshot) -> int:
    spec = seen.job["spec"]
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        # Once one has succeeded no more are begun.
        return min(parallelism, len(seen.active)) if seen.counted.succeeded_in_all else parallelism
    return max(0, min(parallelism, int(completions) - seen.counted.succeeded_in_all))


def _too_many(seen: JobSnapshot) -> list[Object]:
    """Those that do for an index what another one does or has done; then those above the number."""
    useless: list[Object] = []
    if is_indexed(seen.job):
        over = frozenset((*seen.counted.completed, *seen.counted.failed_indexes))
        there: dict[int, None] = {}
        # The last in this order are those to keep.
        for pod in reversed(deletion_order.chosen(seen.active, len(seen.active))):
            index = read_index(pod)
            if index is None or index >= seen.job["spec"]["completions"] or index in over or index in there:
                useless.append(pod)
            else:
                there[index] = None
    uids = frozenset(pod["metadata"]["uid"] for pod in useless)
    rest = [pod for pod in seen.active if pod["metadata"]["uid"] not in uids]
    return [*useless, *deletion_order.chosen(rest, max(0, len(rest) - _wanted(seen)))]


def _taken(seen: JobSnapshot) -> list[int]:
    """Indexes for which no pod is to be made."""
    holding = seen.active
    if replaces_only_failed(seen.job):
        holding = tuple([pod for pod in seen.pods if not pod_state.is_over(pod)])
    found = [index for pod in holding if (index := read_index(pod)) is not None]
    return [*seen.counted.completed, *seen.counted.failed_indexes, *found]


def _failures(job: Object, last: Object | None) -> int:
    if last is None or find_outcome(job, last, is_failing=False) is not PodOutcome.FAILED:
        return 0
    return failures_after(job, last)


# After the end.


def _ended_at(job: Object) -> datetime | None:
    """When it was complete or had failed; None while it is not over."""
    for name in (COMPLETE, FAILED):
        if is_said(job, name):
            condition = pod_state.find_condition(job, name) or {}
            return pod_state.parse_time_or_none(condition.get("lastTransitionTime")) or pod_state.created_at(job)
    return None


def _after_the_end(
    job: Object, pods: Sequence[Object], strays: tuple[Action, ...], ended_at: datetime, now: datetime
) -> Decision:
    """A pod that was asked for before the end and came after it is not wanted, and nothing is counted any more."""
    late = job_pods.withdraw([pod for pod in pods if pod_state.is_active(pod)])
    let_go = [job_pods.let_go(pod) for pod in pods if is_tracked(pod) and not pod_state.is_active(pod)]
    seconds = job["spec"].get("ttlSecondsAfterFinished")
    if seconds is None:
        return Decision((*strays, *late, *let_go))
    expires_at = ended_at + timedelta(seconds=seconds)
    if now < expires_at:
        return Decision(
            (*strays, *late, *let_go), WakeAt(expires_at, "its ttlSecondsAfterFinished has not expired yet")
        )
    metadata = job["metadata"]
    # Of this very version: a user may just have prolonged its time.
    gone = Delete(
        JOBS,
        ObjectKey(metadata["namespace"], metadata["name"]),
        metadata["uid"],
        Propagation.FOREGROUND,
        metadata["resourceVersion"],
        freshness=Freshness.SEEN_VERSION,
    )
    return Decision((*strays, *late, *let_go, gone), reasons=("its ttlSecondsAfterFinished expired",))


# Pods that have lost their job.


def _strays(view: View, key: ObjectKey, job: Object | None) -> list[Object]:
    """Pods that are held for a job of this name which is not there any more: no controller is going to count them."""
    found = []
    for pod in view.by(PODS, HELD.name, f"{key.namespace}/{key.name}"):
        reference = find_controller(pod)
        if job is None or (reference is not None and reference.get("uid") != job["metadata"]["uid"]):
            found.append(pod)
        elif reference is None and (pod_state.is_over(pod) or pod_state.is_leaving(pod) or pod_state.is_leaving(job)):
            found.append(pod)  # It was taken away from its job, and is not going to be its own again.
    return found


def _finalizers(view: View, key: ObjectKey) -> list[str]:
    pod = view.get(PODS, key)
    return list((pod["metadata"].get("finalizers") if pod is not None else None) or ())
