"""What a decider saw when it decided, built again from the journal.

A record names its view: each kind, or what selectors leave of it, as of a revision. The journal has the objects of
those revisions, so the caches can be filled as they were, with the decider's own indexes, and `decide` be given the
same view and memory. Placements remember more than their records have; placement.py folds it from earlier ones.

`RebuiltObjects` remembers what it has built, because the next decision mostly saw nearly the same. What the journal
does not have is in `gaps`: then the view is what there is, and must not be taken for what was.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api import fields, labels
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject
from mainstay.client.indexes import Index
from mainstay.journal.answers import Objects, StoredVersion
from mainstay.journal.coverage import Gap
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, ViewPart, WhyNot, moment
from mainstay.loop.controller import Reads
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.view import View

STATES_MAX: Final = 64
"""Of kinds at revisions, kept for the next question."""
CACHES_MAX: Final = 64
ENTRIES_MAX: Final = 100_000

_SELECTABLE: Final = {
    f"{kind.plural}.{kind.group}" if kind.group else kind.plural: kind.selectable or {} for kind in BUILTIN
}
"""By the text of a kind: what its objects can be selected by."""


class CannotRebuild(Exception):
    """What a decision went by cannot be had again. `why` is one of `WhyNot`; the text says it for people."""

    def __init__(self, why: WhyNot, text: str) -> None:
        super().__init__(text)
        self.why = why


@dataclass(frozen=True, slots=True)
class Rebuilt:
    view: Any
    """Of the type that the decider reads: a `View`, but for placements."""
    memory: Any
    gaps: tuple[Gap, ...] = ()
    """Not empty: the view is not all that was seen."""


class RebuiltObjects:
    """The objects of a journal as they were at revisions. Use one for many questions."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._states: OrderedDict[tuple[str, int], tuple[Objects, tuple[Gap, ...]]] = OrderedDict()
        self._objects: OrderedDict[tuple[KindName, ObjectKey, int], Object] = OrderedDict()
        self._caches: OrderedDict[tuple[ViewPart, KindName, tuple[Index, ...]], Cache] = OrderedDict()
        self._entries: OrderedDict[tuple[KindName, ObjectKey, int, tuple[Index, ...]], CachedObject] = OrderedDict()

    async def objects(self, vector: Mapping[str, int]) -> tuple[dict[str, Objects], tuple[Gap, ...]]:
        """The objects of each kind as of a revision, and what is missing of them."""
        wanted = {kind: at for kind, at in vector.items() if (kind, at) not in self._states}
        if wanted:
            state = await self.journal.state(wanted)
            for kind, at in wanted.items():
                self._states[kind, at] = state.kinds[kind], state.gaps
        found: dict[str, Objects] = {}
        gaps: dict[Gap, None] = {}
        for kind, at in vector.items():
            self._states.move_to_end((kind, at))
            found[kind], missing = self._states[kind, at]
            gaps |= dict.fromkeys(missing)
        while len(self._states) > STATES_MAX:
            self._states.popitem(last=False)
        return found, tuple(gaps)

    async def all(self, kind: KindName, revision: int) -> tuple[list[Object], tuple[Gap, ...]]:
        """All objects of a kind as of a revision, as a server would have given them, in the order of their keys. They
        are shared: do not change them."""
        states, gaps = await self.objects({kind.text: revision})
        return [self._decoded(kind, key, stored) for key, stored in states[kind.text].items()], gaps

    async def cache(self, seen: ViewPart, kind: KindName, indexes: Sequence[Index]) -> tuple[Cache, tuple[Gap, ...]]:
        """A cache as it was when it had reached a revision. It is shared: do not change it."""
        states, gaps = await self.objects({seen.kind: seen.revision})
        known = (seen, kind, tuple(indexes))
        cache = self._caches.get(known)
        if cache is None:
            cache = Cache(kind, indexes)
            stored = selected(states[seen.kind], seen)
            cache.replace(
                [self._entry(cache, key, stored[key].revision, stored[key].value) for key in stored], seen.revision
            )
            if not gaps:
                self._caches[known] = cache
                while len(self._caches) > CACHES_MAX:
                    self._caches.popitem(last=False)
        else:
            self._caches.move_to_end(known)
        return cache, gaps

    async def one(self, kind: KindName, key: ObjectKey, revision: int) -> tuple[Cache, tuple[Gap, ...]]:
        """A cache with one object, as it was at a revision. Raises `CannotRebuild` if the journal does not have it."""
        states, gaps = await self.objects({kind.text: revision})
        stored = states[kind.text].get(key)
        if stored is None and not gaps:
            raise CannotRebuild(
                WhyNot.HISTORY_MISSING, f"the journal does not contain {kind.text} {key} at revision {revision}"
            )
        cache = Cache(kind, ())
        if stored is not None:
            cache.replace([self._entry(cache, key, stored.revision, stored.value)], revision)
        return cache, gaps

    def _decoded(self, kind: KindName, key: ObjectKey, stored: StoredVersion) -> Object:
        known = (kind, key, stored.revision)
        found = self._objects.get(known)
        if found is None:
            found = {"apiVersion": kind.group_version, "kind": kind.kind, **stored.decoded()}
            self._objects[known] = found
            if len(self._objects) > ENTRIES_MAX:
                self._objects.popitem(last=False)
        return found

    def _entry(self, cache: Cache, key: ObjectKey, revision: int, value: bytes) -> CachedObject:
        known = (cache.kind, key, revision, cache.indexes)
        entry = self._entries.get(known)
        if entry is None:
            entry = self._entries[known] = cache.read_item(_with_version(value, revision))
            if len(self._entries) > ENTRIES_MAX:
                self._entries.popitem(last=False)
        return entry


Rebuild = Callable[[RebuiltObjects, DecisionRecord, Decider], Awaitable[Rebuilt]]


async def rebuild(past: RebuiltObjects, record: DecisionRecord, decider: Decider) -> Rebuilt:
    """The view and the memory of a decision. Raises `CannotRebuild`, `JournalUnreachable`."""
    require_replayable(record)
    if decider.schedule is Schedule.FRESH_READ:
        caches, gaps = await _what_was_read(past, record)
    else:
        caches, gaps = await _what_was_cached(past, record, decider.reads)
    memory = await rebuild_memory(past.journal, record, decider.memory)
    if memory is None and decider.schedule is not Schedule.PER_KEY:
        raise CannotRebuild(WhyNot.MEMORY_NOT_KEPT, "its record has no memory")
    subject = ObjectKey(record.subject.namespace, record.subject.name)
    return Rebuilt(View(caches, moment(record.now), record.seed, subject), memory, gaps)


_Caches = tuple[dict[KindName, Cache], tuple[Gap, ...]]


async def _what_was_cached(past: RebuiltObjects, record: DecisionRecord, reads: Sequence[Reads]) -> _Caches:
    """The caches that a decider declares, as far as its record says that they were."""
    seen = {each.kind: each for each in record.view}
    if not seen:
        raise CannotRebuild(WhyNot.VIEW_NOT_NAMED, "its record does not name its view")
    latest = max(each.revision for each in record.view)
    await past.objects({each.kind: each.revision for each in record.view})  # At once, rather than one by one.
    caches: dict[KindName, Cache] = {}
    gaps: dict[Gap, None] = {}
    for each in reads:
        # A kind that only this build reads: as it was when the decision was made.
        unseen = ViewPart(each.kind.text, latest, each.namespace, each.labels, each.fields)
        caches[each.kind], missing = await past.cache(seen.get(each.kind.text, unseen), each.kind, each.indexes)
        gaps |= dict.fromkeys(missing)
    return caches, tuple(gaps)


async def _what_was_read(past: RebuiltObjects, record: DecisionRecord) -> _Caches:
    """The lists that a record names; if it names none, the objects that it says were looked at."""
    caches: dict[KindName, Cache] = {}
    gaps: dict[Gap, None] = {}
    for seen in record.view:
        kind = _kind_named(seen.kind, seen.namespace)
        caches[kind], missing = await past.cache(seen, kind, ())
        gaps |= dict.fromkeys(missing)
    for looked in () if record.view else record.looked_at:
        kind = _kind_named(looked.kind, looked.namespace)
        caches[kind], missing = await past.one(kind, ObjectKey(looked.namespace, looked.name), looked.revision)
        gaps |= dict.fromkeys(missing)
    return caches, tuple(gaps)


def _kind_named(text: str, namespace: str) -> KindName:
    """As much of a kind's name as its text has, which is what is compared."""
    plural, _, group = text.partition(".")
    return KindName(group, "", "", plural, bool(namespace))


def require_replayable(record: DecisionRecord) -> None:
    """Raises `CannotRebuild` if the component knew when it recorded it that it cannot be used for this."""
    for why in record.why_not:
        if why not in list(WhyNot):
            raise CannotRebuild(WhyNot.READ_OUTSIDE, f"recorded by a newer version, which gives the reason {why}")
        raise CannotRebuild(WhyNot(why), WHY_NOT.get(WhyNot(why), why))


async def rebuild_memory(journal: Journal, record: DecisionRecord, expected: Any) -> Any:
    """What a decision remembered, as a value of a type. None: nothing. Raises `CannotRebuild`."""
    if not record.memory.size:
        return None
    content = await journal.memory(record)
    if content is None:
        raise CannotRebuild(WhyNot.MEMORY_NOT_KEPT, WHY_NOT[WhyNot.MEMORY_NOT_KEPT])
    try:
        return msgspec.msgpack.decode(content, type=expected)
    except msgspec.MsgspecError as error:
        raise CannotRebuild(WhyNot.MEMORY_NOT_KEPT, f"its memory has the format of another build: {error}") from None


def selected(objects: Objects, seen: ViewPart) -> Objects:
    """What selectors leave. Raises `CannotRebuild` for a field that is not known here."""
    if not seen.namespace and not seen.labels and not seen.fields:
        return objects
    by_label = labels.parse(seen.labels) if seen.labels else None
    by_field = fields.parse(seen.fields) if seen.fields else None
    _require_known(seen, [] if by_field is None else [term.field for term in by_field.terms])
    found = {}
    for key, stored in objects.items():
        if seen.namespace and key.namespace != seen.namespace:
            continue
        if by_label is not None or by_field is not None:
            obj = stored.decoded()
            if by_label is not None and not by_label.matches(obj["metadata"].get("labels") or {}):
                continue
            if by_field is not None and not by_field.matches(partial(_field, seen.kind, key, obj)):
                continue
        found[key] = stored
    return found


def _require_known(seen: ViewPart, names: Iterable[str]) -> None:
    for name in names:
        if name not in fields.ALWAYS_SUPPORTED and name not in _SELECTABLE.get(seen.kind, {}):
            raise CannotRebuild(
                WhyNot.VIEW_NOT_NAMED, f"{seen.kind} were selected by {name!r}, which this build does not know"
            )


def _field(kind: str, key: ObjectKey, obj: Object, field: str) -> str:
    match field:
        case "metadata.name":
            return key.name
        case "metadata.namespace":
            return key.namespace
        case _:
            return _SELECTABLE[kind][field](obj)


def _with_version(value: bytes, revision: int) -> bytes:
    """An object as a server gives it: the store does not keep the version in it."""
    obj = _decode(value)
    obj.setdefault("metadata", {})["resourceVersion"] = str(revision)
    return _encode(obj)


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

WHY_NOT: Final[Mapping[WhyNot, str]] = {
    WhyNot.MEMORY_NOT_KEPT: "its memory did not fit into its record, and no checkpoint has it",
    WhyNot.DETAIL_DROPPED: "the journal was overloaded and kept only its subject and outcome",
    WhyNot.READ_OUTSIDE: "it depended on something that is neither in its view nor in its memory",
    WhyNot.VIEW_NOT_NAMED: "its record does not name its view",
    WhyNot.HISTORY_MISSING: "the journal lacks some of the revisions of its view",
    WhyNot.NOTHING_DECIDED: "it records an observation, not a decision",
    WhyNot.SUMMARISED: "a sampling policy kept only its summary",
}
"""In words, for people."""
