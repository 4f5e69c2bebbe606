"""Which pods a Service selects, and which Services select a pod, without going through all of either.

A pod is found under each of its labels, a Service under one of those it asks for; what is found so is then looked at
in full. A Service without a selector selects nothing: its endpoints are managed elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, SERVICES
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.indexes import Index
from mainstay.client.partial import reader
from mainstay.loop.view import View

EXTERNAL_NAME: Final = "ExternalName"


def _under_labels(metadata: Any) -> Iterable[str]:
    labels = metadata.get("labels") or {}
    return [_value(metadata.get("namespace", ""), *pair) for pair in labels.items()]


def _under_selector(service: Any) -> Iterable[str]:
    selector = get_selector(service)
    if not selector:
        return ()
    return (_value(service["metadata"].get("namespace", ""), *min(selector.items())),)


def _value(namespace: str, name: str, text: str) -> str:
    return f"{namespace}/{name}={text}"


LABELLED: Final = Index("labelled", ("metadata",), _under_labels)
"""Of pods: by namespace and each label."""
SELECTING: Final = Index("selecting", (), _under_selector)
"""Of Services: by namespace and the first label of the selector."""


def get_selector(service: Object) -> Mapping[str, str]:
    """The labels that it asks for. Empty: it selects nothing."""
    spec = service.get("spec") or {}
    if spec.get("type") == EXTERNAL_NAME:
        return {}
    found: Mapping[str, str] = spec.get("selector") or {}
    return found


def selects(service: Object, labels: Mapping[str, str]) -> bool:
    selector = get_selector(service)
    return bool(selector) and selector.items() <= labels.items()


def find_pods(view: View, service: Object) -> list[Object]:
    """The pods that a Service selects, by name. Pods must be declared with the index `LABELLED`."""
    selector = get_selector(service)
    if not selector:
        return []
    found = view.by(PODS, LABELLED.name, _value(service["metadata"]["namespace"], *min(selector.items())))
    return [pod for pod in found if selects(service, pod["metadata"].get("labels") or {})]


def find_services(view: View, pod: Object) -> list[Object]:
    """The Services that select a pod. They must be declared with the index `SELECTING`."""
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    found: dict[str, Object] = {}
    for pair in labels.items():
        for service in view.by(SERVICES, SELECTING.name, _value(metadata["namespace"], *pair)):
            if selects(service, labels):
                found[service["metadata"]["name"]] = service
    return [found[name] for name in sorted(found)]


def keys_selected(service: CachedObject | None, pods: Cache) -> list[ObjectKey]:
    """The keys of the pods that may be selected by a Service: those with one label of its selector."""
    if service is None:
        return []
    selector = get_selector(service.object())
    return list(pods.by(LABELLED.name, _value(service.key.namespace, *min(selector.items())))) if selector else []


_read_routed = reader(
    [
        ("metadata", "labels"),
        ("metadata", "deletionTimestamp"),
        ("spec", "nodeName"),
        ("status", "phase"),
        ("status", "podIP"),
        ("status", "podIPs"),
        ("status", "conditions"),
    ]
)


def _routed(entry: CachedObject | None) -> tuple[Mapping[str, str], list[Any]]:
    """The labels of a pod, and all else that may change and that where a Service leads depends on."""
    if entry is None:
        return {}, []
    labels, *facts, conditions = _read_routed(entry.raw)
    is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions or ())
    return labels or {}, [entry.uid, *facts, is_ready]


def selecting_pods() -> Callable[[Change, Cache], Iterable[ObjectKey]]:
    """Wakes the Services that select a pod, or have, when it changes in what they have to know of it."""

    def wakes(change: Change, services: Cache) -> Iterable[ObjectKey]:
        before, after = _routed(change.old), _routed(change.new)
        if before == after:
            return ()
        found: dict[ObjectKey, None] = {}
        for labels in (before[0], after[0]):
            for pair in labels.items():
                for key in services.by(SELECTING.name, _value(change.key.namespace, *pair)):
                    service = services.get(key)
                    if service is not None and selects(service, labels):
                        found[key] = None
        return list(found)

    return wakes
