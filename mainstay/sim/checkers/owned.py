"""Objects with an owner stay; objects whose owners are gone are deleted; owners wait for blocking dependents.

Judged by what is stored at the very revision at which something happens, and not by what a controller could know:

- who cleans up deletes only what names owners, and none that is there (and is not waiting for just that to happen);
- an owner told to wait for its dependents goes after all that block it, and named it when it was told;
- an owner told to let its dependents go is gone only when none of these names it any more;
- in the end nothing is there without an owner that named one, no reference is left to an owner that is gone where
  another one is there, and no owner waits, but for pods that leave a machine which is lost for good.

The objects must not own each other in a circle: then one of them has to go first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mainstay.api.kind_name import KindName
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


@dataclass(slots=True)
class _Known:
    """An object that is there."""

    key: str
    kind: KindName
    metadata: dict[str, Any]
    named_at: dict[str, int] = field(default_factory=dict)
    """Since which revision it names each owner, by uid."""
    leaves_since: int = 0
    waits: bool = False
    lets_go: bool = False

    @property
    def uid(self) -> str:
        return str(self.metadata["uid"])

    @property
    def namespace(self) -> str:
        return str(self.metadata.get("namespace", ""))

    @property
    def references(self) -> list[dict[str, Any]]:
        return self.metadata.get("ownerReferences") or []


class OwnershipChecker:
    name = "owned"

    def __init__(self, kinds: Mapping[str, KindName], cleaners: Iterable[str], deciding: str = "") -> None:
        """Which kinds, by how their keys begin in the store; which programs clean up; and, if they do other things too,
        how the names of the decisions begin by which they do."""
        self._deciding = deciding
        self._kinds = dict(kinds)
        self._cleaners = frozenset(cleaners)
        self._deletes: dict[int, RequestReceived] = {}
        self._there: dict[str, _Known] = {}
        self._by_uid: dict[str, _Known] = {}

    def saw(self, event: Event) -> None:
        match event:
            case RequestReceived():
                is_cleaning = event.who in self._cleaners and event.decision.startswith(self._deciding)
                if event.method == "DELETE" and is_cleaning:
                    self._deletes[event.request] = event
            case RevisionCommitted():
                kind = next((kind for prefix, kind in self._kinds.items() if event.key.startswith(prefix)), None)
                if kind is not None:
                    self._committed(event, kind)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        for known in self._there.values():
            if known.lets_go or (known.waits and not (world.lost and self._waits_for_pods(known))):
                raise Violated(self.name, f"{known.key} still waits for its dependents at the end")
            if known.leaves_since or not known.references or not self._are_all_known(known):
                continue
            holding = [each for each in known.references if self._holds(each, known)]
            if not holding:
                raise Violated(self.name, f"{known.key} still exists at the end, but none of its owners does")
            if len(holding) < len(known.references):
                raise Violated(self.name, f"{known.key} still refers to an owner that is gone")

    def _waits_for_pods(self, owner: _Known) -> bool:
        return any(
            each.kind.plural == "pods" or self._waits_for_pods(each)
            for each in self._there.values()
            if each.leaves_since and owner.uid in each.named_at
        )

    def _committed(self, event: RevisionCommitted, kind: KindName) -> None:
        known = self._there.get(event.key)
        if known is not None and event.request in self._deletes and not known.leaves_since:
            self._require_unowned(known, event)
        if event.value is None:
            if known is not None:
                del self._there[event.key]
                self._by_uid.pop(known.uid, None)
                self._require_free(known, event)
            return
        metadata = decode_commit(event.value)["metadata"]
        if known is None or known.uid != metadata["uid"]:
            known = self._there[event.key] = _Known(event.key, kind, metadata)
        known.metadata = metadata
        self._by_uid[known.uid] = known
        uids = [each["uid"] for each in known.references]
        known.named_at = {uid: known.named_at.get(uid, event.revision) for uid in uids}
        finalizers = metadata.get("finalizers") or ()
        if "deletionTimestamp" in metadata:
            known.leaves_since = known.leaves_since or event.revision
            known.waits, known.lets_go = "foregroundDeletion" in finalizers, "orphan" in finalizers

    def _require_unowned(self, known: _Known, event: RevisionCommitted) -> None:
        asked = self._deletes[event.request or 0]
        if not known.references:
            raise Violated(self.name, f"{known.key} was deleted, but never had an owner", [asked, event])
        for each in known.references:
            if self._holds(each, known):
                text = f"{known.key} was deleted, but its owner {each['kind']} {each['name']} exists"
                raise Violated(self.name, text, [asked, event])

    def _require_free(self, owner: _Known, event: RevisionCommitted) -> None:
        if not owner.waits and not owner.lets_go:
            # The last finalizer goes with the object, so what it waited for is in its last state.
            return
        for known in self._there.values():
            for each in known.references:
                if not _is_named(owner, each, known) or known.named_at[owner.uid] >= owner.leaves_since:
                    continue
                if owner.lets_go:
                    text = f"{owner.key} is gone and should have orphaned {known.key}, which still refers to it"
                    raise Violated(self.name, text, [event])
                if each.get("blockOwnerDeletion"):
                    raise Violated(
                        self.name, f"{owner.key} was deleted before {known.key}, which blocks its deletion", [event]
                    )

    def _holds(self, reference: dict[str, Any], dependent: _Known) -> bool:
        owner = self._by_uid.get(reference["uid"])
        if owner is None or not _is_named(owner, reference, dependent):
            return False
        return not owner.waits or owner.lets_go

    def _are_all_known(self, known: _Known) -> bool:
        kinds = {(each.group, each.kind): each for each in self._kinds.values()}
        for each in known.references:
            kind = kinds.get((each["apiVersion"].rpartition("/")[0], each["kind"]))
            if kind is None or (kind.namespaced and not known.kind.namespaced):
                return False
        return True


def _is_named(owner: _Known, reference: dict[str, Any], dependent: _Known) -> bool:
    return (
        reference["uid"] == owner.uid
        and reference["name"] == owner.metadata["name"]
        and (reference["apiVersion"].rpartition("/")[0], reference["kind"]) == (owner.kind.group, owner.kind.kind)
        and owner.namespace in ("", dependent.namespace)
    )
