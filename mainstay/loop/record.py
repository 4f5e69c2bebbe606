"""A decision as the journal's record of it.

What `decide` said is one part of it (`decided`), and the same whether it was just made or is made again; how it ended
also depends on what came of its actions.
"""

from dataclasses import dataclass, field
from typing import TypedDict

import msgspec

from mainstay.api.holds import HoldReason
from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.client.errors import ApiError
from mainstay.journal import record
from mainstay.journal.record import DecisionRecord, Ending, LookedAt, Memory, Seen, Subject, WriteResult, micros
from mainstay.loop.act import Wrote, key_of
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Apply, Create, Decision, Delete, GiveUp, Patch, Retry, WakeAt
from mainstay.loop.queue.items import Item
from mainstay.loop.record_marks import marks_of
from mainstay.loop.view import View

# Sorted, so that equal actions have equal digests whatever order they were put together in.
_encode = msgspec.json.Encoder(order="sorted").encode
_pack = msgspec.msgpack.Encoder().encode


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
    """Why it was not carried out to its end, if somebody has held the controller meanwhile."""

    def did(self, action: Action, wrote: Wrote) -> None:
        self.done.append(action)
        self.results.append(WriteResult(action.kind.text, *key_of(action), revision=wrote.revision))

    def failed(self, action: Action, error: ApiError) -> None:
        if self.error is None:
            self.error, self.failed_action = error, action
        name, happened = type(error).__name__, error.may_have_happened
        self.results.append(WriteResult(action.kind.text, *key_of(action), error=name, may_have_happened=happened))


def record_of(
    controller: Controller,
    build: str,
    term: str,
    name: str,
    item: Item[ObjectKey],
    view: View,
    memory: object,
    subject: Object | None,
    decision: Decision,
    acted: Acted,
) -> DecisionRecord:
    """The record of a decision that was made with this view and memory, and of what came of it."""
    metadata = {} if subject is None else subject["metadata"]
    now = micros(view.now)
    return record.bounded(
        DecisionRecord(
            id=name,
            at=now,
            component=controller.name,
            build=build,
            subject=Subject(
                controller.kind.text, *item.key, uid=metadata.get("uid", ""), generation=metadata.get("generation", 0)
            ),
            outcome=_outcome(decision, acted),
            term=term,
            view=_seen(controller, view),
            now=now,
            seed=view.seed,
            memory=_memory(controller.settings, memory),
            queue_wait_us=item.waited_ns // 1000,
            attempts=item.attempt,
            woken_by=item.woken_by,
            woken_count=item.wakes,
            looked_at=tuple(
                [
                    LookedAt(
                        look.kind.text, look.namespace, look.name, look.revision, look.index, look.value, look.count
                    )
                    for look in view.looks[: record.LOOKED_AT_MAX]
                ]
            ),
            looked_at_count=len(view.looks),
            writes=tuple(acted.results),
            **decided(decision),
            **marks_of(subject)._asdict(),
        )
    )


class Decided(TypedDict):
    """Those fields of a record that follow from the decision alone."""

    reasons: tuple[str, ...]
    conditions: tuple[record.Condition, ...]
    actions: tuple[record.Action, ...]
    rest: bytes


def decided(decision: Decision) -> Decided:
    return Decided(
        reasons=decision.reasons,
        conditions=tuple(
            [record.Condition(each.type, each.status, each.reason, each.message) for each in decision.conditions]
        ),
        actions=tuple([_action(each) for each in decision.actions]),
        rest=_rest(decision),
    )


def failure_to_decide(error: Exception) -> Decision:
    """What is made of a `decide` that raised, which is a bug."""
    return Decision(result=Retry("InternalError", f"{type(error).__name__}: {error}"))


def _seen(controller: Controller, view: View) -> tuple[Seen, ...]:
    """The name of a view: kinds, or what selectors leave of them, and how far each was."""
    selected = {reads.kind: reads for reads in controller.reads if reads.namespace or reads.labels or reads.fields}
    if not selected:
        return tuple([Seen(kind.text, revision) for kind, revision in view.revisions.items()])
    return tuple(
        [
            Seen(kind.text, revision, reads.namespace, reads.labels, reads.fields)
            if (reads := selected.get(kind)) is not None
            else Seen(kind.text, revision)
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
    return record.digest_of(_encode((decision.status, events, decision.memory)))[:8]


def _outcome(decision: Decision, acted: Acted) -> record.Outcome:
    if acted.error is not None:
        return record.Outcome(Ending.RETRY, type(acted.error).__name__, str(acted.error))
    if acted.held_back:
        return record.Outcome(Ending.RETRY, HoldReason.HELD, acted.held_back)
    return outcome_of(decision)


def outcome_of(decision: Decision) -> record.Outcome:
    """How a decision ends whose actions can all be carried out."""
    match decision.result:
        case WakeAt(at=at, reason=reason):
            return record.Outcome(Ending.WAKE_AT, reason, wake_at=micros(at))
        case Retry(reason=reason, message=message):
            return record.Outcome(Ending.RETRY, reason, message)
        case GiveUp(reason=reason, message=message):
            return record.Outcome(Ending.GIVE_UP, reason, message)
        case _:
            return record.Outcome(Ending.DONE)


def _memory(settings: object, memory: object) -> Memory:
    if settings is not None:
        return record.whole(_pack((settings, memory)))
    if memory is None:
        return record.NO_MEMORY
    return record.whole(_pack(memory))


def _action(action: Action) -> record.Action:
    kind, key = action.kind.text, key_of(action)
    match action:
        case Create(object=obj):
            return record.action("create", kind, *key, body=_encode(obj))
        case Apply(object=obj):
            return record.action("apply", kind, *key, body=_encode(obj))
        case Patch(body=body, subresource=subresource):
            return record.action("patch", kind, *key, subresource=subresource, body=_encode(body))
        case Delete():
            return record.action("delete", kind, *key)
