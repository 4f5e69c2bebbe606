"""Which objectives are about which workload: the index, and who is enqueued when either changes."""

from collections.abc import Callable, Iterable
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import SERVICE_LEVEL_OBJECTIVES
from mainstay.api.object_key import ObjectKey
from mainstay.api.objectives import TargetKind, find_targets
from mainstay.api.owners import find_controller
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.indexes import Index
from mainstay.loop.controller import Reads
from mainstay.loop.view import View

TARGET: Final = Index("objective-target", ("spec",), find_targets)
"""Objectives by what they are about: `Deployment/web`. Their namespace is that of the target."""


def waking_objectives() -> Callable[[Change, Cache], Iterable[ObjectKey]]:
    """Wakes the objectives about a Deployment or ReplicaSet that changes, or about the owner of that set."""

    def wakes(change: Change, slos: Cache) -> Iterable[ObjectKey]:
        entry = change.new or change.old
        if entry is None:
            return ()
        owner = find_controller(entry.object()) or {}
        names = [f"{kind}/{entry.key.name}" for kind in TargetKind]
        names += [f"{owner['kind']}/{owner['name']}"] if owner else []
        found = [key for name in names for key in slos.by(TARGET.name, name)]
        return [key for key in dict.fromkeys(found) if key.namespace == entry.key.namespace]

    return wakes


def wake_deployments(change: Change) -> Iterable[ObjectKey]:
    """Wakes the Deployment that an objective is about."""
    found: dict[ObjectKey, None] = {}
    for entry in (change.old, change.new):
        for target in () if entry is None else find_targets(entry.object().get("spec")):
            kind, _, name = target.partition("/")
            if entry is not None and kind == TargetKind.DEPLOYMENT:
                found[ObjectKey(entry.key.namespace, name)] = None
    return list(found)


READS: Final = Reads(SERVICE_LEVEL_OBJECTIVES, wakes=wake_deployments, indexes=(TARGET,))
"""For the controller of Deployments."""


def find_objectives(view: View, deployment: Object) -> list[Object]:
    """Those about a Deployment."""
    metadata = deployment["metadata"]
    found = view.by(SERVICE_LEVEL_OBJECTIVES, TARGET.name, f"{TargetKind.DEPLOYMENT}/{metadata['name']}")
    return [each for each in found if each["metadata"]["namespace"] == metadata["namespace"]]
