"""Loops of their own, made to look again: node health, repair, pod garbage, namespaces, the clean-up behind owners.

What such a loop went by is its view, which the journal has, and what it had heard or read otherwise, which is the
memory in its record (loop/pass_record.py, loop/fresh_read.py). From both the same sight is made, the loop's
own `decide` decides, and what the record says was done must be among it, in its place.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import HOLDS, NAMESPACES, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.indexes import NODE, Index
from mainstay.controllers.garbage import decide as deciding
from mainstay.controllers.garbage import loop as cleaning
from mainstay.controllers.namespace import loop as namespace
from mainstay.controllers.namespace.content import Known as KnownOfNamespace
from mainstay.controllers.namespace.content import decide as decide_namespace
from mainstay.controllers.namespace.content import found_again, said_after
from mainstay.controllers.node_health import snapshot
from mainstay.controllers.pod_gc import loop as pod_garbage
from mainstay.controllers.repair import snapshot as repair_sight
from mainstay.controllers.repair.decide import decide as decide_repair
from mainstay.explain.rebuild import CannotRebuild, Past, memory_of
from mainstay.journal.coverage import Gap
from mainstay.journal.record import Action, DecisionRecord, Seen, Subject, WhyNot, moment
from mainstay.loop.fresh_read import action_of
from mainstay.loop.pass_record import Step, number_of


class _Sight:
    """What one record names, read from the journal."""

    def __init__(self, past: Past, record: DecisionRecord) -> None:
        self.past = past
        self.record = record
        self.gaps: dict[Gap, None] = {}
        self._seen = {each.kind: each for each in record.view}

    async def known(self, expected: Any) -> Any:
        found = await memory_of(self.past.journal, self.record, expected)
        if found is None:
            raise CannotRebuild(WhyNot.MEMORY_NOT_KEPT, "its record has no memory")
        return found

    async def cache(self, kind: KindName, indexes: tuple[Index, ...] = ()) -> Cache:
        seen = self._seen.get(kind.text)
        if seen is None:
            raise CannotRebuild(WhyNot.VIEW_NOT_NAMED, f"its record does not name the {kind.text} that it saw")
        cache, gaps = await self.past.cache(seen, kind, indexes)
        self.gaps |= dict.fromkeys(gaps)
        return cache

    async def list(self, seen: Seen) -> list[Object]:
        objects, gaps = await self.past.objects({seen.kind: seen.revision})
        self.gaps |= dict.fromkeys(gaps)
        return [each.decoded() for key, each in objects[seen.kind].items() if seen.namespace in ("", key.namespace)]

    async def subject(self) -> Object:
        """The object as it was read for this decision."""
        for looked in self.record.looked_at:
            objects, gaps = await self.past.objects({looked.kind: looked.revision})
            self.gaps |= dict.fromkeys(gaps)
            stored = objects[looked.kind].get(ObjectKey(looked.namespace, looked.name))
            if stored is not None:
                return stored.decoded()
        raise CannotRebuild(WhyNot.HISTORY_MISSING, "the journal does not have the object that it is about")


class Again:
    """What a look comes to when it is made again."""

    def __init__(self, steps: Iterable[Step], gaps: Iterable[Gap] = (), *, is_ordered: bool = True) -> None:
        self.steps = tuple(steps)
        self.gaps = tuple(gaps)
        self._is_ordered = is_ordered

    def step(self, record: DecisionRecord) -> Step | None:
        """The one that a record is of; None: there is no such step any more."""
        if self._is_ordered:
            number = number_of(record.id)
            return self.steps[number] if number is not None and number < len(self.steps) else None
        same = [each for each in self.steps if each.action in record.actions]
        return same[0] if same else None


Look = Callable[[Past, DecisionRecord], Coroutine[Any, Any, Again]]


async def _node_health(past: Past, record: DecisionRecord) -> Again:
    sight = _Sight(past, record)
    known: snapshot.Known = await sight.known(snapshot.Known)
    nodes, pods, holds = await sight.cache(NODES), await sight.cache(PODS, (NODE,)), await sight.cache(HOLDS)
    frozen = snapshot.frozen_by(_all(holds), moment(record.now))
    seen = snapshot.sight_of(known, _all(nodes), lambda node: tuple(_under(pods, NODE.name, node)), frozen)
    steps, _ = snapshot.steps_of(seen, known.memory)
    return Again(map(snapshot.said_of, steps), sight.gaps)


async def _repair(past: Past, record: DecisionRecord) -> Again:
    sight = _Sight(past, record)
    known: repair_sight.Known = await sight.known(repair_sight.Known)
    caches = {kind: await sight.cache(kind, indexes) for kind, indexes in repair_sight.LOOKED_AT.items()}
    plan = decide_repair(repair_sight.sight_of(known, caches, moment(record.now)), known.memory)
    return Again(map(repair_sight.said_of, plan.steps), sight.gaps)


async def _pod_garbage(past: Past, record: DecisionRecord) -> Again:
    sight = _Sight(past, record)
    known: pod_garbage.Known = await sight.known(pod_garbage.Known)
    pods = await sight.cache(PODS, pod_garbage.INDEXES)
    return Again(map(pod_garbage.said_of, pod_garbage.garbage_in(pods, known)), sight.gaps)


async def _namespace(past: Past, record: DecisionRecord) -> Again:
    sight = _Sight(past, record)
    known: KnownOfNamespace = await sight.known(KnownOfNamespace)
    lists = [(_kind_of(seen), await sight.list(seen)) for seen in record.view]
    found = found_again(known, lists)
    plan, name = decide_namespace(found), record.subject.name
    actions = [action_of("delete", each.kind, ObjectKey(name, each.name), "", None) for each in plan.deletes]
    here = ObjectKey("", name)
    if plan.is_over:
        actions.append(action_of("update", NAMESPACES, here, "finalize", None))
    else:
        actions.append(action_of("patch", NAMESPACES, here, "status", said_after(found, known)))
    return _unordered(record, actions, sight)


async def _owner_cleanup(past: Past, record: DecisionRecord) -> Again:
    sight = _Sight(past, record)
    known: deciding.Known = await sight.known(deciding.Known)
    found = deciding.written(await sight.subject(), known)
    subject = record.subject
    kind = _kind_of(Seen(subject.kind, 0, subject.namespace))
    actions = (
        [] if found is None else [action_of(found[0], kind, ObjectKey(subject.namespace, subject.name), "", found[1])]
    )
    return _unordered(record, actions, sight)


LOOKS: Final[Mapping[str, Look]] = {
    snapshot.NAME: _node_health,
    repair_sight.NAME: _repair,
    pod_garbage.NAME: _pod_garbage,
    namespace.NAME: _namespace,
    cleaning.NAME: _owner_cleanup,
}
"""By component, how its looks are made again."""


def _unordered(record: DecisionRecord, actions: Iterable[Action], sight: _Sight) -> Again:
    """One decision, of which each write has a record: whichever came first."""
    subject = Subject(record.subject.kind, record.subject.namespace, record.subject.name, record.subject.uid)
    return Again([Step(subject, each, record.reasons) for each in actions], sight.gaps, is_ordered=False)


def _kind_of(seen: Seen) -> KindName:
    """As much of a kind's name as its text has, which is what is compared."""
    if seen.kind == PODS.text:
        return PODS
    plural, _, group = seen.kind.partition(".")
    return KindName(group, "", "", plural, bool(seen.namespace))


def _all(cache: Cache) -> list[Object]:
    return [entry.object() for entry in cache.entries()]


def _under(cache: Cache, index: str, value: str) -> list[Object]:
    return [obj for key in cache.by(index, value) if (obj := cache.get(key)) is not None]
