"""Keep the EndpointSlices of a Service: where its traffic goes, in pieces of at most a hundred pods.

What a Service routes to is in routes.py, and which slice has what in packing.py; here both are compared with what
is there, and written. A slice is named after its Service and a number, so a create that is repeated, after a crash, a
lost answer or by the next leader, meets the slice that it made before; and it is changed or removed only in the very
version that was looked at. So there is never a second slice for the same endpoints, whatever was seen late.

What takes traffic away from a pod is written at once. What only adds to it waits until `BATCH` after the last write: a
thousand pods that become ready one by one are not a thousand slices sent to everybody who follows them.

Slices that another controller manages are left alone, and so are those of a Service that selects nothing. What a
Service of the same name has left behind goes. Annotations about when a change was triggered are not written.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import ENDPOINT_SLICES, NODES, PODS, SERVICES
from mainstay.api.object_key import ObjectKey
from mainstay.api.well_known_labels import SERVICE_NAME, ZONE_LABEL
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.indexes import ZONE, Index
from mainstay.client.partial import reader
from mainstay.controllers.endpoints.packing import DesiredSlice, ExistingSlice, Packing, held_in, packed
from mainstay.controllers.endpoints.routes import HEADLESS, find_bad_address, is_headless, list_families, wanted
from mainstay.controllers.endpoints.selectors import LABELLED, SELECTING, find_pods, get_selector, selecting_pods
from mainstay.controllers.pods.slots import short_hash
from mainstay.loop.controller import Controller, Reads, reference_to
from mainstay.loop.decision import Action, Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.deletion_order import find_zones
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
OWN_LABELS: Final = (SERVICE_NAME, MANAGED_BY, HEADLESS)

BATCH: Final = timedelta(milliseconds=100)
SKIPPED_SHOWN_MAX: Final = 5
_NAME_LENGTH_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class LastSliceWrite:
    """What is remembered of a Service."""

    at: datetime


def _under_service(metadata: Any) -> Iterable[str]:
    labels = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != MANAGER or not labels.get(SERVICE_NAME):
        return ()
    return (f"{metadata.get('namespace', '')}/{labels[SERVICE_NAME]}",)


OF_SERVICE: Final = Index("of-service", ("metadata",), _under_service)
"""The slices that are ours to keep, by namespace and name of the Service."""


def _find_service(change: Change) -> Iterable[ObjectKey]:
    found: dict[ObjectKey, None] = {}
    for entry in (change.old, change.new):
        for value in () if entry is None else _under_service(entry.object()["metadata"]):
            found[ObjectKey(*value.split("/", 1))] = None
    return list(found)


_read_labels = reader([("metadata", "labels"), ("metadata", "name")])


def _when_a_zone_changes(change: Change, services: Cache) -> Iterable[ObjectKey]:
    return services.keys() if _zone(change.old) != _zone(change.new) else ()


def _zone(entry: CachedObject | None) -> str:
    labels = None if entry is None else _read_labels(entry.raw)[0]
    return str((labels or {}).get(ZONE_LABEL) or "")


class EndpointSlices(Controller):
    name = "endpoint-slice"
    kind = SERVICES
    indexes = (SELECTING,)
    reads = (
        Reads(PODS, wakes_among=selecting_pods(), indexes=(LABELLED,)),
        Reads(NODES, wakes_among=_when_a_zone_changes, indexes=(ZONE,)),
        Reads(ENDPOINT_SLICES, wakes=_find_service, indexes=(OF_SERVICE,)),
    )
    writes = (ENDPOINT_SLICES,)

    def decide(self, view: View, key: ObjectKey, memory: LastSliceWrite | None) -> Decision:
        service = view.get(SERVICES, key)
        if service is None or not get_selector(service):
            return Decision()  # Of one that is gone, the slices go with it: they are owned by it.
        found = view.by(ENDPOINT_SLICES, OF_SERVICE.name, str(key))
        former = [each for each in found if _is_of_another(each, service)]
        slices = {each["metadata"]["name"]: each for each in found if each not in former}
        pods = find_pods(view, service)
        held = [held_in(each) for each in slices.values()]
        packing = packed(held, wanted(service, pods, find_zones(view, pods)), list_families(service))

        actions: list[Action] = [_removed(each) for each in former]
        actions += [_removed(slices[name]) for name in packing.removed]
        actions += _changes(service, slices, packing)
        actions += _creations(view, service, packing.created)
        if not actions:
            return Decision(memory=memory if memory is not None and _left(memory, view.now) else None)
        if memory is not None and (left := _left(memory, view.now)) and not former and not _takes_away(held, packing):
            return Decision(result=WakeAt(view.now + left, "more may come"), memory=memory)
        reasons = (_why(packing), *_list_skipped(pods))
        return Decision(tuple(actions), memory=LastSliceWrite(view.now), reasons=reasons, at_once=True)


def _left(memory: LastSliceWrite, now: datetime) -> timedelta:
    """How long to wait for more. Nothing if it is over, or if the clock has gone back."""
    left = memory.at + BATCH - now
    return left if timedelta() < left <= BATCH else timedelta()


def _takes_away(held: Iterable[ExistingSlice], packing: Packing) -> bool:
    """Whether traffic has to stop going somewhere, or goes to other ports."""
    if packing.removed or packing.waits:
        return True
    for before in held:
        after = packing.changed.get(before.name)
        if after is None:
            continue
        ready = frozenset(each.identity for each in after.endpoints if each.body["conditions"]["ready"])
        had = [each.identity for each in before.endpoints if (each.body.get("conditions") or {}).get("ready")]
        if after.group != before.group or not ready.issuperset(had):
            return True
    return False


def _why(packing: Packing) -> str:
    return f"{len(packing.created)} slices created, {len(packing.changed)} changed, {len(packing.removed)} deleted"


def _list_skipped(pods: Iterable[Object]) -> list[str]:
    skipped = [(pod["metadata"]["name"], why) for pod in pods if (why := find_bad_address(pod))]
    return [f"pod {name} is left out: status.podIP {why}" for name, why in skipped[:SKIPPED_SHOWN_MAX]]


def _is_of_another(piece: Object, service: Object) -> bool:
    owners = [each.get("uid") for each in piece["metadata"].get("ownerReferences") or () if each.get("controller")]
    return bool(owners) and service["metadata"]["uid"] not in owners


def _removed(piece: Object) -> Delete:
    metadata = piece["metadata"]
    key = ObjectKey(metadata["namespace"], metadata["name"])
    return Delete(
        ENDPOINT_SLICES,
        key,
        metadata["uid"],
        resource_version=metadata["resourceVersion"],
        freshness=Freshness.SEEN_VERSION,
    )


def _changes(service: Object, slices: dict[str, Object], packing: Packing) -> list[Action]:
    actions: list[Action] = []
    for name, piece in slices.items():
        if name in packing.removed:
            continue
        body: Object = {}
        if name in packing.changed:
            body = _contents(packing.changed[name])
        if metadata := _metadata_changes(service, piece):
            body["metadata"] = metadata
        if body:
            there = piece["metadata"]
            key = ObjectKey(there["namespace"], name)
            version = there["resourceVersion"]
            actions.append(
                Patch(
                    ENDPOINT_SLICES, key, there["uid"], body, resource_version=version, freshness=Freshness.SEEN_VERSION
                )
            )
    return actions


def _metadata_changes(service: Object, piece: Object) -> Object:
    """What another client has changed about it, or the labels of the Service that it does not have yet."""
    there = piece["metadata"]
    before, after = there.get("labels") or {}, build_slice_labels(service)
    made: Object = {}
    if before != after:
        made["labels"] = {**dict.fromkeys(sorted(before.keys() - after.keys())), **after}
    if not any(each.get("uid") == service["metadata"]["uid"] for each in there.get("ownerReferences") or ()):
        made["ownerReferences"] = [*(there.get("ownerReferences") or ()), reference_to(service, SERVICES)]
    return made


def _creations(view: View, service: Object, created: Iterable[DesiredSlice]) -> list[Action]:
    metadata = service["metadata"]
    actions: list[Action] = []
    number = 0
    for piece in created:
        while (
            view.get(ENDPOINT_SLICES, ObjectKey(metadata["namespace"], build_slice_name(metadata, piece, number)))
            is not None
        ):
            number += 1
        made: dict[str, Any] = {
            "name": build_slice_name(metadata, piece, number),
            "namespace": metadata["namespace"],
            "labels": build_slice_labels(service),
            "ownerReferences": [reference_to(service, SERVICES)],
        }
        created_slice = {"metadata": made, "addressType": piece.group.family, **_contents(piece)}
        actions.append(Create(ENDPOINT_SLICES, created_slice))
        number += 1
    return actions


def build_slice_name(service: Object, piece: DesiredSlice, number: int) -> str:
    """What the slice of a number is called. `service` is the metadata."""
    suffix = short_hash(service["uid"], piece.group.family, str(number))
    return f"{service['name'][: _NAME_LENGTH_MAX - len(suffix) - 1].rstrip('-.')}-{suffix}"


def build_slice_labels(service: Object) -> dict[str, str]:
    labels = {name: text for name, text in (service["metadata"].get("labels") or {}).items() if name not in OWN_LABELS}
    labels[SERVICE_NAME] = service["metadata"]["name"]
    labels[MANAGED_BY] = MANAGER
    if is_headless(service):
        labels[HEADLESS] = ""
    return labels


def _contents(piece: DesiredSlice) -> Object:
    return {
        "endpoints": [each.body for each in piece.endpoints],
        "ports": [each.as_object() for each in piece.group.ports],
    }
