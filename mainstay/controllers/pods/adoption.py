"""Adoption: an owner takes what its selector matches and has no controller, and lets go of what does not match.

A pod that has lost its labels is let go, so that people can look into it while another takes its place; one that was
orphaned is taken over by the owner that selects it. Both are patches of this very object in the very version that was
seen: of two owners that want the same orphan one is refused, and looks again. Something that is being deleted is
neither taken nor let go, and an owner that is being deleted takes nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api import labels, pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.labels import LabelSelector
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import is_controlled_by
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.indexes import NAMESPACE, Index
from mainstay.loop.controller import reference_to
from mainstay.loop.decision import Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View


def _namespace_if_orphan(metadata: Any) -> Iterable[str]:
    if any(each.get("controller") for each in metadata.get("ownerReferences") or ()):
        return ()
    return (metadata.get("namespace", ""),)


ORPHANS: Final = Index("orphans", ("metadata",), _namespace_if_orphan)
"""Those without a controller, by namespace."""


@dataclass(frozen=True, slots=True)
class Claimed:
    mine: tuple[Object, ...]
    """What it controls and still selects."""
    patches: tuple[Patch, ...]
    """What makes the others its own, and lets go what it does not select any more."""


def claim(view: View, kind: KindName, owner: Object, owner_kind: KindName) -> Claimed:
    """Sort out what belongs to an owner. The kind must be declared with the indexes `OWNER` and `ORPHANS`."""
    metadata = owner["metadata"]
    selector = parse_selector(owner)
    mine, patches = [], []
    for each in view.owned_by(kind, metadata["uid"]):
        if not is_controlled_by(each, metadata["uid"]):
            continue
        if selector.matches(each["metadata"].get("labels") or {}) or pod_state.is_leaving(each):
            mine.append(each)
        elif not pod_state.is_leaving(owner):
            patches.append(_patch(kind, each, _without(each, metadata["uid"])))
    if not pod_state.is_leaving(owner) and not selector.is_empty:
        for orphan in view.by(kind, ORPHANS.name, metadata["namespace"]):
            if pod_state.is_leaving(orphan) or (kind.plural == "pods" and pod_state.is_over(orphan)):
                continue
            if selector.matches(orphan["metadata"].get("labels") or {}):
                references = [*_without(orphan, metadata["uid"]), reference_to(owner, owner_kind)]
                patches.append(_patch(kind, orphan, references))
    return Claimed(tuple(mine), tuple(patches))


def parse_selector(owner: Object) -> LabelSelector:
    return labels.from_object((owner.get("spec") or {}).get("selector"))


def _without(obj: Object, uid: str) -> list[Object]:
    return [each for each in obj["metadata"].get("ownerReferences") or () if each.get("uid") != uid]


def _patch(kind: KindName, obj: Object, references: list[Object]) -> Patch:
    metadata = obj["metadata"]
    key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
    body = {"metadata": {"ownerReferences": references}}
    return Patch(
        kind, key, metadata["uid"], body, resource_version=metadata["resourceVersion"], freshness=Freshness.SEEN_VERSION
    )


def selecting_orphans() -> Callable[[Change, Cache], Iterable[ObjectKey]]:
    """Wakes those whose selector matches something without a controller. Their kind needs the index `NAMESPACE`."""

    def wakes(change: Change, owners: Cache) -> Iterable[ObjectKey]:
        entry = change.new
        if entry is None or not _is_orphan(entry):
            return ()
        found = entry.object()["metadata"].get("labels") or {}
        if not found:
            return ()
        return [
            key
            for key in owners.by(NAMESPACE.name, entry.key.namespace)
            if (owner := owners.get(key)) is not None and parse_selector(owner).matches(found)
        ]

    return wakes


def _is_orphan(entry: CachedObject) -> bool:
    # Cheap for the many that have a controller: nothing is decoded.
    return b'"controller":true' not in entry.raw
