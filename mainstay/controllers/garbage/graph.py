"""Who depends on whom, over all kinds; and who has to be looked at when something changes.

Objects are known by their uid. Under an owner's uid stand all that name it, also by mistake; `dependents` are those
that name it rightly. An owner that was never seen has no node: for its dependents the server is asked.

The graph is fed by watches, of each kind on its own, so it may show a dependent before its owner, and an owner after it
is gone. It only says whom to look at. One thing it does know for certain: what it was told has been deleted is gone.
"""

from collections.abc import Iterable, Iterator

from mainstay.api.kind_name import KindName
from mainstay.client.entry import Change
from mainstay.controllers.garbage.vertices import Reference, Vertex


class Graph:
    def __init__(self) -> None:
        self.nodes: dict[str, Vertex] = {}
        """By uid."""
        self.gone: dict[str, Vertex] = {}
        """Those that were deleted while others still named them, until none does."""
        self._named_by: dict[str, dict[str, None]] = {}
        """The uids of those that name an owner, by its uid."""

    # Looking.

    def holds(self, reference: Reference, namespace: str) -> bool:
        """Whether an owner is there, as far as is known here, and is not waiting for its dependents to go."""
        owner = self.nodes.get(reference.uid)
        return owner is not None and owner.is_meant_by(reference, namespace) and not owner.waits_for_dependents

    def dependents(self, owner: Vertex) -> list[Vertex]:
        """Those that name it as their owner, sorted by kind and name."""
        found = [node for node in self._naming(owner.uid) if _reference_to(owner, node) is not None]
        return sorted(found, key=lambda node: (node.kind.text, node.key))

    def blocker(self, owner: Vertex) -> Vertex | None:
        """One that an owner, which waits for its dependents, has to wait for; None if there is none left.

        Not one that waits in turn for this one, directly or through others: they would wait for ever.
        """
        return next((each for each in self._blocking(owner) if not self._waits_for(each, owner)), None)

    def needs_look(self, node: Vertex) -> bool:
        """Whether something may have to be done about it."""
        if node.is_leaving:
            return node.waits_for_dependents or node.lets_go
        return not all(self.holds(each, node.key.namespace) for each in node.owners)

    # Feeding.

    def changed(self, change: Change) -> list[str]:
        """Take over a change. Returns the uids of those that have to be looked at now."""
        old, new = change.old, change.new
        assert isinstance(old, Vertex | None)
        assert isinstance(new, Vertex | None)
        wakes: dict[str, None] = {}
        if new is None:
            assert old is not None
            self.nodes.pop(old.uid, None)
            self._unlink(old)
            if old.uid in self._named_by:
                self.gone[old.uid] = old
                wakes.update(self._named_by[old.uid])
            self._wake_owners(old.owners, wakes)
            return list(wakes)
        self.nodes[new.uid] = new
        self.gone.pop(new.uid, None)
        if old is None or old.owners != new.owners:
            # The new ones first: who is named by both must not look as if it had no dependents.
            self._link(new)
            if old is not None:
                self._unlink(old, but={each.uid for each in new.owners})
                self._wake_owners(old.owners, wakes)
        self._wake_owners(new.owners, wakes)
        if self.needs_look(new):
            wakes[new.uid] = None
        if new.waits_for_dependents and (old is None or not old.waits_for_dependents):
            wakes.update(self._named_by.get(new.uid, {}))
        return list(wakes)

    def forget(self, kind: KindName, *, are_gone: bool) -> list[str]:
        """A kind is not served any more. Either its objects are gone, or that is unknown. Returns what to look at."""
        wakes: dict[str, None] = {}
        for node in [node for node in self.nodes.values() if node.kind == kind]:
            del self.nodes[node.uid]
            self._unlink(node)
            if are_gone and node.uid in self._named_by:
                self.gone[node.uid] = node
            wakes.update(self._named_by.get(node.uid, {}))
            self._wake_owners(node.owners, wakes)
        return list(wakes)

    def _link(self, node: Vertex) -> None:
        for each in node.owners:
            self._named_by.setdefault(each.uid, {})[node.uid] = None

    def _unlink(self, node: Vertex, but: Iterable[str] = ()) -> None:
        for uid in dict.fromkeys([each.uid for each in node.owners]):  # The same owner may be named twice.
            if uid in but:
                continue
            named_by = self._named_by.get(uid, {})
            named_by.pop(node.uid, None)
            if not named_by:
                self._named_by.pop(uid, None)
                self.gone.pop(uid, None)

    def _wake_owners(self, references: Iterable[Reference], wakes: dict[str, None]) -> None:
        """Owners that are leaving wait for what becomes of those that name them."""
        for each in references:
            owner = self.nodes.get(each.uid)
            if owner is not None and (owner.waits_for_dependents or owner.lets_go):
                wakes[owner.uid] = None

    def _naming(self, uid: str) -> Iterator[Vertex]:
        return (node for each in self._named_by.get(uid, ()) if (node := self.nodes.get(each)) is not None)

    def _blocking(self, owner: Vertex) -> Iterator[Vertex]:
        for each in self._naming(owner.uid):
            reference = _reference_to(owner, each)
            if reference is not None and reference.is_blocking:
                yield each

    def _waits_for(self, node: Vertex, other: Vertex) -> bool:
        seen: dict[str, None] = {}
        ahead = [node]
        while ahead:
            each = ahead.pop()
            if each.uid == other.uid:
                return True
            if each.uid not in seen and each.waits_for_dependents:
                seen[each.uid] = None
                ahead += self._blocking(each)
        return False


def _reference_to(owner: Vertex, node: Vertex) -> Reference | None:
    """By which a node names an owner rightly. If there are several, one that blocks."""
    found = [each for each in node.owners if owner.is_meant_by(each, node.key.namespace)]
    return max(found, key=lambda each: each.is_blocking, default=None)
