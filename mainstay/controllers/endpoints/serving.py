"""Say of each pod whether traffic is sent to it: the last of the stages that it goes through (api/stages.py).

A pod *serves* when it is ready and a Service that is there has a slice in which this very pod stands as ready: as it is
committed, since that is what everybody follows who routes traffic. Whether the selector matches is not asked again: who
was taken out of the selection serves until the slice says otherwise. Slices that were made by hand count, too.

The condition `mainstay.dev/Serving` is True from then on, and False when that ends. Before, nothing is said: a pod that
no Service selects has no traffic of which anything is known, so it is *ready* for good, and is not claimed to serve. A
pod that is ready and selected and still in no slice after `PATIENCE` is said not to be served, and why: an operator
should have put it there. The usual way into service so costs one write.

A pod that is leaving, or over, has no stage any more, and its conditions stay as they were.
"""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import ENDPOINT_SLICES, PODS, SERVICES
from mainstay.api.object_key import ObjectKey
from mainstay.api.stages import SERVING_CONDITION
from mainstay.api.well_known_labels import SERVICE_NAME
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.indexes import Index
from mainstay.client.partial import reader
from mainstay.controllers.endpoints.selectors import LABELLED, SELECTING, find_services, keys_selected
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import Decision, WakeAt
from mainstay.loop.view import View

PATIENCE: Final = timedelta(seconds=5)


class ServingReason(StrEnum):
    """Why a pod is served, or is not. Shown to users: only add."""

    IN_SLICE = "InSlice"
    NOT_READY = "NotReady"
    NOT_IN_SLICE = "NotInSlice"
    """It is ready and a Service selects it, but no EndpointSlice contains it."""
    NOT_SELECTED = "NotSelected"
    """No Service routes to it any more."""


def _ready_pods(endpoints: Any) -> Iterable[str]:
    if not isinstance(endpoints, list):
        return ()
    return [
        str(endpoint["targetRef"]["uid"])
        for endpoint in endpoints
        if (endpoint.get("targetRef") or {}).get("uid") and (endpoint.get("conditions") or {}).get("ready")
    ]


LEADING_TO: Final = Index("leading-to", ("endpoints",), _ready_pods)
"""Slices by the uid of each pod that stands in them as ready."""

_read_endpoints = reader([("endpoints",), ("metadata", "labels")])


def _pods_in(change: Change) -> Iterable[ObjectKey]:
    """Those that a slice has begun or ceased to lead to."""
    before, after = led_to(change.old), led_to(change.new)
    return list(dict.fromkeys(key for uid, key in (before | after).items() if (uid in before) != (uid in after)))


def led_to(entry: CachedObject | None) -> dict[str, ObjectKey]:
    """The pods that stand in a slice as ready, by uid: another one may have got the name of the first."""
    found: dict[str, ObjectKey] = {}
    if entry is None:
        return found
    for endpoint in _read_endpoints(entry.raw)[0] or ():
        target = endpoint.get("targetRef") or {}
        if target.get("uid") and (endpoint.get("conditions") or {}).get("ready"):
            found[str(target["uid"])] = ObjectKey(entry.key.namespace, str(target.get("name") or ""))
    return found


def _pods_selected(change: Change, pods: Cache) -> Iterable[ObjectKey]:
    """When a Service comes or goes, or selects others."""
    if change.old is not None and change.new is not None:
        old, new = change.old.object().get("spec") or {}, change.new.object().get("spec") or {}
        if (old.get("selector"), old.get("type")) == (new.get("selector"), new.get("type")):
            return ()
    return list(dict.fromkeys([*keys_selected(change.old, pods), *keys_selected(change.new, pods)]))


class Serving(Controller):
    name = "serving"
    kind = PODS
    indexes = (LABELLED,)
    reads = (
        Reads(ENDPOINT_SLICES, wakes=_pods_in, indexes=(LEADING_TO,)),
        Reads(SERVICES, wakes_among=_pods_selected, indexes=(SELECTING,)),
    )

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        pod = view.get(PODS, key)
        if pod is None or not pod_state.is_active(pod):
            return Decision()
        said = pod_state.find_condition(pod, SERVING_CONDITION)
        if not pod_state.is_ready(pod):
            return Decision() if said is None else _say(Truth.FALSE, ServingReason.NOT_READY, "it is not ready")
        if service := _leading_here(view, pod):
            return _say(Truth.TRUE, ServingReason.IN_SLICE, f"Service {service} routes to it")
        services = [each["metadata"]["name"] for each in find_services(view, pod)]
        if said is None and not services:
            return Decision()
        if not services:
            return _say(Truth.FALSE, ServingReason.NOT_SELECTED, "no Service routes to it")
        since = pod_state.ready_since(pod)
        if said is None and since is not None and since <= view.now < since + PATIENCE:
            return Decision(result=WakeAt(since + PATIENCE, "a slice should contain it by then"))
        return _say(
            Truth.FALSE,
            ServingReason.NOT_IN_SLICE,
            f"Service {services[0]} selects it, but none of its EndpointSlices contains it",
        )


def _leading_here(view: View, pod: Object) -> str:
    """The name of a Service that routes to this pod, the first by name."""
    metadata = pod["metadata"]
    names = {
        str((each["metadata"].get("labels") or {}).get(SERVICE_NAME) or "")
        for each in view.by(ENDPOINT_SLICES, LEADING_TO.name, metadata["uid"])
        if each["metadata"]["namespace"] == metadata["namespace"]
    }
    found = (name for name in sorted(names - {""}) if view.get(SERVICES, ObjectKey(metadata["namespace"], name)))
    return next(found, "")


def _say(truth: Truth, reason: ServingReason, message: str) -> Decision:
    return Decision(conditions=(Condition(SERVING_CONDITION, truth, reason, message),))
