"""Keep the pods of a ReplicaSet equal to what its spec asks for.

Pods that are over or are leaving do not count, and are replaced at once; where they keep failing, less and less often
(replacement.py). A missing pod is made under a name that says whose it is, for which slot, and whom it replaces
(controllers/pods/slots.py), so it can be made only once. A pod too many is drained: it is told to end and keeps its
grace period, during which it is out of service and still counted as terminating. Which ones go is in
loop/deletion_order.py. Pods that match and have no owner are taken over, those that do not match any
more are let go (controllers/pods/adoption.py).

At most `BURST` pods are made or drained at a time, and the first refusal ends a round: a template or a quota that lets
nothing through costs one refused write for each attempt, which come ever less often, and is said as `ReplicaFailure`.

Not handled here: where a pod runs (scheduler/), moving from one template to the next
(controllers/deployment/controller.py), and the pods of a set that is deleted (owner clean-up).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.annotations import REPLACES, SLOT
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES, PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller
from mainstay.client.errors import ApiError, Conflict, Throttled, Unavailable
from mainstay.client.indexes import NAMESPACE, OWNER, ZONE
from mainstay.controllers.deployment.revisions import parse_revision
from mainstay.controllers.pods import slots
from mainstay.controllers.pods.adoption import ORPHANS, claim, selecting_orphans
from mainstay.controllers.pods.events import describe_pods, refused
from mainstay.controllers.pods.urgency import rank_workload
from mainstay.controllers.replicaset import replacement
from mainstay.loop import deletion_order
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import DONE, Action, Create, Decision, Delete, Result, WakeAt
from mainstay.loop.deletion_order import find_zones
from mainstay.loop.freshness import Freshness
from mainstay.loop.queue.items import Priority
from mainstay.loop.view import View

BURST: Final = 500
REPLICA_FAILURE: Final = "ReplicaFailure"
_MESSAGE_LENGTH_MAX: Final = 1000


class ReplicaSets(Controller):
    name = "replicaset"
    kind = REPLICASETS
    indexes = (OWNER, NAMESPACE)
    reads = (
        Reads(PODS, wakes=owner(REPLICASETS), wakes_among=selecting_orphans(), indexes=(OWNER, ORPHANS)),
        Reads(NODES, indexes=(ZONE,)),
    )
    writes = (PODS,)
    conditions_have_generation = False

    def priority(self, obj: Object) -> Priority:
        return rank_workload(obj)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        replica_set = view.get(REPLICASETS, key)
        if replica_set is None:
            return Decision()
        claimed = claim(view, PODS, replica_set, REPLICASETS)
        pods = claimed.mine
        active = [pod for pod in pods if pod_state.is_active(pod)]
        min_ready = timedelta(seconds=replica_set["spec"].get("minReadySeconds") or 0)
        status = _status(replica_set, pods, active, min_ready, view)
        wake_at = pod_state.next_available(active, min_ready, view.now)
        result: Result = DONE if wake_at is None else WakeAt(wake_at, "a pod becomes available")
        missing = int(replica_set["spec"].get("replicas", 1)) - len(active)

        if claimed.patches:
            # First to whom they belong: else one would be made for each orphan that is about to be ours.
            return Decision(claimed.patches, result, status, reasons=(f"{len(claimed.patches)} change owner",))
        if missing == 0 or pod_state.is_leaving(replica_set):
            return Decision((), result, status)
        if missing > 0:

            def is_taken(name: str) -> bool:
                return view.get(PODS, ObjectKey(key.namespace, name)) is not None

            places = slots.vacant(pods, min(missing, BURST))
            not_before = replacement.not_before(pods)
            due = [place for place in places if not_before.get(place.slot, view.now) <= view.now]
            later = min(
                [at for place in places if (at := not_before.get(place.slot, view.now)) > view.now], default=None
            )
            created = tuple([Create(PODS, new_pod(replica_set, place, is_taken)) for place in due])
            reasons = (f"{missing} missing",)
            if later is None:
                return Decision(created, result, status, reasons=reasons, events=describe_pods(created), at_once=True)
            if wake_at is None or later < wake_at:
                result = WakeAt(later, "a pod that keeps failing is replaced")
            said, status = _backing_off(len(places) - len(due), later), _without_conditions(status)
            return Decision(
                created,
                result,
                status,
                conditions=(said,),
                reasons=reasons,
                events=describe_pods(created),
                at_once=True,
            )
        related, successors = _related(view, replica_set)
        zones = find_zones(view, [*active, *successors])
        count = min(-missing, BURST)
        leaving = deletion_order.chosen(active, count, related=related, successors=successors, zones=zones)
        drained = tuple([_drain(pod) for pod in leaving])
        reasons = (f"{-missing} too many",)
        return Decision(drained, result, status, reasons=reasons, events=describe_pods(drained), at_once=True)

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        """What was refused is said as a condition, until a round succeeds."""
        if isinstance(error, Unavailable | Throttled | Conflict) or not isinstance(action, Create | Delete):
            return decision  # That is no refusal of a pod. It will be looked at again.
        reason = "FailedCreate" if isinstance(action, Create) else "FailedDelete"
        failure = Condition(REPLICA_FAILURE, Truth.TRUE, reason, str(error)[:_MESSAGE_LENGTH_MAX], error.cause)
        status, events = _without_conditions(decision.status), (*decision.events, refused(action, error))
        return replace(decision, status=status, conditions=(failure,), events=events)


def new_pod(replica_set: Object, place: slots.Vacant, is_taken: Callable[[str], bool] = lambda _: False) -> Object:
    """The pod for a slot, from the template."""
    metadata = replica_set["metadata"]
    template = replica_set["spec"]["template"]
    found = template.get("metadata") or {}
    annotations = {**(found.get("annotations") or {}), SLOT: str(place.slot)}
    if place.replaces:
        annotations[REPLACES] = place.replaces
    made: dict[str, Any] = {
        "name": slots.name_in(metadata, place, is_taken),
        "namespace": metadata["namespace"],
        "labels": dict(found.get("labels") or {}),
        "annotations": annotations,
        "ownerReferences": [reference_to(replica_set, REPLICASETS)],
    }
    if found.get("finalizers"):
        made["finalizers"] = list(found["finalizers"])
    return {"metadata": made, "spec": template["spec"]}


def _drain(pod: Object) -> Delete:
    """Told to end, in its own time. This very pod only: another of its name is not meant. One that is not ready goes
    only as it was seen: losing it costs nothing, and it may have become ready since. That it is one too many must be so
    on the server, too: the set may have been scaled up."""
    metadata = pod["metadata"]
    version = "" if pod_state.is_ready(pod) else metadata["resourceVersion"]
    key = ObjectKey(metadata["namespace"], metadata["name"])
    return Delete(PODS, key, metadata["uid"], resource_version=version, freshness=Freshness.FRESH_READ)


def _related(view: View, replica_set: Object) -> tuple[list[Object], list[Object]]:
    """The pods of the other sets of the same workload; and of these, those of the set that it moves to."""
    reference = find_controller(replica_set)
    if reference is None:
        return [], []
    uid = replica_set["metadata"]["uid"]
    siblings = view.owned_by(REPLICASETS, reference["uid"])
    newest = max(siblings, key=parse_revision, default=replica_set)["metadata"]["uid"]
    pods = {
        sibling: view.owned_by(PODS, sibling)
        for sibling in (each["metadata"]["uid"] for each in siblings)
        if sibling != uid
    }
    return [pod for each in pods.values() for pod in each], pods.get(newest, [])


# What it says.


def _backing_off(count: int, until: datetime) -> Condition:
    # The time of day, not how long from now: a message that changes with each decision would be written each time.
    pods = "1 pod keeps" if count == 1 else f"{count} pods keep"
    text = f"backing off: {pods} failing; next replacement at {until:%H:%M:%S} UTC"
    return Condition(REPLICA_FAILURE, Truth.TRUE, "BackingOff", text)


def _without_conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a decision count instead."""
    return {name: value for name, value in status.items() if name != "conditions"}


def _status(
    replica_set: Object, pods: Sequence[Object], active: Sequence[Object], min_ready: timedelta, view: View
) -> dict[str, Any]:
    template = ((replica_set["spec"].get("template") or {}).get("metadata") or {}).get("labels") or {}
    ready = [pod for pod in active if pod_state.is_ready(pod)]
    available = [pod for pod in ready if pod_state.is_available(pod, min_ready, view.now)]
    labelled = [pod for pod in active if template.items() <= (pod["metadata"].get("labels") or {}).items()]
    before = (replica_set.get("status") or {}).get("conditions")
    return {
        "replicas": len(active),
        # None removes a field: as upstream, a number of none is not there.
        "fullyLabeledReplicas": len(labelled) or None,
        "readyReplicas": len(ready) or None,
        "availableReplicas": len(available) or None,
        "terminatingReplicas": sum(1 for pod in pods if pod_state.is_terminating(pod)),
        "observedGeneration": replica_set["metadata"].get("generation", 0),
        "conditions": [each for each in before or () if each.get("type") != REPLICA_FAILURE] or None,
    }
