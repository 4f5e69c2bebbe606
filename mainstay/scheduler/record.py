"""A placement as the journal's record of it.

The view is named by the revisions of pods, nodes, reservations and quotas. What else a decision depended on is which
pods were assumed to be where: that is the fold of the scheduler's own records. Its decisions and the answers to them
are numbered in one sequence, and a record's memory has both numbers: a pod counts on its node for every decision after
its own, until the number of a refusal, or until the view shows it. With them, the nodes that this decision left out.
What the server has told of a node's unconfirmed charges has a record of its own in that sequence: it holds for every
decision after it, until the next one about that node, or until the view shows another Node of that name. Many of them
make several records, of which the first one's part begins at 0.

A memory also says how far back that goes (`since`) and what should come out (`assumed`, `unconfirmed`), so that a
reader knows whether anything is missing. A placement is recorded when its answer has come, which a scheduler may not
live to see; so refusals, which are recorded at once, also tell of those that are on their way (`sent`).
scheduler/why/placement.py puts all of it together.
"""

from collections.abc import Sequence
from typing import Final, assert_never

import msgspec

from mainstay.api.kind import Object
from mainstay.journal.record import (
    AppliedPolicy,
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    RecordedAction,
    RecordedMemory,
    ShadowDecision,
    Subject,
    ViewPart,
    WhyNot,
)
from mainstay.journal.record import WriteResult as Write
from mainstay.loop.record import Origin, make_record
from mainstay.scheduler.bind import Answer, Bind, BindRefused, Bound, NotDone, Unknown
from mainstay.scheduler.messages import render_message, render_summary
from mainstay.scheduler.reasons import Unschedulable

UNCONFIRMED_OF_A_RECORD: Final = 4  # So that its memory is small.
SENT_OF_A_RECORD: Final = 8
FORGOTTEN: Final = "BindingLost"
"""The reason of a record about a pod that was bound and is not any more."""

_DONE: Final = Outcome(Ending.DONE)

_pack = msgspec.msgpack.Encoder().encode


class Remembered(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The memory of one decision about a pod. Fields are only ever added, at the end."""

    number: int
    answered: int
    """The number of the answer; of a decision that needed none, its own."""
    left_out: tuple[str, ...] = ()
    since: int = 0
    """No decision or unconfirmed charge with a lower number matters to this one."""
    assumed: int = -1
    """How many pods were assumed to be somewhere; -1: it was not written down."""
    unconfirmed: int = 0
    """How many nodes were known to have unconfirmed charges."""
    sent: tuple["Sent", ...] = ()
    """Some of those that no record had told of yet: a scheduler that ends before their answers come never does."""


class Sent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A placement that was sent, and whose outcome is not known yet."""

    number: int
    uid: str
    node: str
    revision: int
    """Of the pod, as it was decided about."""


class UnconfirmedCharges(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The memory in a record about a node's unconfirmed charges."""

    number: int
    answered: int
    left_out: tuple[str, ...]
    start: int
    """Which of them is the first here."""
    found: list[Object]
    count: int = -1
    """How many there are in all."""


class Setting(msgspec.Struct, frozen=True, gc=False):
    """What is the same for all decisions of one step."""

    origin: Origin
    now: int
    """In microseconds, see `record.micros`."""
    view: tuple[ViewPart, ...]
    seed: str
    since: int = 0
    unconfirmed: int = 0
    """See `Remembered`."""


class Deciding(msgspec.Struct, frozen=True, gc=False):
    """One decision about one pod."""

    setting: Setting
    name: str
    number: int
    namespace: str
    pod: str
    uid: str
    revision: int
    """Of the pod, as it was seen."""
    attempts: int
    queue_wait_us: int
    woken_by: tuple[int, ...]
    wakes: int
    left_out: tuple[str, ...]
    assumed: int = -1
    policies: tuple[AppliedPolicy, ...] = ()
    """What it goes by, in the version that is known here."""
    shadows: tuple[ShadowDecision, ...] = ()
    """What other policies would have decided, where that differs."""


def placement(deciding: Deciding, node: str, score: int, answer: Answer, answered: int, at: int) -> DecisionRecord:
    """A node was found, and this came of it. `answered` is the number of the answer."""
    match answer:
        case Bound(revision=revision):
            outcome = _DONE
            write = Write("pods", deciding.namespace, deciding.pod, revision)
        case BindRefused(cause=cause, message=message):
            outcome = Outcome(Ending.RETRY, str(cause), message)
            write = Write("pods", deciding.namespace, deciding.pod, 0, str(cause))
        case NotDone(message=message):
            outcome = Outcome(Ending.RETRY, "NotDone", message)
            write = Write("pods", deciding.namespace, deciding.pod, 0, "NotDone")
        case Unknown(message=message):
            outcome = Outcome(Ending.RETRY, "Unknown", message)
            write = Write("pods", deciding.namespace, deciding.pod, 0, "Unknown", True)
        case _:
            assert_never(answer)
    action = RecordedAction("bind", "pods", deciding.namespace, deciding.pod, "binding")
    return _record(deciding, outcome, at, answered, (f"node={node}", f"score={score}"), (action,), (write,))


def refusal(deciding: Deciding, no: Unschedulable, at: int, sent: Sequence[Sent] = ()) -> DecisionRecord:
    """No node was found."""
    outcome = Outcome(Ending.RETRY, "Unschedulable", render_message(no))
    return _record(deciding, outcome, at, deciding.number, render_summary(no), (), (), tuple(sent))


def unconfirmed(
    setting: Setting, name: str, number: int, node: str, found: Sequence[Object], at: int
) -> list[DecisionRecord]:
    """The server has said which charges of a node are unconfirmed."""
    outcome = Outcome(Ending.DONE, "GhostsSeen", f"force-deleted pods that still hold room: {len(found)}")
    made = []
    for start in range(0, max(len(found), 1), UNCONFIRMED_OF_A_RECORD):
        part = found[start : start + UNCONFIRMED_OF_A_RECORD]
        memory = _pack(UnconfirmedCharges(number, number, (), start, list(part), len(found)))
        made.append(
            make_record(
                setting.origin,
                f"{name}.{start}" if start else name,
                Subject("nodes", "", node, ""),
                outcome,
                at,
                setting.now,
                view=setting.view,
                seed=setting.seed,
                memory=RecordedMemory(len(memory), memory),
                reasons=tuple(f"{each.get('namespace')}/{each.get('name')}" for each in part),
                why_not=(WhyNot.NOTHING_DECIDED,),
            )
        )
    return made


def failure(deciding: Deciding, reason: str, message: str, at: int) -> DecisionRecord:
    """Something went wrong before anything was sent."""
    return _record(deciding, Outcome(Ending.RETRY, reason, message), at, deciding.number, (), (), ())


def forgotten(setting: Setting, name: str, number: int, bind: Bind, message: str, at: int) -> DecisionRecord:
    """A pod that was said to be bound is not, after all: the store has gone back. It is not assumed any more."""
    memory = _pack(Remembered(number, number, since=setting.since))
    return make_record(
        setting.origin,
        name,
        Subject("pods", bind.namespace, bind.name, bind.uid),
        Outcome(Ending.RETRY, FORGOTTEN, message),
        at,
        setting.now,
        view=setting.view,
        seed=setting.seed,
        memory=RecordedMemory(len(memory), memory),
        reasons=(f"node={bind.node}",),
        why_not=(WhyNot.NOTHING_DECIDED,),
    )


def _record(
    deciding: Deciding,
    outcome: Outcome,
    at: int,
    answered: int,
    reasons: tuple[str, ...],
    actions: tuple[RecordedAction, ...],
    writes: tuple[Write, ...],
    sent: tuple[Sent, ...] = (),
) -> DecisionRecord:
    setting = deciding.setting
    memory = _pack(
        Remembered(
            deciding.number, answered, deciding.left_out, setting.since, deciding.assumed, setting.unconfirmed, sent
        )
    )
    return make_record(
        setting.origin,
        deciding.name,
        Subject("pods", deciding.namespace, deciding.pod, deciding.uid),
        outcome,
        at,
        setting.now,
        view=setting.view,
        seed=setting.seed,
        policies=deciding.policies,
        memory=RecordedMemory(len(memory), memory),
        queue_wait_us=deciding.queue_wait_us,
        attempts=deciding.attempts,
        woken_by=deciding.woken_by,
        woken_count=deciding.wakes,
        looked_at=(LookedAt("pods", deciding.namespace, deciding.pod, deciding.revision),),
        looked_at_count=1,
        reasons=reasons,
        actions=actions,
        writes=writes,
        shadows=deciding.shadows,
    )
