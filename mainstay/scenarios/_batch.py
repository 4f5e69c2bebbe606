"""A controller that makes the pods of jobs, under names that nothing prevents from being made twice.

Controllers should name what they make after its owner, so that a second attempt meets the first (loop/decision.py).
This one does not: it goes on counting, so each decision to make a pod makes another one. What keeps it from making too
many is only that nothing is decided before the caches show what the last decision did.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import OWNER
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Create, Decision
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers.count import Count

POD_SPEC: Final = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}

FAULTS: Final = (
    "watch-delay",
    "watch-disconnect",
    "answer-lost",
    "crash",
    "crash-before",
    "crash-after",
    "restart",
    "pause",
    "compaction",
    "compaction-missed",
)
"""Not those that keep a request under way for longer than its sender waits for it. Done after all, when another client
has decided again, it would be one too many: that is what names from owners are for."""


@dataclass(frozen=True)
class BatchMemory:
    """What a controller remembers of the children it has made."""

    uid: str
    count: int


class BatchController(Controller):
    name = "batch"
    kind = JOBS
    reads = (Reads(PODS, wakes=owner(JOBS), indexes=(OWNER,)),)
    writes = (PODS,)

    def decide(self, view: View, key: ObjectKey, memory: BatchMemory | None) -> Decision:
        job = view.get(JOBS, key)
        if job is None:
            return Decision()
        uid = job["metadata"]["uid"]
        pods = view.owned_by(PODS, uid)
        made = next_number(pods, memory.count if memory is not None and memory.uid == uid else 0)
        missing = max(0, job["spec"]["completions"] - len(pods))
        return Decision(
            actions=tuple(Create(PODS, a_pod(job, made + number)) for number in range(missing)),
            status={"active": len(pods)},
            memory=BatchMemory(uid, made + missing),
        )


def next_number(children: Iterable[Object], least: int) -> int:
    """The number of the next child: after all that are there, and all that were made."""
    return max([least, *(int(each["metadata"]["name"].rpartition("-")[2]) + 1 for each in children)])


def a_job(name: str, completions: int) -> Object:
    spec = {"completions": completions, "parallelism": completions, "template": {"spec": POD_SPEC}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def a_pod(job: Object, number: int) -> Object:
    metadata = job["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{metadata['uid'][:6]}-{number}",
            "namespace": metadata["namespace"],
            "labels": {"job": metadata["name"]},
            "ownerReferences": [reference_to(job, JOBS)],
        },
        "spec": POD_SPEC,
    }


def as_many_pods_as_wanted() -> Count:
    return Count("batch/jobs/", "core/pods/", _wants, _owners)


def _wants(job: Object) -> Mapping[str, int]:
    return {job["metadata"]["uid"]: job["spec"]["completions"]}


def _owners(pod: Object) -> Iterable[str]:
    return [reference["uid"] for reference in pod["metadata"].get("ownerReferences") or ()]
