"""The journal's records of decisions: one maker for all components, and what each schedule puts into them.

`make_record` is the only place outside the journal where a component's record is put together. What was decided is one
part of it (`Decided`), and the same whether it was just decided or is replayed; how it ended also depends on what came
of its writes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import msgspec

from mainstay.api.holds import HoldReason
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.api.quota_refusal import find_quota
from mainstay.client.errors import ApiError
from mainstay.client.informer import Informer
from mainstay.journal import record
from mainstay.journal.record import (
    NO_MEMORY,
    AppliedPolicy,
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    RecordedMemory,
    Subject,
    ViewPart,
    WriteResult,
    micros,
)
from mainstay.loop.act import OwnWrite, find_key
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Apply, Create, Decision, Delete, GiveUp, Patch, Retry, WakeAt
from mainstay.loop.queue.items import Item
from mainstay.loop.record_marks import read_marks
from mainstay.loop.view import View

Recorder = Callable[[DecisionRecord], None]
"""Takes a record of each decision. Must not wait."""

# Sorted, so that equal actions have equal digests whatever order they were put together in.
encode_sorted = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from."""

    component: str
    build: str = ""
    term: str = ""
    flags: tuple[str, ...] = ()
    """Feature gates that are not as in the build (api/feature_gates.py), and which ControllerSettings it follows."""


class Fields(TypedDict, total=False):
    """What else a record may say, by the names of its fields."""

    view: tuple[ViewPart, ...]
    seed: str
    policies: tuple[AppliedPolicy, ...]
    memory: RecordedMemory
    queue_wait_us: int
    attempts: int
    woken_by: tuple[int, ...]
    woken_count: int
    looked_at: tuple[LookedAt, ...]
    looked_at_count: int
    reasons: tuple[str, ...]
    conditions: tuple[record.RecordedCondition, ...]
    actions: tuple[record.RecordedAction, ...]
    writes: tuple[WriteResult, ...]
    why_not: tuple[str, ...]
    priority: int
    priority_class: str
    is_rolling_out: bool
    rest: bytes
    shadows: tuple[record.ShadowDecision, ...]


def make_record(
    origin: Origin,
    id: str,  # noqa: A002 - as the record calls it
    subject: Subject,
    outcome: Outcome,
    at: int,
    now: int,
    **fields: Unpack[Fields],
) -> DecisionRecord:
    """A record that is not larger than records may be. `at` is when it is made, `now` the present of the decision."""
    made = DecisionRecord(
        id, at, origin.component, origin.build, subject, outcome, origin.term, now=now, flags=origin.flags, **fields
    )
    return record.bounded(made)


def pack_memory(value: object) -> RecordedMemory:
    """What a decision remembered, or went by besides its view: a frozen value."""
    return NO_MEMORY if value is None else record.whole(_pack(value))


def make_subject(kind: KindName, key: ObjectKey, obj: Object | None) -> Subject:
    """What a record is about: an object, or the name of one that is gone."""
    metadata = {} if obj is None else obj["metadata"]
    return Subject(kind.text, *key, uid=metadata.get("uid", ""), generation=metadata.get("generation", 0))


def name_view(informers: Iterable[Informer]) -> tuple[ViewPart, ...]:
    """The name of what these caches show at this moment: each collection, and how far it is."""
    return tuple(
        [
            ViewPart(each.cache.kind.text, each.cache.revision, where.namespace, where.labels, where.fields)
            for each in informers
            for where in (each.collection,)
        ]
    )


@dataclass(frozen=True, slots=True)
class Decided:
    """Those fields of a record that follow from the decision alone: the same at work and in a replay."""

    actions: tuple[record.RecordedAction, ...] = ()
    reasons: tuple[str, ...] = ()
    conditions: tuple[record.RecordedCondition, ...] = ()
    rest: bytes = b""
    outcome: Outcome | None = None
    """How it ends if all its writes succeed; None: the decision alone does not tell, so it is not compared."""
    subject: Subject | None = None
    """What it is about, if the decision chooses that; None: the subject of its record."""
    source: Decision | None = None
    """What has the bodies of actions and what `rest` is a digest of, for people who look into a difference."""


def describe_write(
    verb: str, kind: KindName, key: ObjectKey, subresource: str = "", body: Any = None
) -> record.RecordedAction:
    """A write as records have it."""
    encoded = b"" if body is None else encode_sorted(body)
    return record.action(verb, kind.text, *key, subresource=subresource, body=encoded)


def describe_failure(kind: KindName, key: ObjectKey, error: ApiError) -> WriteResult:
    """A write that failed, as records have it."""
    quota, requested = find_quota((each.reason, each.field, each.message) for each in error.causes)
    return WriteResult(
        kind.text,
        *key,
        error=type(error).__name__,
        may_have_happened=error.may_have_happened,
        cause=error.cause,
        quota=quota,
        requested=requested,
    )


@dataclass(slots=True)
class Acted:
    """What came of a decision's actions."""

    results: list[WriteResult] = field(default_factory=list)
    error: ApiError | None = None
    """The first failure."""
    failed_action: Action | None = None
    """What failed then."""
    done: list[Action] = field(default_factory=list)
    held_back: str = ""
    """Why it was not carried out to its end, if a Hold has held the controller meanwhile."""

    def did(self, action: Action, wrote: OwnWrite) -> None:
        self.done.append(action)
        self.results.append(WriteResult(action.kind.text, *find_key(action), revision=wrote.revision))

    def failed(self, action: Action, error: ApiError) -> None:
        if self.error is None:
            self.error, self.failed_action = error, action
        self.results.append(describe_failure(action.kind, find_key(action), error))


@dataclass(frozen=True, slots=True)
class Basis:
    """What a decision about one key was made from."""

    name: str
    """Of the decision."""
    item: Item[ObjectKey]
    view: View
    memory: object
    subject: Object | None
    """None: it is not there."""


def record_decision(
    origin: Origin, controller: Controller, basis: Basis, decision: Decision, acted: Acted
) -> DecisionRecord:
    """The record of a controller's decision, and of what came of it."""
    item, view, memory, subject = basis.item, basis.view, basis.memory, basis.subject
    now = micros(view.now)
    return make_record(
        origin,
        basis.name,
        make_subject(controller.kind, item.key, subject),
        _outcome(decision, acted),
        now,
        now,
        view=_seen(controller, view),
        seed=view.seed,
        memory=pack_memory(memory if controller.settings is None else (controller.settings, memory)),
        queue_wait_us=item.waited_ns // 1000,
        attempts=item.attempt,
        woken_by=item.woken_by,
        woken_count=item.wakes,
        looked_at=tuple(
            [
                LookedAt(look.kind.text, look.namespace, look.name, look.revision, look.index, look.value, look.count)
                for look in view.looks[: record.LOOKED_AT_MAX]
            ]
        ),
        looked_at_count=len(view.looks),
        writes=tuple(acted.results),
        reasons=decision.reasons,
        conditions=_conditions(decision),
        actions=_actions(decision),
        rest=_rest(decision),
        **read_marks(subject)._asdict(),
    )


def describe_decision(decision: Decision) -> Decided:
    """What a controller has decided, as its record has it."""
    return Decided(
        _actions(decision),
        decision.reasons,
        _conditions(decision),
        _rest(decision),
        describe_outcome(decision),
        source=decision,
    )


def _conditions(decision: Decision) -> tuple[record.RecordedCondition, ...]:
    return tuple(
        [record.RecordedCondition(each.type, each.status, each.reason, each.message) for each in decision.conditions]
    )


def _actions(decision: Decision) -> tuple[record.RecordedAction, ...]:
    return tuple([_action(each) for each in decision.actions])


def failure_to_decide(error: Exception) -> Decision:
    """What is made of a `decide` that raised, which is a bug."""
    return Decision(result=Retry("InternalError", f"{type(error).__name__}: {error}"))


def _seen(controller: Controller, view: View) -> tuple[ViewPart, ...]:
    """The name of a view: kinds, or what selectors leave of them, and how far each was."""
    selected = {reads.kind: reads for reads in controller.reads if reads.namespace or reads.labels or reads.fields}
    if not selected:
        return tuple([ViewPart(kind.text, revision) for kind, revision in view.revisions.items()])
    return tuple(
        [
            ViewPart(kind.text, revision, reads.namespace, reads.labels, reads.fields)
            if (reads := selected.get(kind)) is not None
            else ViewPart(kind.text, revision)
            for kind, revision in view.revisions.items()
        ]
    )


def _rest(decision: Decision) -> bytes:
    if not decision.status and not decision.events and decision.memory is None:
        return b""
    numbers = {id(action): number for number, action in enumerate(decision.actions)}
    events = [
        (each.reason, each.message, each.is_warning, None if each.after is None else numbers.get(id(each.after)))
        for each in decision.events
    ]
    return record.compute_digest(encode_sorted((decision.status, events, decision.memory)))[:8]


def _outcome(decision: Decision, acted: Acted) -> Outcome:
    if acted.error is not None:
        return Outcome(Ending.RETRY, type(acted.error).__name__, str(acted.error))
    if acted.held_back:
        return Outcome(Ending.RETRY, HoldReason.HELD, acted.held_back)
    return describe_outcome(decision)


def describe_outcome(decision: Decision) -> Outcome:
    """How a decision ends whose actions can all be carried out."""
    match decision.result:
        case WakeAt(at=at, reason=reason):
            return Outcome(Ending.WAKE_AT, reason, wake_at=micros(at))
        case Retry(reason=reason, message=message):
            return Outcome(Ending.RETRY, reason, message)
        case GiveUp(reason=reason, message=message):
            return Outcome(Ending.GIVE_UP, reason, message)
        case _:
            return Outcome(Ending.DONE)


def _action(action: Action) -> record.RecordedAction:
    kind, key = action.kind.text, find_key(action)
    match action:
        case Create(object=obj):
            return record.action("create", kind, *key, body=encode_sorted(obj))
        case Apply(object=obj):
            return record.action("apply", kind, *key, body=encode_sorted(obj))
        case Patch(body=body, subresource=subresource):
            return record.action("patch", kind, *key, subresource=subresource, body=encode_sorted(body))
        case Delete():
            return record.action("delete", kind, *key)
