"""The owner clean-up at work: what has to be looked at is read from the server, decided upon, and acted on.

Nothing is deleted because of what the graph shows or lacks. An owner counts as gone only if the server says so: that
there is none of this name, or one with another uid; in the dependent's own namespace, and of the kind that it names. A
kind that is not served says nothing. (What the graph saw being deleted is gone, though, also when its kind is.)

    background   the owner is gone; what it leaves is found here, now or after the next start
    foreground   the owner stays, until all that block it are gone; they are deleted because it waits
    orphan       the owner stays, until no object names it any more; references to it are taken out

An owner that waits for its dependents, or lets them go, does so only with a graph that is whole up to the owner's own
revision (follow.py), so that no dependent is forgotten of which a watch was late to tell.

Not promised: a dependent that is made after its owner was deleted, by a client that did not know, is cleaned up like
any other whose owner is gone, whatever was asked for the others.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, assert_never

from mainstay.api.kind import Object
from mainstay.client.errors import NotFound
from mainstay.controllers.garbage import decide as deciding
from mainstay.controllers.garbage.decide import GarbageInput, GarbageReason, KeepObject, LetGo, RemoveObject, Standing
from mainstay.controllers.garbage.follow import Following
from mainstay.controllers.garbage.vertices import FOREGROUND, ORPHAN, Reference, Vertex, parse_references
from mainstay.env import tasks
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.fresh_read import FreshRead, FreshReadLoop
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.queue.items import DONE, GONE, Item, KeyRetry, Outcome, WakeAfter
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "owner-cleanup"
WORKERS: Final = 8
LET_GO_AT_ONCE: Final = 16
LOOK_AGAIN: Final = timedelta(seconds=30)
"""At what no change would tell of: an owner that is there, and of a kind that cannot be watched."""
ABSENT_FOR: Final = timedelta(seconds=10)
"""How long it need not be asked again whether an owner is gone. A uid never comes again, unless a store is put back."""
_ABSENT_MAX: Final = 10_000
_TOLD_MAX: Final = 10_000
MISPLACED: Final = "OwnerRefInvalidNamespace"
"""The reason of the Event that tells so. The word is Kubernetes'."""

_Place = tuple[Reference, str]
"""A reference, and the namespace it is in."""


class OwnerCleanup(FreshReadLoop[str]):
    """`run` until cancelled. The keys are uids."""

    name = NAME

    def __init__(self, context: LoopContext) -> None:
        super().__init__(context)
        self._client = context.client
        self._clock = context.env.clock
        least = context.term.revision if context.term is not None else 0
        self.following = Following(context.client, context.env, self._wake, least)
        self.graph = self.following.graph
        self._source = self.following.source
        self._absent: dict[_Place, int] = {}
        """When it was found out, on the monotonic clock."""
        self._told: dict[tuple[str, str], None] = {}

    async def run(self) -> None:
        """Raises `Deposed` when the term is over."""
        await tasks.together([self.following.run(), self._clean()], name=NAME)

    async def _clean(self) -> None:
        await self.following.filled()
        await self.work(WORKERS)

    def _wake(self, uid: str) -> None:
        self.queue.add(uid)

    async def look(self, item: Item[str]) -> Outcome:
        node = self.graph.nodes.get(item.key)
        if node is None:
            return GONE
        if not self.graph.needs_look(node):
            return DONE
        if node.waits_for_dependents and not node.lets_go and self.graph.blocker(node) is not None:
            return WakeAfter(LOOK_AGAIN)  # At the latest. That it goes is told, and need not be asked for.
        obj = await self._read(node)
        if obj is None:
            return DONE  # The graph will hear of it.
        return await self._finish(node, obj) if deciding.find_finalizer(obj) else await self._judge(node, obj)

    async def _read(self, node: Vertex) -> Object | None:
        """The metadata of an object as it is now; None if it is gone."""
        try:
            obj = await self._source.get(node.kind, node.key.name, node.key.namespace)
        except NotFound as error:
            if not _is_about(error, node.key.name):
                self.following.ask_soon()
                raise
            return None
        return obj if obj["metadata"]["uid"] == node.uid else None

    # Something that has owners.

    async def _judge(self, node: Vertex, obj: Object) -> Outcome:
        references = parse_references(obj)
        standings = [await self._standing(each, node.key.namespace) for each in references]
        has_dependents = False
        if Standing.WAITS in standings and Standing.HOLDS not in standings:
            # It goes with its own dependents, if it has any. To say that it has none, all must be known.
            if not await self.following.is_whole(int(obj["metadata"]["resourceVersion"])):
                return KeyRetry(counts=False)
            has_dependents = bool(self.graph.dependents(node))
        for reference, standing in zip(references, standings, strict=True):
            await self._tell_of_misplaced(node, obj, reference, standing)
        known = GarbageInput(GarbageReason.OWNERS, tuple(standings), has_dependents)
        plan = deciding.decide(obj, standings, has_dependents=has_dependents)
        match plan:
            case KeepObject(is_unsure=True):
                return KeyRetry(counts=False)
            case KeepObject():
                is_followed = all(self.graph.holds(each, node.key.namespace) for each in references)
                return DONE if is_followed or "deletionTimestamp" in obj["metadata"] else WakeAfter(LOOK_AGAIN)
            case LetGo(owners=owners):
                kept = deciding.owners_but(obj, owners)
                why = "some of its owners no longer exist"
                await self._patch(node, obj, {"ownerReferences": kept}, why, known)
                return DONE
            case RemoveObject():
                await self._remove(node, obj, plan, known)
                return DONE
            case _:
                assert_never(plan)

    async def _standing(self, reference: Reference, namespace: str) -> Standing:
        """How an owner stands to what names it. Asked of the server, unless it is known to be there."""
        if self.graph.holds(reference, namespace):
            return Standing.HOLDS
        kind = self.following.served.find(reference.group, reference.kind)
        if kind is None:
            gone = self.graph.gone.get(reference.uid)
            is_gone = gone is not None and gone.is_meant_by(reference, namespace)
            return Standing.ABSENT if is_gone else Standing.UNKNOWN
        if kind.namespaced and not namespace:
            return Standing.IMPOSSIBLE
        place = (reference, namespace if kind.namespaced else "")
        if self._is_known_absent(place):
            return Standing.ABSENT
        try:
            owner = await self._source.get(kind, reference.name, namespace)
        except NotFound as error:
            if not _is_about(error, reference.name):
                self.following.ask_soon()
                return Standing.UNKNOWN
            owner = None
        if owner is None or owner["metadata"]["uid"] != reference.uid:
            self._note_absent(place)
            return Standing.ABSENT
        return Standing.WAITS if deciding.find_finalizer(owner) == FOREGROUND else Standing.HOLDS

    def _is_known_absent(self, place: _Place) -> bool:
        found_ns = self._absent.get(place)
        if found_ns is None:
            return False
        return self._clock.monotonic_ns() - found_ns < ABSENT_FOR // timedelta(microseconds=1) * 1000

    def _note_absent(self, place: _Place) -> None:
        if len(self._absent) >= _ABSENT_MAX:
            self._absent.clear()
        self._absent[place] = self._clock.monotonic_ns()

    async def _tell_of_misplaced(self, node: Vertex, obj: Object, reference: Reference, standing: Standing) -> None:
        """Say once that an object names an owner that is in another namespace. Nothing else would tell users why."""
        owner = self.graph.nodes.get(reference.uid)
        is_elsewhere = owner is not None and owner.is_meant_by(reference, owner.key.namespace)
        if standing is not Standing.IMPOSSIBLE and not (standing is Standing.ABSENT and is_elsewhere):
            return
        if (node.uid, reference.uid) in self._told:
            return
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told[node.uid, reference.uid] = None
        message = f"it names {reference.kind} {reference.name} as its owner, which is not in its namespace"
        await self.kernel.warn(node.kind, obj, MISPLACED, message, self.kernel.write())

    # Something that waits for its dependents.

    async def _finish(self, node: Vertex, obj: Object) -> Outcome:
        if not await self.following.is_whole(int(obj["metadata"]["resourceVersion"])):
            return KeyRetry(counts=False)
        finalizer = deciding.find_finalizer(obj)
        if finalizer == ORPHAN:
            dependents = self.graph.dependents(node)
            if dependents:
                await self._let_go_all(node, dependents)
                return WakeAfter(LOOK_AGAIN)  # At the latest. What they become is told.
        elif self.graph.blocker(node) is not None:
            return WakeAfter(LOOK_AGAIN)
        why = "it has no dependents left" if finalizer == ORPHAN else "all blocking dependents are deleted"
        kept = deciding.finalizers_but(obj, finalizer)
        await self._patch(node, obj, {"finalizers": kept}, why, GarbageInput(GarbageReason.ENDS))
        return DONE

    async def _let_go_all(self, owner: Vertex, dependents: Sequence[Vertex]) -> None:
        for first in range(0, len(dependents), LET_GO_AT_ONCE):
            some = dependents[first : first + LET_GO_AT_ONCE]
            await tasks.together([self._let_go(owner, each) for each in some], name=f"{NAME} lets go")

    async def _let_go(self, owner: Vertex, dependent: Vertex) -> None:
        obj = await self._read(dependent)
        if obj is None or owner.uid not in [each.uid for each in parse_references(obj)]:
            return
        owners = deciding.owners_but(obj, frozenset({owner.uid}))
        known = GarbageInput(GarbageReason.LET_GO, owner=owner.uid)
        await self._patch(dependent, obj, {"ownerReferences": owners}, f"{owner} lets it go", known)

    # Writing. Only what was read is changed: the same uid, in the same version.

    async def _patch(self, node: Vertex, obj: Object, metadata: Object, why: str, known: GarbageInput) -> None:
        given, key = obj["metadata"], node.key
        body = {"metadata": {**metadata, "uid": given["uid"], "resourceVersion": given["resourceVersion"]}}
        await self.write(
            "patch",
            node.kind,
            key,
            lambda write: self._client.patch(node.kind, key.name, key.namespace, body, write=write),
            why,
            about=(node.kind, obj),
            read=FreshRead(known, body=metadata),
        )

    async def _remove(self, node: Vertex, obj: Object, plan: RemoveObject, known: GarbageInput) -> None:
        given, key = obj["metadata"], node.key
        await self.write(
            "delete",
            node.kind,
            key,
            lambda write: self._client.delete(
                node.kind,
                key.name,
                key.namespace,
                uid=given["uid"],
                resource_version=given["resourceVersion"],
                propagation=plan.propagation,
                write=write,
            ),
            "none of its owners exists any longer",
            about=(node.kind, obj),
            read=FreshRead(known, body=str(plan.propagation)),
        )


def _is_about(error: NotFound, name: str) -> bool:
    """Whether it is the object that is not there, and not its kind."""
    return error.details.get("name") == name


def _decide(view: View, known: GarbageInput) -> list[Decided]:
    """The write about one object, as it was read."""
    (kind,) = view.kinds
    obj = view.get(kind, view.subject)
    found = None if obj is None else deciding.written(obj, known)
    return [] if found is None else [Decided((describe_write(found[0], kind, view.subject, body=found[1]),))]


DECIDER: Final = Decider(NAME, Schedule.FRESH_READ, (), GarbageInput, _decide)
LOOP: Final = LoopSpec(NAME, OwnerCleanup, DECIDER)
