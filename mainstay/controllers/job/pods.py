"""The pods of a Job: what they are called, what they are made of, and what holds them until they are counted.

A pod is for a slot (controllers/pods/slots.py), or for an index, and is named after that and the pod that it replaces
there: made twice, it meets itself. It carries the finalizer `batch.kubernetes.io/job-tracking`, so that it cannot
vanish uncounted.

A pod that is there through no fault of its own and not needed any more (there are too many, the job is suspended, has
what it needs) is *withdrawn*. One write, of this very version of the pod, takes off the finalizer and says so in an
annotation; then it is deleted. From that write on it does not count, neither as active nor as an outcome, whatever
becomes of it; and if its writer does not get to the deletion, the next one sees what is left to do. If the pod has
ended meanwhile, the write is refused, and it is counted as what it is.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.annotations import JOB_COMPLETION_INDEX, JOB_TRACKING, REPLACES, SLOT, WITHDRAWN
from mainstay.api.kind import Object
from mainstay.api.kind_names import JOBS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller
from mainstay.api.well_known_labels import JOB_NAME
from mainstay.client.indexes import Index
from mainstay.controllers.job.indexes import FAILURES, is_indexed, read_index
from mainstay.controllers.pods import slots
from mainstay.loop.controller import reference_to
from mainstay.loop.decision import Action, Delete, Patch
from mainstay.loop.freshness import Freshness

_ENV: Final = "JOB_COMPLETION_INDEX"


def new_pod(
    job: Object, place: slots.Vacant, *, failures: int | None = None, is_taken: Callable[[str], bool] = lambda _: False
) -> Object:
    """The pod for a slot, or for the index of an indexed job. `failures`: how often this index has failed before."""
    metadata = job["metadata"]
    template = job["spec"]["template"]
    found = template.get("metadata") or {}
    labels = {**(found.get("labels") or {}), JOB_NAME: metadata["name"]}
    annotations = dict(found.get("annotations") or {})
    spec = template["spec"]
    named = metadata
    if is_indexed(job):
        index = str(place.slot)
        labels[JOB_COMPLETION_INDEX] = annotations[JOB_COMPLETION_INDEX] = index
        if failures is not None:
            annotations[FAILURES] = str(failures)
        spec = _knowing_its_index(spec, metadata["name"], index)
        # Of a long name the end is cut off, and the index must stay.
        room = slots.NAME_LENGTH_MAX - slots.HASH_LENGTH - len(index) - 2
        named = {**metadata, "name": f"{metadata['name'][:room].rstrip('-.')}-{index}"}
    else:
        annotations[SLOT] = str(place.slot)
    if place.replaces:
        annotations[REPLACES] = place.replaces
    made: dict[str, Any] = {
        "name": slots.name_in(named, place, is_taken),
        "namespace": metadata["namespace"],
        "labels": labels,
        "annotations": annotations,
        "finalizers": [*(each for each in found.get("finalizers") or () if each != JOB_TRACKING), JOB_TRACKING],
        "ownerReferences": [reference_to(job, JOBS)],
    }
    return {"metadata": made, "spec": spec}


def _knowing_its_index(spec: Object, name: str, index: str) -> Object:
    host = f"{name[: slots.NAME_LENGTH_MAX - len(index) - 1].rstrip('-.')}-{index}"
    known = {"name": _ENV, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_COMPLETION_INDEX}']"}}}
    changed = {**spec, "hostname": host}
    for field in ("initContainers", "containers"):
        if spec.get(field):
            changed[field] = [_with_variable(container, known) for container in spec[field]]
    return changed


def _with_variable(container: Object, variable: Object) -> Object:
    given = container.get("env") or []
    if any(each.get("name") == variable["name"] for each in given):
        return container
    return {**container, "env": [*given, variable]}


# Which is which.


def is_tracked(pod: Object) -> bool:
    return JOB_TRACKING in (pod["metadata"].get("finalizers") or ())


def is_withdrawn(pod: Object) -> bool:
    return WITHDRAWN in (pod["metadata"].get("annotations") or {})


def is_removed_by_force(pod: Object) -> bool:
    """It was deleted without a grace period, so its end will never be reported."""
    return pod_state.is_leaving(pod) and not pod["metadata"].get("deletionGracePeriodSeconds")


def replaces_only_failed(job: Object) -> bool:
    """A pod that leaves may still run, and only one that has ended is replaced and counted."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def last_of_each_index(pods: Iterable[Object]) -> dict[int, Object]:
    """Of each index the pod that was not replaced; of several, the youngest. Withdrawn ones do not count."""
    there = [pod for pod in pods if not is_withdrawn(pod)]
    replaced = frozenset((pod["metadata"].get("annotations") or {}).get(REPLACES, "") for pod in there)
    found: dict[int, Object] = {}
    for pod in sorted(there, key=lambda each: (each["metadata"]["uid"] not in replaced, _age(each))):
        index = read_index(pod)
        if index is not None:
            found[index] = pod
    return found


def _age(pod: Object) -> tuple[float, str]:
    return (pod_state.created_at(pod).timestamp(), pod["metadata"]["name"])


# What is done to them.


def let_go(pod: Object) -> Patch:
    """Nothing of ours holds it any more."""
    return _patch(pod, {"finalizers": _others(pod)})


def withdraw(pods: Sequence[Object]) -> tuple[Action, ...]:
    """These are not needed, and do not count. Those that were withdrawn before are deleted."""
    actions: list[Action] = []
    for pod in pods:
        if not is_withdrawn(pod):
            actions.append(_patch(pod, {"finalizers": _others(pod), "annotations": {WITHDRAWN: "true"}}))
        if not pod_state.is_leaving(pod):
            actions.append(delete(pod))
    return tuple(actions)


def delete(pod: Object) -> Delete:
    """Its job does not want it: that must be so on the server, too."""
    return Delete(PODS, _key(pod), pod["metadata"]["uid"], freshness=Freshness.FRESH_READ)


def claiming(patch: Patch, uid: str, finalizers: Sequence[str]) -> Patch:
    """A change of owner (controllers/pods/adoption.py): who becomes ours is held until it is counted, who is let go is
    not.
    """
    references = patch.body["metadata"]["ownerReferences"]
    others = [each for each in finalizers if each != JOB_TRACKING]
    is_ours = any(each.get("uid") == uid for each in references)
    body = {"metadata": {**patch.body["metadata"], "finalizers": [*others, JOB_TRACKING] if is_ours else others}}
    return Patch(
        patch.kind,
        patch.key,
        patch.uid,
        body,
        resource_version=patch.resource_version,
        freshness=Freshness.SEEN_VERSION,
    )


def _patch(pod: Object, metadata: Object) -> Patch:
    """Of this very version: a list is replaced as a whole, and another controller's finalizer must not come back."""
    return Patch(
        PODS,
        _key(pod),
        pod["metadata"]["uid"],
        {"metadata": metadata},
        resource_version=pod["metadata"]["resourceVersion"],
        freshness=Freshness.SEEN_VERSION,
    )


def _others(pod: Object) -> list[str]:
    return [each for each in pod["metadata"].get("finalizers") or () if each != JOB_TRACKING]


def _key(pod: Object) -> ObjectKey:
    return ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"])


# Those that are not counted any more.


def _held_for(metadata: Any) -> Iterable[str]:
    name = read_job_name(metadata) if JOB_TRACKING in (metadata.get("finalizers") or ()) else ""
    return (f"{metadata.get('namespace', '')}/{name}",) if name else ()


def read_job_name(metadata: Any) -> str:
    """The job that a pod was made for, also if it has been taken away from it since."""
    reference = find_controller({"metadata": metadata})
    if reference is not None:
        is_job = reference.get("kind") == JOBS.kind and str(reference.get("apiVersion", "")).startswith("batch/")
        return str(reference["name"]) if is_job else ""
    return str((metadata.get("labels") or {}).get(JOB_NAME, ""))


HELD: Final = Index("held-for-job", ("metadata",), _held_for)
"""Pods with the finalizer, by the namespace and name of their job. It may be gone, or another one of that name."""
