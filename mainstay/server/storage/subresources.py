"""Parts of objects with an address of their own: scale and finalize. `status` needs nothing special.

Each is a change of the object by a function of what is there, so each is one conditional commit.
"""

from collections.abc import Sequence
from typing import Any, Final

from mainstay.api import labels
from mainstay.api.custom import ScalePaths
from mainstay.api.errors import bad_request
from mainstay.api.kind import Object
from mainstay.server.storage.writes import Mutate

BUILTIN_SCALE: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))


def scale_of(obj: Object, paths: ScalePaths) -> Object:
    """An object as `autoscaling/v1 Scale` shows it."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _at(obj, paths.spec_replicas) or 0
    shown: Object = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector_text(_at(obj, paths.label_selector))
    if selector:
        shown["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


def _at(obj: Object, path: Sequence[str]) -> Any:
    value: Any = obj if path else None
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _selector_text(selector: Any) -> str:
    """A selector as text: custom kinds have it so, others as an object, and old ones as a map of labels."""
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    has_terms = "matchLabels" in selector or "matchExpressions" in selector
    return str(labels.from_object(selector) if has_terms else labels.from_labels(selector))


def scaled(scale: Object, paths: ScalePaths) -> Mutate:
    """Give an object the number of replicas that a Scale asks for."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if type(replicas) is not int or replicas < 0:
        raise bad_request(f"spec.replicas: {replicas!r} is not a whole number from 0 up")
    version = (scale.get("metadata") or {}).get("resourceVersion")

    def mutate(obj: Object) -> Object:
        if version:
            obj["metadata"]["resourceVersion"] = version
        parent = obj
        for step in paths.spec_replicas[:-1]:
            parent = parent.setdefault(step, {})
        parent[paths.spec_replicas[-1]] = replicas
        return obj

    return mutate


def finalized(namespace: Object) -> Mutate:
    """Write what a namespace still waits for before it goes."""
    wanted = (namespace.get("spec") or {}).get("finalizers") or []
    given = namespace.get("metadata") or {}
    # Who finishes a namespace has looked at that one, and not at another that has got its name since.
    meant = {name: given[name] for name in ("uid", "resourceVersion") if given.get(name)}

    def mutate(obj: Object) -> Object:
        obj["metadata"] = {**obj["metadata"], **meant}
        spec = obj.setdefault("spec", {})
        if wanted:
            spec["finalizers"] = wanted
        else:
            spec.pop("finalizers", None)
        return obj

    return mutate
