"""Of a Job's pods each is counted exactly once, never too many are active, and the end that is said is the right one.

How a pod counts is told by how it stood when the finalizer of its job was taken off: it had succeeded, had failed or
was leaving; or it was withdrawn, and counts as nothing. To let it go while it runs is a violation by itself, unless the
job is gone or over. In the end every job has to be over, and to say just that; unless one of its pods is to leave a
machine that is lost for good, which never reports again.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.annotations import JOB_COMPLETION_INDEX, JOB_TRACKING, WITHDRAWN
from mainstay.api.kind import Object
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


_OVER: Final = ("Complete", "Failed")


class JobCounts:
    name = "job counts"

    def __init__(self) -> None:
        self._jobs: dict[str, Object] = {}  # By uid.
        self._keys: dict[str, str] = {}
        self._most: dict[str, int] = {}
        self._ended: dict[str, dict[str, tuple[str, str, RevisionCommitted]]] = {}  # Job, pod: outcome and index.
        self._active: dict[str, dict[str, RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith("batch/jobs/"):
            self._job(event)
        elif event.key.startswith("core/pods/"):
            self._pod(event)

    def _job(self, commit: RevisionCommitted) -> None:
        if commit.value is None:
            self._jobs.pop(self._keys.pop(commit.key, ""), None)
            return
        job = decode_commit(commit.value)
        uid = job["metadata"]["uid"]
        self._jobs[uid], self._keys[commit.key] = job, uid
        self._most[uid] = max(self._most.get(uid, 0), job["spec"].get("parallelism", 1))

    def _pod(self, commit: RevisionCommitted) -> None:
        before = decode_commit(commit.previous) if commit.previous is not None else None
        pod = decode_commit(commit.value) if commit.value is not None else None
        if before is not None and _is_tracked(before) and (pod is None or not _is_tracked(pod)):
            self._let_go(before, pod, commit)
        for each in (before, pod):
            uid = _owner(each) if each is not None else ""
            there = self._active.setdefault(uid, {})
            there.pop(commit.key, None)
            if uid and each is pod and pod is not None and _is_active(pod):
                there[commit.key] = commit
                most = self._most.get(uid, 0)
                if uid in self._jobs and len(there) > most:
                    text = f"{len(there)} pods of {_name(self._jobs[uid])} are active, but at most {most} may be"
                    raise Violated(self.name, text, list(there.values()))

    def _let_go(self, before: Object, after: Object | None, commit: RevisionCommitted) -> None:
        uid = _owner(before)
        job = self._jobs.get(uid)
        if job is None or "deletionTimestamp" in job["metadata"] or _ends(job):
            return
        if after is not None and WITHDRAWN in (after["metadata"].get("annotations") or {}):
            return
        phase = (before.get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed") and "deletionTimestamp" not in before["metadata"]:
            raise Violated(self.name, f"{_name(before)} lost its finalizer while it was running", [commit])
        outcome = "succeeded" if phase == "Succeeded" else "failed"
        index = (before["metadata"].get("labels") or {}).get(JOB_COMPLETION_INDEX, "")
        self._ended.setdefault(uid, {})[before["metadata"]["uid"]] = (outcome, index, commit)

    async def at_end(self, world: "World") -> None:
        entries = await world.store.range("core/pods/")
        pods = [decode_commit(entry.value) for entry in entries.entries]
        lost = {_owner(pod) for pod in pods if pod["spec"].get("nodeName") in world.lost}
        for uid, job in self._jobs.items():
            if uid in lost:
                continue
            status: Mapping[str, Any] = job.get("status") or {}
            ended = self._ended.get(uid, {})
            if not _ends(job):
                raise Violated(self.name, f"{_name(job)} does not finish: {status}", _shown(ended))
            is_indexed = job["spec"].get("completionMode") == "Indexed"
            for outcome in ("succeeded", "failed"):
                found = {pod: index for pod, (each, index, _) in ended.items() if each == outcome}
                true = len(set(found.values())) if is_indexed and outcome == "succeeded" else len(found)
                said = status.get(outcome) or 0
                if said != true:
                    text = f"{_name(job)} reports that {said} have {outcome}, but {true} did"
                    raise Violated(self.name, text, _shown(ended))
            self._check_end(job, status, ended)
        for key, active in self._active.items():
            if active and key in self._jobs and key not in lost:
                raise Violated(
                    self.name, f"{_name(self._jobs[key])} is finished but still has pods", list(active.values())
                )
        for pod in pods:
            if _is_tracked(pod) and _owner(pod) not in lost:
                raise Violated(self.name, f"{_name(pod)} still has its finalizer, and no controller will count it")

    def _check_end(
        self, job: Object, status: Mapping[str, Any], ended: Mapping[str, tuple[str, str, RevisionCommitted]]
    ) -> None:
        wanted, limit = job["spec"].get("completions"), job["spec"].get("backoffLimit", 6)
        is_enough = (status.get("succeeded") or 0) >= (1 if wanted is None else wanted)
        is_too_much = (status.get("failed") or 0) > limit or bool(status.get("failedIndexes"))
        is_too_much = is_too_much or job["spec"].get("activeDeadlineSeconds") is not None
        is_right = is_enough if _ends(job) == "Complete" else is_too_much
        if not is_right:
            raise Violated(self.name, f"{_name(job)} is reported as {_ends(job)} but is not: {status}", _shown(ended))


def _shown(ended: Mapping[str, tuple[str, str, RevisionCommitted]]) -> list[RevisionCommitted]:
    return [commit for _, _, commit in ended.values()]


def _ends(job: Object) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((each["type"] for each in conditions if each["type"] in _OVER and each["status"] == "True"), "")


def _is_tracked(pod: Object) -> bool:
    return JOB_TRACKING in (pod["metadata"].get("finalizers") or ())


def _is_active(pod: Object) -> bool:
    metadata = pod["metadata"]
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not (is_over or "deletionTimestamp" in metadata or WITHDRAWN in (metadata.get("annotations") or {}))


def _owner(pod: Object) -> str:
    references = pod["metadata"].get("ownerReferences") or ()
    return next((each["uid"] for each in references if each.get("controller") and each.get("kind") == "Job"), "")


def _name(obj: Object) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
