"""A decision as the journal's record of it."""

from dataclasses import dataclass, field

import msgspec

from mainstay.api.kind import Object
from mainstay.api.object_key import ObjectKey
from mainstay.client.errors import ApiError
from mainstay.journal import record
from mainstay.journal.record import DecisionRecord, Ending, LookedAt, Memory, Seen, Subject, WriteResult, micros
from mainstay.runtime.acting import Wrote, key_of
from mainstay.runtime.controller import Controller
from mainstay.runtime.decision import Action, Apply, Create, Decision, Delete, GiveUp, Patch, Retry, WakeAt
from mainstay.runtime.queue_items import Item
from mainstay.runtime.view import View

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
            view=tuple([Seen(kind.text, revision) for kind, revision in view.revisions.items()]),
            now=now,
            seed=view.seed,
            memory=_memory(memory),
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
            reasons=decision.reasons,
            conditions=tuple(
                [record.Condition(each.type, each.status, each.reason, each.message) for each in decision.conditions]
            ),
            actions=tuple([_action(each) for each in decision.actions]),
            writes=tuple(acted.results),
        )
    )


def _outcome(decision: Decision, acted: Acted) -> record.Outcome:
    if acted.error is not None:
        return record.Outcome(Ending.RETRY, type(acted.error).__name__, str(acted.error))
    match decision.result:
        case WakeAt(at=at, reason=reason):
            return record.Outcome(Ending.WAKE_AT, reason, wake_at=micros(at))
        case Retry(reason=reason, message=message):
            return record.Outcome(Ending.RETRY, reason, message)
        case GiveUp(reason=reason, message=message):
            return record.Outcome(Ending.GIVE_UP, reason, message)
        case _:
            return record.Outcome(Ending.DONE)


def _memory(memory: object) -> Memory:
    if memory is None:
        return record.NO_MEMORY
    content = _pack(memory)
    if len(content) <= record.MEMORY_BYTES_MAX:
        return Memory(len(content), inline=content)
    return Memory(len(content), digest=record.digest_of(content))


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
