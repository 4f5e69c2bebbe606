"""Collecting records: what components have decided, and what this server has decided itself, into one journal.

    POST /journal/decisions      the records of one component, as loop/record_shipper.py sends them
    admission, commit points     what was refused, and who asked for each revision (write_notes.py, refusals.py)

A component is answered when its records are durable; until then it keeps them. So a batch may come twice: what is the
same as before is left out here as far as it is remembered, and readers know decisions by their ids. When the disk does
not keep up, components are told to come back rather than being taken from: they have room, and give up detail first.

Which decisions are kept, and in which detail, the rules of sampling say (journal/sampling.py), here where all of them
come together. What is dropped by a rule is counted, in the metrics and in the journal itself. Components apply the
default rules themselves and say so on what these keep in full; that is then taken as it came, as long as the rules are
the default ones here too.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, Protocol, assert_never

import msgspec

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.json_values import UNREADABLE
from mainstay.env import Clock, tasks
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import (
    PARTS_MAX,
    ChangeRecord,
    DecisionRecord,
    Ending,
    EntryRecord,
    LostRecord,
    MemoryRecord,
    MissedRecord,
    Outcome,
    ReachedRecord,
    Record,
    SampledRecord,
    Subject,
    WriteRecord,
    bounded,
    encode,
    micros,
)
from mainstay.journal.sampling import DEFAULT_RULES, DetailLevel, Sampler
from mainstay.server.decisions.counts import DecisionCounts
from mainstay.server.decisions.feed import DecisionFeed

SETTLED_WITHIN: Final = timedelta(seconds=10)
RECENT_MAX: Final = 10_000  # So many records at least are recognised when they come again, and twice as many at most.
AUDITS_MAX: Final = 20_000  # Decisions whose record has not come yet, or never does.

AGENT: Final = "agent"

_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_record = msgspec.msgpack.Decoder(Record).decode
_decision = msgspec.msgpack.Decoder(DecisionRecord).decode


class _Ended(msgspec.Struct, array_like=True, frozen=True, gc=False):
    ending: Ending


class _Decided(msgspec.Struct, array_like=True, frozen=True, tag="d", gc=False):
    """The first fields of a `DecisionRecord`: all that is looked at in one that is taken as it came."""

    id: str
    at: int
    component: str
    build: msgspec.Raw
    subject: msgspec.Raw
    outcome: _Ended


_glances = msgspec.msgpack.Decoder(list[_Decided]).decode


def _build_ending(rule: str) -> bytes:
    """How a record ends, from `audits` on, that its component has marked with a rule and that has nothing special."""
    blank = DecisionRecord("", 0, "", "", Subject("", "", ""), Outcome(Ending.DONE))
    marked = encode(msgspec.structs.replace(blank, trace="+", kept=f"{rule}={DetailLevel.FULL}"))
    return marked[marked.index(b"\xa1+") + 2 :]


_AS_IT_CAME: Final = {
    f"{rule}={DetailLevel.FULL}": _build_ending(rule) for rule in ("actions", "failures", "policy-changes")
}


def _find_rule(data: bytes) -> str | None:
    """The rule that a record was marked with, if it may be taken as it came."""
    for rule, end in _AS_IT_CAME.items():
        if data.endswith(end):
            return rule
    return None


class Keeper(Protocol):
    """Where records are kept."""

    def put(self, record: Record, data: bytes) -> None:
        """Keep a record, of which `data` is the encoded form. Does not wait and does not fail."""

    def put_decisions(self, decisions: Sequence[bytes], at: int) -> None:
        """The same for the records of some decisions, made at about a time."""

    def note(self, record: WriteRecord) -> None:
        """The same for who asked for a write. It must cost next to nothing."""

    @property
    def is_full(self) -> bool:
        """Whether no more should be taken from others just now."""

    async def settle(self) -> None:
        """Wait until all that was put is as safe as it will be."""


class DiskKeeper:
    """Keeps them in a directory."""

    def __init__(self, recorder: DecisionRecorder, clock: Clock) -> None:
        self._recorder = recorder
        self._clock = clock

    def put(self, record: Record, data: bytes) -> None:
        self._recorder.take((data,), record.at if isinstance(record, DecisionRecord | WriteRecord) else self._now())

    def put_decisions(self, decisions: Sequence[bytes], at: int) -> None:
        self._recorder.take(decisions, at)

    def note(self, record: WriteRecord) -> None:
        self._recorder.note(record)

    def _now(self) -> int:
        return micros(self._clock.wall())

    @property
    def is_full(self) -> bool:
        return self._recorder.is_half_full

    async def settle(self) -> None:
        await self._recorder.flush()


class MemoryKeeper:
    """Keeps them in memory: for a simulation."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal

    def put(self, record: Record, data: bytes) -> None:
        match record:
            case DecisionRecord():
                self._journal.decided(record)
            case WriteRecord():
                self._journal.wrote(record)
            case MemoryRecord():
                self._journal.remember(record)
            case LostRecord():
                self._journal.lost.append(record)
            case SampledRecord():
                self._journal.left_out.append(record)
            case ChangeRecord() | EntryRecord() | ReachedRecord() | MissedRecord():
                pass
            case _:
                assert_never(record)

    def put_decisions(self, decisions: Sequence[bytes], at: int) -> None:
        for data in decisions:
            self._journal.decided(_decision(data))

    def note(self, record: WriteRecord) -> None:
        self._journal.wrote(record)

    @property
    def is_full(self) -> bool:
        return False

    async def settle(self) -> None:
        """It is as safe as it will be."""


class Collector:
    """Takes records, and tells the feed of decisions that were kept."""

    def __init__(self, keeper: Keeper, feed: DecisionFeed, counts: DecisionCounts) -> None:
        self._keeper = keeper
        self._feed = feed
        self._counts = counts
        self._recent: set[int] = set()
        """Hashes of the records that came. What is sent again is the same, to the byte (journal/outbox.py)."""
        self._recent_before: set[int] = set()
        self._audits: OrderedDict[str, list[str]] = OrderedDict()
        """By decision, the audit ids of its writes. A component does not know them, and its record comes later."""
        self.sampler = Sampler()
        self.offer: Callable[[DecisionRecord | WriteRecord], None] | None = None
        """Is given what was kept, for traces. It must not wait."""

    def wrote(self, record: WriteRecord) -> None:
        """Who asked for a revision. With every write: it must cost next to nothing."""
        self._keeper.note(record)
        if record.decision and record.audit:
            self._note_audit(record.decision, record.audit)
        if self.offer is not None:
            self.offer(record)

    def decided(self, record: DecisionRecord) -> None:
        """A decision of this server. One with the same id as before takes its place."""
        self._decided(bounded(record))

    async def collect(self, content: bytes, *, node: str = "") -> int:
        """Take the records of a component, and return how many there were once they are safe. `node`: of whose agent.

        Raises `StatusError`: 400 for what is none, 429 if there is no room just now, or the disk does not take it.
        """
        if self._keeper.is_full:
            raise self._busy("the journal cannot keep up with incoming decisions")
        count = self._collected(content, node)
        try:
            async with tasks.timeout(SETTLED_WITHIN):
                await self._keeper.settle()
        except TimeoutError:
            raise self._busy("the journal's disk does not take these records, or takes too long") from None
        return count

    def _collected(self, content: bytes, node: str) -> int:
        """Put all records of a batch down, or raise `StatusError`."""
        count = self._taken_as_it_came(content, node)
        if not count:
            records = _records_in(content, node)
            count = len(records)
            for record, data in records:
                if isinstance(record, DecisionRecord):
                    if not self._is_repeated(data):
                        self._decided(record)
                else:
                    self._counts.told(record)
                    self._keeper.put(record, data)
            for left_out in self.sampler.told():
                self._counts.told(left_out)
                self._keeper.put(left_out, encode(left_out))
        return count

    def _busy(self, why: str) -> StatusError:
        # Not a 503: by that a client knows a server that is unable to do anything, and leaves it alone. A component
        # that decides must not stop to act because the journal is busy.
        self._counts.dropped("busy")
        return StatusError(429, StatusReason.TOO_MANY_REQUESTS, f"{why}; retry later", retry_after_s=1)

    def _taken_as_it_came(self, content: bytes, node: str) -> int:
        """Take a batch of decisions that are all to be kept in full by the default rules, as their component has said.
        How many there were; 0: it is another sort of batch, and nothing was taken.

        So a scheduler's placements are taken, thousands in a second: only their beginnings and ends are looked at.
        """
        if self.offer is not None or self.sampler.rules != DEFAULT_RULES:
            return 0
        try:
            glances, raws = _glances(content), _raws(content)
        except UNREADABLE:
            return 0
        records = list(map(bytes, raws))
        kept: list[bytes] = []
        sizes: dict[tuple[str, Ending, str], list[int]] = {}
        rules = [_find_rule(data) for data in records]
        if None in rules:
            return 0
        if node:
            for number, glance in enumerate(glances):
                _require_own(glance.component, number, node)
        for glance, data, rule in zip(glances, records, rules, strict=True):
            if rule is None or self._is_repeated(data):
                continue
            if (audits := self._audits.pop(glance.id, None)) is not None:
                end = _AS_IT_CAME[rule]
                data = b"".join((data[: -len(end)], encode(audits), end[1:]))
            kept.append(data)
            labels = (glance.component, glance.outcome.ending, rule)
            if labels in sizes:
                sizes[labels].append(len(data))
            else:
                sizes[labels] = [len(data)]
        for (component, ending, rule), each in sizes.items():
            self._counts.kept(component, ending, rule, each)
        if kept:
            self._keeper.put_decisions(kept, glances[0].at)
            self._feed.add(kept)
        return len(records)

    def _decided(self, record: DecisionRecord) -> None:
        audits = self._audits.pop(record.id, None)
        if audits is not None and not record.audits:
            record = msgspec.structs.replace(record, audits=tuple(audits))
        kept = self.sampler.sampled(record)
        if kept is None:
            return
        data = encode(kept)
        self._counts.kept(kept.component, kept.outcome.ending, kept.kept, (len(data),))
        self._keeper.put(kept, data)
        self._feed.add((data,))
        if self.offer is not None:
            self.offer(kept)

    def _note_audit(self, decision: str, audit: str) -> None:
        known = self._audits.get(decision)
        if known is None:
            if len(self._audits) >= AUDITS_MAX:
                self._audits.popitem(last=False)
            self._audits[decision] = [audit]
        elif len(known) < PARTS_MAX:
            known.append(audit)

    def _is_repeated(self, data: bytes) -> bool:
        seen = hash(data)
        if seen in self._recent or seen in self._recent_before:
            return True
        if len(self._recent) >= RECENT_MAX:
            self._recent_before, self._recent = self._recent, set()
        self._recent.add(seen)
        return False


def _records_in(content: bytes, node: str) -> Sequence[tuple[Record, bytes]]:
    """The records of a batch, each with its bytes. Those of a sort that only newer versions know are left out."""
    try:
        raws = _raws(content)
    except UNREADABLE as error:
        raise bad_request(f"these are no records: {error}") from None
    records: list[tuple[Record, bytes]] = []
    for number, raw in enumerate(raws):
        try:
            record = _record(raw)
        except msgspec.ValidationError:
            continue
        except UNREADABLE as error:
            raise bad_request(f"record {number} cannot be read: {error}") from None
        match record:
            case DecisionRecord():
                _require_own(record.component, number, node)
            case MemoryRecord():
                _require_own(record.component, number, node)
            case LostRecord() | SampledRecord():
                pass
            case _:
                # What a server knows better itself: no component may record it in its name.
                raise bad_request(f"record {number} is a {type(record).__name__}, which only servers write")
        records.append((record, bytes(raw)))
    return records


def _require_own(component: str, number: int, node: str) -> None:
    """An agent speaks for agents: what a scheduler decided, a node has no business to tell."""
    if node and component != AGENT and not component.startswith(f"{AGENT}-"):
        text = f"record {number} is of the component {component!r}, and node {node} may only tell of its agent"
        raise StatusError(403, StatusReason.FORBIDDEN, text, {})
