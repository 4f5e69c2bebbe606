"""Which components can change the inputs of a decision without calling the decider? (SPEC O6)

    found = await find_coupling(moment, "scheduler")                          a component
    found = await coupling_of_object(moment, PODS, "web-1", "shop")       the decisions about one object

Components never call each other: they read and write shared state. So the answer is a join. On one side, what a
component declares that it reads (declared.py), and what its decisions say they saw. On the other, who declares to write
that, and who did: from each change, with the decision, user or manager that it came from, and how often. A kind that is
read and does not wake the reader is marked: its changes have their effect later, when something else wakes it.

An *oscillation* is one field of one object that two writers set to and fro: at least `FLIPS_MIN` times within a window,
each undoing what the other did. Each of them may be right by itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.api.system_users import find_node
from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.declared import EVERYTHING, Declarations, Declared, find_declared
from mainstay.explain.fields import Path, differences, leaves, path_text, shown
from mainstay.explain.moment import Moment
from mainstay.explain.story.lines import StoryObject
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.why.answer import API_VERSION
from mainstay.explain.writers import SERVER, UNKNOWN_WHO, component_in, find_manager, named, with_revision
from mainstay.journal.keys import parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord, WriteRecord, moment

FLIPS_MIN: Final = 3
WINDOW: Final = timedelta(minutes=10)
"""Flips that are further apart are no oscillation."""
CHANGES_MAX: Final = 20_000
"""Of a kind, the latest are looked at."""
FIELDS_MAX: Final = 6
DECISIONS_MAX: Final = 1_000
_EVERYBODY: Final = frozenset({"events", "leases.coordination.k8s.io", "componentstates.mainstay.dev"})
"""Written by all, and read by no `decide`."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Edge(AnswerPart, frozen=True, kw_only=True):
    """A writer of something that is read."""

    writer: str
    kind: str
    writes: int = 0
    """In the window; 0: it declares to, and did not."""
    is_declared: bool = False
    fields: tuple[str, ...] = ()
    """What it changed, the most often first."""
    objects: int = 0
    last_at: datetime | None = None
    last_revision: int = 0


class Input(AnswerPart, frozen=True, kw_only=True):
    """A kind that is read, and who changes it."""

    kind: str
    is_declared: bool = True
    """False: its decisions saw it, and it does not say that it reads it."""
    wakes: bool = True
    """False: a change of it wakes no component, and shows its effect when something else does."""
    latest_seen: int = 0
    edges: tuple[Edge, ...] = ()


class Oscillation(AnswerPart, frozen=True, kw_only=True):
    about: StoryObject
    field: str
    writers: tuple[str, ...]
    values: tuple[str, ...]
    flips: int
    since: datetime
    until: datetime
    revision: int


class Coupling(AnswerPart, frozen=True, kw_only=True):
    about: str
    """A component, or an object."""
    components: tuple[str, ...] = ()
    """Who decides."""
    since: datetime | None = None
    revision: int = 0
    inputs: tuple[Input, ...] = ()
    writes: tuple[str, ...] = ()
    """What it declares to write."""
    readers: tuple[str, ...] = ()
    """Who reads what it writes: whom it can influence in turn."""
    oscillations: tuple[Oscillation, ...] = ()
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Coupling", **found}


class NoSuchComponent(Exception):
    """No component of that name decides anything. Lists those that do."""


async def find_coupling(
    moment: Moment, declarations: Declarations, component: str, *, since: datetime | None = None
) -> Coupling:
    """Who can change what a component's decisions go by. Raises `NoSuchComponent`."""
    declared = find_declared(declarations, component)
    records = (await moment.journal.decisions(component=component, since=since, limit=DECISIONS_MAX)).records
    if declared is None and not records:
        raise NoSuchComponent(
            f"no component {component!r} has decided anything. There are: {', '.join(sorted(declarations))}; "
            "and the components that decisions name, as in `mainstay get decisions`."
        )
    joining = _Joining(moment, declarations, since)
    inputs = await joining.inputs(_reads(declared, records), {component}, None)
    writes = tuple(sorted(declared.writes)) if declared is not None else _written(records)
    return Coupling(
        about=component,
        components=(component,),
        since=since,
        revision=moment.revision,
        inputs=tuple(inputs),
        writes=writes,
        readers=tuple(_readers(declarations, writes, component)),
        oscillations=tuple(joining.oscillations),
        gaps=tuple(joining.gaps),
        notes=tuple(joining.notes),
    )


async def coupling_of_object(
    moment: Moment,
    declarations: Declarations,
    kind: KindName,
    name: str,
    namespace: str = "",
    *,
    since: datetime | None = None,
) -> Coupling:
    """Who can change what the decisions about one object go by. Raises `NothingKnown`."""
    about = StoryObject(kind.text, name, namespace)
    answer = await moment.journal.decisions(kind=kind.text, namespace=namespace, name=name, since=since)
    if not answer.records and await moment.get(kind, name, namespace) is None:
        raise NothingKnown(f"{about.words} and decisions about it not found in the journal: use -n or --at")
    components = tuple(sorted({record.component for record in answer.records}))
    reads: dict[str, _Read] = {kind.text: _Read(is_declared=True, wakes=True)}
    for component in components:
        mine = [record for record in answer.records if record.component == component]
        for text, read in _reads(find_declared(declarations, component), mine).items():
            known = reads.get(text)
            reads[text] = read if known is None else known.with_(read)
    joining = _Joining(moment, declarations, since)
    inputs = await joining.inputs(reads, set(), _looked_at(answer.records, about))
    writes = tuple(
        sorted({text for each in components if (found := find_declared(declarations, each)) for text in found.writes})
    )
    return Coupling(
        about=about.words,
        components=components,
        since=since,
        revision=moment.revision,
        inputs=tuple(inputs),
        writes=writes,
        oscillations=tuple(joining.oscillations),
        gaps=tuple(joining.gaps),
        notes=tuple(joining.notes),
    )


# What is read.


class _Read(msgspec.Struct, frozen=True):
    is_declared: bool = False
    wakes: bool = False
    latest: int = 0

    def with_(self, other: "_Read") -> "_Read":
        return _Read(self.is_declared or other.is_declared, self.wakes or other.wakes, max(self.latest, other.latest))


def _reads(declared: Declared | None, records: Iterable[DecisionRecord]) -> dict[str, _Read]:
    found: dict[str, _Read] = {}
    if declared is not None:
        for kind, wakes in declared.reads.items():
            found[kind] = _Read(is_declared=True, wakes=wakes)
    for record in records:
        for seen in record.view:
            known = found.get(seen.kind, _Read(is_declared=declared is None, wakes=True))
            found[seen.kind] = known.with_(_Read(latest=seen.revision))
    return found


def _written(records: Iterable[DecisionRecord]) -> tuple[str, ...]:
    return tuple(sorted({action.kind for record in records for action in record.actions}))


def _readers(declarations: Declarations, writes: Iterable[str], component: str) -> list[str]:
    kinds = frozenset(writes) - _EVERYBODY
    return sorted(
        name
        for name, each in declarations.items()
        if name != component and (EVERYTHING in each.reads or EVERYTHING in kinds or kinds & frozenset(each.reads))
    )


def _looked_at(records: Iterable[DecisionRecord], about: StoryObject) -> dict[str, frozenset[ObjectKey] | None]:
    """Of each kind, the objects that decisions have looked at; None: a list of them, so any may have mattered."""
    found: dict[str, frozenset[ObjectKey] | None] = {about.kind: frozenset({ObjectKey(about.namespace, about.name)})}
    for record in records:
        if not record.looked_at or record.looked_at_count > len(record.looked_at):
            for seen in record.view:
                found[seen.kind] = None if seen.kind != about.kind else found[about.kind]
        for look in record.looked_at:
            known = found.get(look.kind, frozenset())
            if not look.name:
                found[look.kind] = None
            elif known is not None:
                found[look.kind] = known | {ObjectKey(look.namespace, look.name)}
    return found


# Who writes it.


class _Joining:
    """The writers of some kinds, within a window."""

    def __init__(self, moment: Moment, declarations: Declarations, since: datetime | None) -> None:
        self._moment = moment
        self._declarations = declarations
        self._since = since
        self.gaps: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.oscillations: list[Oscillation] = []

    async def inputs(
        self,
        reads: Mapping[str, _Read],
        itself: set[str],
        looked_at: Mapping[str, frozenset[ObjectKey] | None] | None,
    ) -> list[Input]:
        """`looked_at`: only these objects count, of the kinds that it names."""
        found = []
        for kind in sorted(reads):
            read = reads[kind]
            only = looked_at.get(kind) if looked_at is not None else None
            edges = await self._edges(kind, itself, only) if kind != EVERYTHING else []
            found.append(
                Input(
                    kind=kind,
                    is_declared=read.is_declared,
                    wakes=read.wakes,
                    latest_seen=read.latest,
                    edges=tuple(edges),
                )
            )
        return found

    async def _edges(self, kind: str, itself: set[str], only: frozenset[ObjectKey] | None) -> list[Edge]:
        writers: dict[str, _Tally] = {}
        turns: dict[tuple[ObjectKey, Path], list[FieldWrite]] = {}
        for change, before, after, who in await self._changes(kind):
            key = parse_object_key(change.key)
            if only is not None and key not in only:
                continue
            tally = writers.setdefault(who, _Tally())
            tally.count(change, key)
            for each in differences(before, after):
                if each.path[:1] == ("metadata",) and each.path[1:2] not in (("labels",), ("annotations",)):
                    continue
                tally.field(each.path)
                for path, value in leaves(each.path, each.after):
                    turns.setdefault((key, path), []).append(
                        FieldWrite(who, shown(value), moment(change.at), change.revision)
                    )
        declared = {
            name for name, each in self._declarations.items() if kind in each.writes or EVERYTHING in each.writes
        }
        self.oscillations += oscillations(kind, turns)
        edges = [
            Edge(
                writer=who,
                kind=kind,
                writes=tally.writes,
                is_declared=is_one_of(who, declared),
                fields=tally.fields(),
                objects=len(tally.objects),
                last_at=moment(tally.last.at) if tally.last is not None else None,
                last_revision=tally.last.revision if tally.last is not None else 0,
            )
            for who, tally in writers.items()
            if not is_one_of(who, itself)
        ]
        silent = [
            name
            for name in sorted(declared)
            if name not in itself and EVERYTHING not in self._declarations[name].writes and not is_any_of(name, writers)
        ]
        edges += [Edge(writer=name, kind=kind, is_declared=True) for name in silent]
        return sorted(edges, key=lambda each: (-each.writes, each.writer))

    async def _changes(self, kind: str) -> "list[tuple[ChangeRecord, Object | None, Object | None, str]]":
        journal, until = self._moment.journal, self._moment.revision
        answer = await journal.changes(kind=kind, since=self._since, until=until)
        self.gaps |= dict.fromkeys(str(gap) for gap in answer.gaps)
        records = answer.records
        if len(records) > CHANGES_MAX:
            self.notes[f"only the latest {CHANGES_MAX} of {len(records)} changes of {kind} were examined"] = None
            records = records[-CHANGES_MAX:]
        if not records:
            return []
        before = await self._before(kind, records[0].revision)
        requests = await journal.writes(kind=kind, since=self._since, until=until, limit=CHANGES_MAX)
        by_revision: dict[tuple[int, str], WriteRecord] = {
            (each.revision, each.name): each for each in requests.records
        }
        found = []
        for record in records:
            key = parse_object_key(record.key)
            after = None if record.value is None else with_revision(_decode(record.value), record.revision)
            request = by_revision.get((record.revision, key.name))
            who = _writer(record, request, before.get(key), after)
            found.append((record, before.get(key), after, who or (SERVER if by_revision else UNKNOWN_WHO.name)))
            if after is None:
                before.pop(key, None)
            else:
                before[key] = after
        return found

    async def _before(self, kind: str, revision: int) -> dict[ObjectKey, Object]:
        if revision <= 1:
            return {}
        state = await self._moment.journal.state({kind: revision - 1})
        return {key: stored.decoded() for key, stored in state.kinds.get(kind, {}).items()}


def _writer(change: ChangeRecord, request: WriteRecord | None, before: Object | None, after: Object | None) -> str:
    """One word for who wrote, or none. The agents of all nodes are one writer here."""
    user = request.user if request is not None else ""
    if find_node(user):
        return "agents"
    if component := component_in(change.decision):
        return component
    manager = (request.manager if request is not None else "") or find_manager(before, after)
    return named(user, manager)


def is_one_of(writer: str, declared: Iterable[str]) -> bool:
    """Whether a component is one of these, or an instance of one: `scheduler-1` of `scheduler`."""
    base, _, number = writer.rpartition("-")
    return any(each == writer or (each == base and number.isdigit()) for each in declared)


def is_any_of(name: str, writers: Iterable[str]) -> bool:
    return any(is_one_of(each, (name,)) for each in writers)


class _Tally:
    def __init__(self) -> None:
        self.writes = 0
        self.objects: dict[ObjectKey, None] = {}
        self.last: ChangeRecord | None = None
        self._fields: dict[str, int] = {}

    def count(self, change: ChangeRecord, key: ObjectKey) -> None:
        self.writes += 1
        self.objects[key] = None
        self.last = change

    def field(self, path: Path) -> None:
        name = path_text(path[:2])
        self._fields[name] = self._fields.get(name, 0) + 1

    def fields(self) -> tuple[str, ...]:
        return tuple(sorted(self._fields, key=lambda name: (-self._fields[name], name))[:FIELDS_MAX])


# To and fro.


class FieldWrite(msgspec.Struct, frozen=True):
    """One time that a writer set a field."""

    writer: str
    value: str
    at: datetime
    revision: int


def oscillations(kind: str, turns: Mapping[tuple[ObjectKey, Path], Sequence[FieldWrite]]) -> list[Oscillation]:
    """The fields that two writers set to and fro."""
    found = []
    for (key, path), each in sorted(turns.items(), key=lambda one: (one[0][0], one[0][1])):
        flips = longest_flips(each)
        if len(flips) >= FLIPS_MIN:
            first = each.index(flips[0])
            involved = each[max(first - 1, 0) : each.index(flips[-1]) + 1]
            found.append(
                Oscillation(
                    about=StoryObject(kind, key.name, key.namespace),
                    field=path_text(path),
                    writers=tuple(sorted({turn.writer for turn in involved})),
                    values=tuple(sorted({turn.value for turn in involved})),
                    flips=len(flips),
                    since=involved[0].at,
                    until=involved[-1].at,
                    revision=involved[-1].revision,
                )
            )
    return found


def longest_flips(turns: Sequence[FieldWrite]) -> list[FieldWrite]:
    """The longest run of turns each of which brings back a value that another writer has just taken away."""
    best: list[FieldWrite] = []
    run: list[FieldWrite] = []
    for place in range(2, len(turns)):
        last, between, now = turns[place - 2 : place + 1]
        is_flip = now.value == last.value != between.value and now.writer != between.writer
        is_near = not run or now.at - run[0].at <= WINDOW
        if is_flip and is_near:
            run.append(now)
        else:
            run = [now] if is_flip else []
        if len(run) > len(best):
            best = list(run)
    return best
