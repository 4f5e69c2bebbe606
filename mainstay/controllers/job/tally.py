"""Counting the pods of a Job that have ended: each exactly once, whatever crashes between any two writes.

A pod goes through three writes, each of a certain version of what it changes:

    1. its uid is put into the job's `status.uncountedTerminatedPods`     it still has the finalizer
    2. the finalizer is taken off the pod                                 it may vanish now
    3. the uid is taken out again and the number raised, in one write     it has no finalizer any more

So what is seen tells where it stands: finalizer and not listed: nothing has happened; finalizer and listed: 1 is done;
listed and no finalizer, or gone: 2 is done; neither: all is done, or it never counted. A pod in an Indexed job that
has succeeded needs no uid in a list: its index in `completedIndexes` says that it is counted.

What counts as failed: a pod that has failed; one that was told to leave, unless the job only replaces what has failed;
one that was removed by force, because nothing more will ever be known of it; and any that leaves after the job as a
whole has failed. What a failure policy ignores is let go without being counted.

`tally` is a plain function over the job and its pods. What it says has to be stored before what follows from it is
done: `let_go` has only pods of which the *stored* status knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.controllers.job import indexes
from mainstay.controllers.job.failure_policy import FailureAction, rule_for
from mainstay.controllers.job.indexes import FAILURES, Indexes, is_indexed, read_index
from mainstay.controllers.job.pods import (
    is_removed_by_force,
    is_tracked,
    is_withdrawn,
    last_of_each_index,
    replaces_only_failed,
)

UNCOUNTED_MAX: Final = 500  # Uids in a status at a time. The rest waits for its turn, held by the finalizer.


class PodOutcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class JobTally:
    succeeded: int
    """To store as `status.succeeded`."""
    failed: int
    """To store as `status.failed`."""
    listed: tuple[tuple[str, ...], tuple[str, ...]]
    """To store as `uncountedTerminatedPods`: the uids of those that succeeded, and failed."""
    completed: Indexes
    failed_indexes: Indexes
    let_go: tuple[Object, ...]
    """Pods that need the finalizer no longer."""
    held: tuple[Object, ...]
    """Ended, and still needed for what they know of their index (see `job_failures`)."""
    succeeded_in_all: int
    """Counted or not yet."""
    failed_in_all: int
    is_settled: bool
    """All that have ended are counted."""


def find_outcome(job: Object, pod: Object, *, is_failing: bool) -> PodOutcome | None:
    """How a pod has ended; None if it has not."""
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Succeeded":
        return PodOutcome.SUCCEEDED
    if phase == "Failed":
        return PodOutcome.FAILED
    if not pod_state.is_leaving(pod):
        return None
    is_as_good_as_failed = is_failing or not replaces_only_failed(job) or is_removed_by_force(pod)
    return PodOutcome.FAILED if is_as_good_as_failed else None


def tally(job: Object, pods: Sequence[Object], *, is_failing: bool, is_ending: bool) -> JobTally:
    """Where the counting stands.

    `is_failing`: the stored status says that the job as a whole has failed; `is_ending`: or that it has succeeded.
    """
    status = job.get("status") or {}
    indexed, completions = is_indexed(job), int(job["spec"].get("completions") or 0)
    held_ones = {pod["metadata"]["uid"]: pod for pod in pods if is_tracked(pod) and not is_withdrawn(pod)}
    listed: dict[PodOutcome, list[str]] = {}
    counted, let_go = {}, []
    for outcome in PodOutcome:
        uids = (status.get("uncountedTerminatedPods") or {}).get(outcome.value) or ()
        listed[outcome] = [uid for uid in uids if uid in held_ones]
        let_go += [held_ones[uid] for uid in listed[outcome]]
        counted[outcome] = int(status.get(outcome.value) or 0) + len(uids) - len(listed[outcome])
    known = frozenset(pod["metadata"]["uid"] for pod in let_go)

    stored = indexes.stored(job, "completedIndexes") if indexed else ()
    completed = dict.fromkeys(stored)
    kept: frozenset[str] = frozenset() if is_ending else _kept_for_their_index(job, pods)
    held, waiting = [], dict.fromkeys(PodOutcome, 0)
    for uid, pod in held_ones.items():
        ended = find_outcome(job, pod, is_failing=is_failing)
        if uid in known or ended is None:
            continue
        index = read_index(pod)
        if indexed and (index is None or index >= completions):
            let_go.append(pod)  # The job wants no such index any more.
        elif indexed and index is not None and ended is PodOutcome.SUCCEEDED:
            if index in stored:
                let_go.append(pod)
            completed[index] = None
        elif ended is PodOutcome.FAILED and uid in kept:
            held.append(pod)
            waiting[ended] += _counts(job, pod)
        elif ended is PodOutcome.FAILED and not _counts(job, pod):
            let_go.append(pod)
        elif sum(map(len, listed.values())) < UNCOUNTED_MAX:
            listed[ended].append(uid)
        else:
            waiting[ended] += 1
    succeeded, failed = listed[PodOutcome.SUCCEEDED], listed[PodOutcome.FAILED]
    done = tuple(sorted(completed))
    in_all = {each: counted[each] + len(listed[each]) + waiting[each] for each in PodOutcome}
    is_settled = not (succeeded or failed or let_go or held or any(waiting.values())) and done == stored
    return JobTally(
        succeeded=len(done) if indexed else counted[PodOutcome.SUCCEEDED],
        failed=counted[PodOutcome.FAILED],
        listed=(tuple(succeeded), tuple(failed)),
        completed=done,
        failed_indexes=_failed_indexes(job, pods, done, is_failing=is_failing),
        let_go=tuple(let_go),
        held=tuple(held),
        succeeded_in_all=len(done) if indexed else in_all[PodOutcome.SUCCEEDED],
        failed_in_all=in_all[PodOutcome.FAILED],
        is_settled=is_settled,
    )


def count_failures(pod: Object) -> int:
    """How often its index had failed before it."""
    text = str((pod["metadata"].get("annotations") or {}).get(FAILURES, "0"))
    return int(text) if text.isascii() and text.isdigit() else 0


def failures_after(job: Object, pod: Object) -> int:
    """The same after it has failed."""
    return count_failures(pod) + _counts(job, pod)


def _counts(job: Object, pod: Object) -> bool:
    rule = rule_for(job, pod)
    return rule is None or rule.action is not FailureAction.IGNORE


def _kept_for_their_index(job: Object, pods: Sequence[Object]) -> frozenset[str]:
    """With a limit for each index: the uids of pods that alone know how often their index has failed.

    They stay until another one takes over or the index is given up.
    """
    if job["spec"].get("backoffLimitPerIndex") is None:
        return frozenset()
    over = frozenset((*indexes.stored(job, "completedIndexes"), *indexes.stored(job, "failedIndexes")))
    last = last_of_each_index(pods)
    return frozenset(pod["metadata"]["uid"] for index, pod in last.items() if index not in over)


def _failed_indexes(job: Object, pods: Sequence[Object], completed: Indexes, *, is_failing: bool) -> Indexes:
    limit: Any = job["spec"].get("backoffLimitPerIndex")
    if limit is None:
        return ()
    found = dict.fromkeys(indexes.stored(job, "failedIndexes"))
    completions = int(job["spec"].get("completions") or 0)
    for index, pod in last_of_each_index(pods).items():
        if index >= completions or index in completed or not is_tracked(pod):
            continue
        if find_outcome(job, pod, is_failing=is_failing) is PodOutcome.FAILED:
            rule = rule_for(job, pod)
            is_given_up = rule is not None and rule.action is FailureAction.FAIL_INDEX
            if is_given_up or failures_after(job, pod) > limit:
                found[index] = None
    return tuple(sorted(found))
