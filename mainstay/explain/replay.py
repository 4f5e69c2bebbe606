"""Replay: a recorded decision, decided again from the journal. Identical, or the first difference, or why it cannot be.

    match await replay(journal, record, deciders):
        case Same(): …
        case Differs(field, recorded, now): a bug: in the record, the rebuilding, or a decider that is no function
        case CannotReplay(why, text): what is missing

It is one function for all components: the record names its view and memory, rebuild.py has both again from the journal,
and the decider of its component (loop/decider.py) decides, by the very function that decides in production. Compared is
all that was decided: actions with digests of their bodies, reasons, conditions, status, events, what is remembered, and
when it wants to look again. How it ended is compared too, unless a write failed: that was not decided here.

Not here: which decisions to replay, and with which build (cli/replay.py).
"""

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import msgspec

from mainstay.api.feature_gates import find_unknown
from mainstay.api.holds import HoldReason
from mainstay.explain.rebuild import WHY_NOT, CannotRebuild, Rebuild, RebuiltObjects, rebuild, require_replayable
from mainstay.journal import record as records
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, Subject, WhyNot
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.decision import Action, Apply, Create, Patch
from mainstay.loop.record import Decided

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True)
class Same:
    """It is decided again as it was recorded."""


SAME: Final = Same()


@dataclass(frozen=True, slots=True)
class Differs:
    """It is decided otherwise. The first difference; `recorded` and `now` as texts for people."""

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


class Deciders:
    """The deciders of a build (registry.py): by component, and those that apply to components of any name."""

    def __init__(self, named: Mapping[str, Decider], others: Sequence["AnyName"] = ()) -> None:
        self.named = named
        self.others = others

    def find(self, record: DecisionRecord) -> "tuple[Decider, Rebuild] | None":
        """Who decides again, and how its view is rebuilt; None: it is not known here."""
        if (decider := self.named.get(record.component)) is not None:
            return decider, rebuild
        return next(((each.decider, each.rebuild) for each in self.others if each.applies(record)), None)


@dataclass(frozen=True, slots=True)
class AnyName:
    """A decider whose components have names of their own, such as schedulers."""

    applies: Callable[[DecisionRecord], bool]
    decider: Decider
    rebuild: Rebuild


async def replay_all(
    journal: Journal, wanted: Iterable[DecisionRecord], deciders: Deciders
) -> AsyncIterator[tuple[DecisionRecord, Answer]]:
    """Replay each. What was rebuilt for one is used for the next: give them in the order of their times."""
    past = RebuiltObjects(journal)
    for record in wanted:
        yield record, await replay(journal, record, deciders, past)


async def replay(
    journal: Journal, record: DecisionRecord, deciders: Deciders, past: RebuiltObjects | None = None
) -> Answer:
    """Decide again. Raises `JournalUnreachable`."""
    try:
        require_replayable(record)
        if unknown := find_unknown(record.flags):
            text = f"this build does not have the feature gate {unknown[0]}, which was set"
            return CannotReplay(WhyNot.READ_OUTSIDE, text)
        found = deciders.find(record)
        if found is None:
            return CannotReplay(WhyNot.READ_OUTSIDE, f"unknown component {record.component!r}")
        decider, rebuild_for = found
        rebuilt = await rebuild_for(past or RebuiltObjects(journal), record, decider)
    except CannotRebuild as error:
        return CannotReplay(error.why, str(error))
    if rebuilt.gaps:
        gaps = "; ".join(map(str, rebuilt.gaps))
        return CannotReplay(WhyNot.HISTORY_MISSING, f"{WHY_NOT[WhyNot.HISTORY_MISSING]}: {gaps}")
    decided = decider.decide(rebuilt.view, rebuilt.memory)
    again = _choose(record, decider.schedule, decided)
    if again is None:
        was = _action_text(record.actions[0] if record.actions else None)
        now = [_action_text(action) for each in decided for action in each.actions]
        return Differs("step", was, ", ".join(now) or "none")
    return compare(record, again)


def _choose(record: DecisionRecord, schedule: Schedule, decided: Sequence[Decided]) -> Decided | None:
    """The part of what was decided that a record is about; None: there is no such part any more."""
    match schedule:
        case Schedule.PER_KEY:
            return decided[0]
        case Schedule.PERIODIC:
            text = record.id.rpartition(".")[2]
            return decided[int(text)] if text.isdigit() and int(text) < len(decided) else None
        case Schedule.FRESH_READ:
            same = [each for each in decided if set(each.actions) & set(record.actions)]
            return dataclasses.replace(same[0], reasons=record.reasons) if same else None
        case _:
            assert_never(schedule)


def compare(record: DecisionRecord, decided: Decided) -> Answer:
    """Whether what was decided again is what a record has."""
    if _is_plainly_same(record, decided):
        return SAME
    again = records.bounded(
        msgspec.structs.replace(
            record,
            actions=decided.actions,
            reasons=decided.reasons,
            conditions=decided.conditions,
            rest=decided.rest,
            outcome=decided.outcome or record.outcome,
        )
    )
    for number in range(max(len(record.actions), len(again.actions))):
        was = record.actions[number] if number < len(record.actions) else None
        now = again.actions[number] if number < len(again.actions) else None
        if was != now:
            body = _body(decided.source.actions[number]) if now is not None and decided.source is not None else ""
            return Differs(f"actions[{number}]", _action_text(was), f"{_action_text(now)} {body}".strip())
    if decided.subject is not None and _named(decided.subject) != _named(record.subject):
        return Differs("subject", _text(record.subject), _text(decided.subject))
    for name in ("reasons", "conditions"):
        if getattr(record, name) != getattr(again, name):
            return Differs(name, _text(getattr(record, name)), _text(getattr(again, name)))
    if record.rest != again.rest:
        return Differs("status, events or memory", record.rest.hex() or "none", _rest_text(decided))
    has_failed = any(write.error for write in record.writes) or len(record.writes) >= records.PARTS_MAX
    # A Hold of the controller came before all of it was carried out: that was not decided here.
    has_failed = has_failed or record.outcome.reason == HoldReason.HELD
    if not has_failed and record.outcome != again.outcome:
        return Differs("outcome", _text(record.outcome), _text(again.outcome))
    return SAME


def _is_plainly_same(record: DecisionRecord, decided: Decided) -> bool:
    """Whether nothing differs, for the many decisions that say nothing but their actions and reasons. Quick."""
    return (
        decided.outcome is None
        and decided.subject is None
        and record.actions == decided.actions
        and record.reasons == decided.reasons
        and record.conditions == decided.conditions
        and record.rest == decided.rest
    )


def _named(subject: Subject) -> tuple[str, str, str]:
    return subject.kind, subject.namespace, subject.name


# Words.


def _rest_text(decided: Decided) -> str:
    if (decision := decided.source) is None:
        return decided.rest.hex() or "none"
    events = [(each.reason, each.message) for each in decision.events]
    return _text({"status": decision.status, "events": events, "memory": decision.memory})


def _action_text(action: records.RecordedAction | None) -> str:
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
