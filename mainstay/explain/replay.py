"""Decisions made again from the journal: the same, or the first difference, or why it cannot be told.

    match await replayed(journal, record):
        case Same(): …
        case Differs(field, recorded, now): a bug: in the record, the rebuilding, or a decider that is no function
        case CannotReplay(why, text): what is missing

The view is rebuilt from the history of revisions (rebuild.py), the memory from the record; for placements from the
records before it (placement.py), for loops that read elsewhere from what they noted (snapshots.py). Then the very
functions decide that decide in production. A decision is compared in all that it decided: actions with digests of their
bodies, reasons, conditions, status, events, what it remembers, and when it wants to look again. How it ended is
compared too, unless a write failed: that was not its own doing.

Not here: which decisions to replay, and from which build (cli/replay.py).
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mainstay.api.holds import HoldReason
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.registry import CONTROLLERS
from mainstay.controllers.service_account.controller import ROOT_AUTHORITIES, RootAuthorities
from mainstay.explain.placement import NO_OTHER_NODE, explained_decision, scheduling
from mainstay.explain.rebuild import WHY_NOT, CannotRebuild, Past, controller_view, memory_of, require_replayable
from mainstay.explain.snapshots import LOOKS
from mainstay.journal import record as records
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, Ending, Outcome, WhyNot
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Apply, Create, Decision, Patch
from mainstay.loop.record import decided, failure_to_decide, outcome_of
from mainstay.scheduler.messages import message_of, summary_of
from mainstay.scheduler.reasons import Placed

NAMED: Final[Mapping[str, Controller]] = {each.name: each for each in CONTROLLERS}

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class Same:
    """It was decided again as it was recorded."""


SAME: Final = Same()


@dataclass(frozen=True, slots=True)
class Differs:
    """It comes out otherwise. The first difference; `recorded` and `now` as texts for people."""

    field: str
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class CannotReplay:
    why: WhyNot
    text: str


Answer = Same | Differs | CannotReplay


@dataclass(slots=True)
class Summary:
    """Of many decisions, by component."""

    same: dict[str, int] = field(default_factory=dict)
    differs: dict[str, int] = field(default_factory=dict)
    cannot: dict[tuple[str, WhyNot], int] = field(default_factory=dict)
    differences: list[tuple[DecisionRecord, Differs]] = field(default_factory=list)

    def add(self, record: DecisionRecord, answer: Answer) -> None:
        component = record.component
        match answer:
            case Same():
                self.same[component] = self.same.get(component, 0) + 1
            case Differs():
                self.differs[component] = self.differs.get(component, 0) + 1
                self.differences.append((record, answer))
            case CannotReplay(why=why):
                self.cannot[component, why] = self.cannot.get((component, why), 0) + 1

    @property
    def replayed(self) -> int:
        return sum(self.same.values()) + sum(self.differs.values())

    @property
    def agreement(self) -> float:
        """Of those that could be replayed, the part that came out the same. Of none: all of them."""
        return sum(self.same.values()) / self.replayed if self.replayed else 1.0


async def replay_all(
    journal: Journal, wanted: Iterable[DecisionRecord], controllers: Mapping[str, Controller] = NAMED
) -> AsyncIterator[tuple[DecisionRecord, Answer]]:
    """Each of them made again. What was rebuilt for one is used for the next: give them in the order of their times."""
    past = Past(journal)
    for record in wanted:
        yield record, await replayed(journal, record, past, controllers)


async def replayed(
    journal: Journal,
    record: DecisionRecord,
    past: Past | None = None,
    controllers: Mapping[str, Controller] = NAMED,
) -> Answer:
    """Make a decision again. Raises `JournalUnreachable`."""
    past = past or Past(journal)
    try:
        require_replayable(record)
        if record.component in controllers:
            return await _controller(past, record, controllers[record.component])
        if record.component in LOOKS:
            return await _look(past, record)
        if record.component == ROOT_AUTHORITIES:
            settings, _ = await memory_of(journal, record, tuple[str, Any])
            return await _controller(past, record, RootAuthorities(settings))
        if is_placement(record):
            return await _placement(past, record)
    except CannotRebuild as error:
        return CannotReplay(error.why, str(error))
    return CannotReplay(WhyNot.READ_OUTSIDE, f"nobody here knows how {record.component!r} decides")


def is_placement(record: DecisionRecord) -> bool:
    """Whether a scheduler decided about a pod. Schedulers have names of their own."""
    kinds = [seen.kind for seen in record.view]
    return record.subject.kind == "pods" and "pods" in kinds and "nodes" in kinds and record.seed != ""


# Controllers.


async def _controller(past: Past, record: DecisionRecord, controller: Controller) -> Answer:
    rebuilt = await controller_view(past.journal, record, controller, past)
    if rebuilt.gaps:
        return CannotReplay(WhyNot.HISTORY_MISSING, _gaps(rebuilt.gaps))
    key = ObjectKey(record.subject.namespace, record.subject.name)
    try:
        decision = controller.decide(rebuilt.view, key, rebuilt.memory)
    except Exception as error:  # noqa: BLE001 - as the loop does: a bug is part of what happened
        decision = failure_to_decide(error)
    again = records.bounded(msgspec.structs.replace(record, outcome=outcome_of(decision), **decided(decision)))
    return _compared(record, again, decision)


def _compared(record: DecisionRecord, again: DecisionRecord, decision: Decision) -> Answer:
    for number in range(max(len(record.actions), len(again.actions))):
        was = record.actions[number] if number < len(record.actions) else None
        now = again.actions[number] if number < len(again.actions) else None
        if was != now:
            body = _body(decision.actions[number]) if now is not None else ""
            return Differs(f"actions[{number}]", _action_text(was), f"{_action_text(now)} {body}".strip())
    for name in ("reasons", "conditions"):
        if getattr(record, name) != getattr(again, name):
            return Differs(name, _text(getattr(record, name)), _text(getattr(again, name)))
    if record.rest != again.rest:
        what = {
            "status": decision.status,
            "events": [(each.reason, each.message) for each in decision.events],
            "memory": decision.memory,
        }
        return Differs("status, events or memory", record.rest.hex() or "none", _text(what))
    has_failed = any(write.error for write in record.writes) or len(record.writes) >= records.PARTS_MAX
    # Somebody has held the controller before all of it was carried out: that was not decided here.
    has_failed = has_failed or record.outcome.reason == HoldReason.HELD
    if not has_failed and record.outcome != again.outcome:
        return Differs("outcome", _text(record.outcome), _text(again.outcome))
    return SAME


# Loops of their own.


async def _look(past: Past, record: DecisionRecord) -> Answer:
    again = await LOOKS[record.component](past, record)
    if again.gaps:
        return CannotReplay(WhyNot.HISTORY_MISSING, _gaps(again.gaps))
    step = again.step(record)
    was = record.actions[0] if record.actions else None
    if step is None or step.action != was:
        now = [_action_text(each.action) for each in again.steps] if step is None else [_action_text(step.action)]
        return Differs("step", _action_text(was), ", ".join(now) or "none")
    subject, reasons = step.subject, tuple(step.reasons)
    if (subject.kind, subject.namespace, subject.name) != (
        record.subject.kind,
        record.subject.namespace,
        record.subject.name,
    ):
        return Differs("subject", _text(record.subject), _text(subject))
    if reasons != record.reasons:
        return Differs("reasons", _text(record.reasons), _text(reasons))
    return SAME


# Placements.


async def _placement(past: Past, record: DecisionRecord) -> Answer:
    found = await scheduling(past.journal, record, past)
    if found.gaps:
        return CannotReplay(WhyNot.HISTORY_MISSING, _gaps(found.gaps))
    if found.missing:
        return CannotReplay(WhyNot.MEMORY_NOT_KEPT, "; ".join(found.missing))
    try:
        decision = explained_decision(found)
    except Exception as error:  # noqa: BLE001 - as the cycle does: a bug is part of what happened
        now = f"InternalError: {type(error).__name__}: {error}"
        was = f"{record.outcome.reason}: {record.outcome.message}"
        return SAME if was == now else Differs("outcome", was, now)
    if isinstance(decision, Placed):
        placed = (f"node={decision.node}", f"score={decision.score}")
        return SAME if record.reasons == placed else Differs("placement", _said(record), " ".join(placed))
    if decision is None:
        is_same = record.outcome.reason == NO_OTHER_NODE
        return SAME if is_same else Differs("placement", _said(record), NO_OTHER_NODE)
    outcome = Outcome(Ending.RETRY, "Unschedulable", message_of(decision))
    again = records.bounded(msgspec.structs.replace(record, outcome=outcome, reasons=summary_of(decision)))
    if record.reasons != again.reasons:
        return Differs("reasons", _said(record), _said(again))
    if record.outcome != again.outcome:
        return Differs("outcome", _text(record.outcome), _text(again.outcome))
    return SAME


# Words.


def _said(record: DecisionRecord) -> str:
    return " ".join(record.reasons) or f"{record.outcome.reason}: {record.outcome.message}"


def _action_text(action: records.Action | None) -> str:
    if action is None:
        return "none"
    at = f"{action.namespace}/{action.name}" if action.namespace else action.name
    part = f"/{action.subresource}" if action.subresource else ""
    digest = f" ({action.digest.hex()[:12]})" if action.digest else ""
    return f"{action.verb} {action.kind} {at}{part}{digest}"


def _body(action: Action) -> str:
    match action:
        case Create(object=obj) | Apply(object=obj):
            return _text(obj)
        case Patch(body=body):
            return _text(body)
        case _:
            return ""


def _text(value: Any) -> str:
    return _encode(value).decode()


def _gaps(gaps: Iterable[object]) -> str:
    return f"{WHY_NOT[WhyNot.HISTORY_MISSING]}: {'; '.join(map(str, gaps))}"
