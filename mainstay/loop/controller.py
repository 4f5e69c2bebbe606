"""A controller: what it looks after, what it reads and writes, and how it decides. Nothing here does anything.

    class Websites(Controller):
        name = "websites"
        kind = WEBSITES
        reads = (Reads(DEPLOYMENTS, wakes=owner(WEBSITES), indexes=(OWNER,)),)
        writes = (DEPLOYMENTS,)

        def decide(self, view: View, key: ObjectKey, memory: object) -> Decision:
            site = view.get(WEBSITES, key)
            ...

`decide` is a plain function of its view and memory: no clock, no chance, no client, nothing awaited.
`controller_loop.py` runs it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError
from mainstay.client.indexes import Index
from mainstay.loop.decision import Action, Decision
from mainstay.loop.queue.items import Priority
from mainstay.loop.view import View

Wakes = Callable[[Change], Iterable[ObjectKey]]
"""Which objects a change of another one concerns."""

WakesAmong = Callable[[Change, Cache], Iterable[ObjectKey]]
"""The same where the change does not name them: to be found among those that are looked after, by their selectors."""


@dataclass(frozen=True, slots=True)
class Reads:
    """A kind that decisions read, besides the one that is looked after."""

    kind: KindName
    wakes: Wakes | None = None
    """None: a change of it enqueues no key."""
    wakes_among: WakesAmong | None = None
    """Wakes besides those that `wakes` does. Called for each change, so it must be quick, and only reads the cache."""
    indexes: tuple[Index, ...] = ()
    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Controller:
    """Subclass it, and give it to a `Loop`. One instance serves all objects, so it must not keep anything itself."""

    name: str
    """Names the queue, the field manager and the decisions. A label: lower case, digits and dashes."""
    kind: KindName
    """What it looks after: one key of the queue is one of these."""
    indexes: tuple[Index, ...] = ()
    """How it finds objects of its own kind."""
    reads: Sequence[Reads] = ()
    writes: Sequence[KindName] = ()
    """What its actions may write, besides the status of its own kind."""
    settings: Any = None
    """What an instance was made with, if its decisions depend on that: recorded with the memory of each. Not secret."""
    conditions_have_generation: bool = True
    """Whether conditions of this kind can say which generation they are about. Those of a few old kinds cannot."""
    says_stalled: bool = True
    """Whether the condition `Stalled` is this controller's to set and to take back. Of several controllers that look
    after one kind, it is one's."""

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        """What should happen to this object. It may not be there any more."""
        raise NotImplementedError

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        """What a decision has to say when one of its actions has failed: its status, conditions, events and memory.

        A plain function, as `decide` is. The actions and the result of what it returns do not count: those were carried
        out as far as they were, and when to try again is decided by the error.
        """
        return decision

    def priority(self, obj: Object) -> Priority:
        """How urgent an object is. Asked when it changes, or what enqueues it does."""
        return Priority.NORMAL


def owner(kind: KindName) -> Wakes:
    """Wakes the owner of what changed, or has lost it. Only an owner of this kind, in the same namespace or in none."""

    def wakes(change: Change) -> Iterable[ObjectKey]:
        found: dict[ObjectKey, None] = {}
        for entry in (change.old, change.new):
            if entry is None:
                continue
            for reference in entry.object()["metadata"].get("ownerReferences") or ():
                group, _, _ = reference.get("apiVersion", "").rpartition("/")
                if (group, reference.get("kind")) == (kind.group, kind.kind):
                    found[ObjectKey(entry.key.namespace if kind.namespaced else "", reference["name"])] = None
        return list(found)

    return wakes


def same_name(change: Change) -> Iterable[ObjectKey]:
    """Wakes what has the same name and namespace."""
    return (change.key,)


def reference_to(obj: Object, kind: KindName) -> Object:
    """What makes another object this one's, for its `metadata.ownerReferences`: it goes when the owner does."""
    metadata = obj["metadata"]
    return {
        "apiVersion": kind.group_version,
        "kind": kind.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
