"""What the journal writes down: the record of a decision, of a change, and a few about the journal itself.

A record is a tagged array in msgpack. The format has one rule: *fields are only ever added, at the end and with a
default*, tags and words are never given another meaning. So an old reader takes a new record and does not see what was
added, and a new reader takes an old one. A tag that a reader does not know is passed over and counted.

A decision record names the input of a decision rather than holding it: the view as revisions, the memory inline up to
1 KB and otherwise as a digest. With the history of revisions (history.py), which has the objects, the decision can be
made again. It holds no object's content: an action names what it writes and has a digest of it, except for Secrets,
whose digest could be used to guess the content.

Times are microseconds since 1970, in UTC; see `micros`.
"""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

WOKEN_BY_MAX: Final = 8
LOOKED_AT_MAX: Final = 64  # A decision that reads a whole list names the list, not what is in it.
PARTS_MAX: Final = 64  # Of reasons, conditions, actions and writes, each.
TEXT_LENGTH_MAX: Final = 500
MEMORY_BYTES_MAX: Final = 1024  # Kept inline.

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def moment(at: int) -> datetime:
    return _EPOCH + at * _MICROSECOND


class Ending(StrEnum):
    """How a decision ended. On disk and shown to users: only add."""

    DONE = "Done"
    WAKE_AT = "WakeAt"
    RETRY = "Retry"
    GIVE_UP = "GiveUp"
    REFUSED = "Refused"
    """Admission or a commit point rejected the request; it is not retried."""


class WhyNot(StrEnum):
    """Why a decision is not replayable from its record. On disk and shown to users: only add."""

    MEMORY_NOT_KEPT = "MemoryNotKept"
    """Its memory was too large for the record, and no checkpoint has it."""
    DETAIL_DROPPED = "DetailDropped"
    """The journal was overloaded and kept only what the decision was about and how it ended."""
    READ_OUTSIDE = "ReadOutside"
    """It depended on something that is neither in its view nor in its memory."""
    VIEW_NOT_NAMED = "ViewNotNamed"
    """A cache could not say which revision it had completely applied."""
    HISTORY_MISSING = "HistoryMissing"
    """The journal lacks some of the revisions of its view."""
    NOTHING_DECIDED = "NothingDecided"
    """It records an observation that later decisions depend on."""
    SUMMARISED = "Summarised"
    """A sampling policy kept only its summary."""


class _Part(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A part of a record. None of them can be in a cycle, so the collector is spared them."""


class Subject(_Part, frozen=True):
    """The object that a decision is about. `kind` is its text, as in `deployments.apps`."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    generation: int = 0


class ViewPart(_Part, frozen=True):
    """One part of a view: a kind, or what selectors leave of it, completely applied up to a revision."""

    kind: str
    revision: int
    namespace: str = ""
    """Only this namespace; empty for all."""
    labels: str = ""
    fields: str = ""


class AppliedPolicy(_Part, frozen=True):
    """A policy that applied, in the version that applied."""

    kind: str
    name: str
    uid: str
    revision: int


class LookedAt(_Part, frozen=True):
    """Something that the decision read: one object, or a list of them."""

    kind: str
    namespace: str = ""
    name: str = ""
    """Empty: a list, namely all of the namespace, or what `index` has under `value`."""
    revision: int = 0
    """Of the object as it was seen; 0 if it was not there. Of a list: the largest in it."""
    index: str = ""
    value: str = ""
    count: int = 0
    """How many objects a list had."""


class RecordedMemory(_Part, frozen=True):
    """What a decision depended on that no store holds. Make one with `whole`."""

    size: int = 0
    inline: bytes = b""
    """All of it, if `size` is at most `MEMORY_BYTES_MAX`."""
    digest: bytes = b""
    """If it is not inline. A `MemoryRecord` with this digest may have it."""


NO_MEMORY: Final = RecordedMemory()


def whole(content: bytes) -> RecordedMemory:
    """A memory for a record that is about to be recorded. Who keeps the record sees to what is too large for it.

    The content must always be encoded the same way, and have nothing in it that is secret.
    """
    return RecordedMemory(len(content), content)


class Outcome(_Part, frozen=True):
    ending: Ending
    reason: str = ""
    message: str = ""
    wake_at: int = 0
    """For `WAKE_AT` and `RETRY`: when."""


class RecordedCondition(_Part, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class RecordedAction(_Part, frozen=True):
    """A write that the decision asked for. Make one with `action`."""

    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str = ""
    digest: bytes = b""
    """Of what was to be written, to compare with another run. Empty for Secrets, and where there is no body."""


class WriteResult(_Part, frozen=True):
    """What became of an action. `error` is empty if it was done, at `revision`."""

    kind: str
    namespace: str
    name: str
    revision: int = 0
    error: str = ""
    """The name of the failure: `Conflict`, `Fenced`, `Unavailable` …"""
    may_have_happened: bool = False
    cause: str = ""
    """Of a refusal: its code, `QuotaExceeded` (api/causes.py); of one that has none, the reason of the API."""
    quota: str = ""
    """Of a refusal by a ResourceQuota: its name."""
    requested: str = ""
    """And what was requested of it: `requests.cpu=1,pods=1`."""


class ShadowDecision(_Part, frozen=True):
    """What a policy that did not apply would have decided. Recorded only where that differs."""

    policy: str
    uid: str
    revision: int
    node: str = ""
    """Empty: it would have found none."""


class DecisionRecord(msgspec.Struct, array_like=True, frozen=True, tag="d", gc=False):
    """One decision. The `id` is what its writes carry as `Mainstay-Decision`."""

    id: str
    at: int
    """When it was recorded, by the clock of the component."""
    component: str
    build: str
    subject: Subject
    outcome: Outcome
    term: str = ""
    """Of the leader who decided: `namespace/lease=revision`. Empty if none was needed."""
    view: tuple[ViewPart, ...] = ()
    now: int = 0
    """The time in the view: what the decision took for the present."""
    seed: str = ""
    flags: tuple[str, ...] = ()
    policies: tuple[AppliedPolicy, ...] = ()
    memory: RecordedMemory = NO_MEMORY
    queue_wait_us: int = 0
    attempts: int = 0
    woken_by: tuple[int, ...] = ()
    """The latest revisions that woke it, at most `WOKEN_BY_MAX`. Not its causes."""
    woken_count: int = 0
    """How many there were in all."""
    looked_at: tuple[LookedAt, ...] = ()
    looked_at_count: int = 0
    reasons: tuple[str, ...] = ()
    conditions: tuple[RecordedCondition, ...] = ()
    actions: tuple[RecordedAction, ...] = ()
    writes: tuple[WriteResult, ...] = ()
    trace: str = ""
    audits: tuple[str, ...] = ()
    """The audit ids of its requests."""
    why_not: tuple[str, ...] = ()
    """Why it cannot be made again, as far as the writer knew: `WhyNot`."""
    kept: str = ""
    """The rule by which it was kept, and in which detail: `failures=full`. Empty: it was written without rules."""
    priority: int = 0
    """Of the subject, if it is a pod."""
    priority_class: str = ""
    """Of the subject, or of the pods that it makes."""
    is_rolling_out: bool = False
    """Whether the subject was on its way from one generation to the next."""
    rest: bytes = b""
    """A digest of what else was decided, to compare with another run: what to say in the status and to people, and what
    to remember. Empty: nothing of that."""
    user: str = ""
    """Of a refusal: who asked for what was refused."""
    parent: str = ""
    """Of a refusal: the decision that asked for it, if one did."""
    shadows: tuple[ShadowDecision, ...] = ()


class ChangeRecord(msgspec.Struct, array_like=True, frozen=True, tag="c", gc=False):
    """What one revision did to one object."""

    revision: int
    key: str
    """Of the store: `core/pods/default/web-1`."""
    value: bytes | None
    """The object as the store has it (Secrets: secret_mask.py); None if it was deleted."""
    at: int
    """When it was recorded."""
    decision: str = ""
    cause: str = ""


class WriteRecord(msgspec.Struct, array_like=True, frozen=True, tag="w", gc=False):
    """Who asked for a revision: the request that made it, as the server knew it."""

    revision: int
    kind: str
    namespace: str
    name: str
    at: int
    verb: str
    user: str
    agent: str = ""
    """The program, as it called itself (`User-Agent`)."""
    manager: str = ""
    """Of the fields, if the request named one."""
    audit: str = ""
    trace: str = ""
    """Empty if there is none, or if it follows from the decision (trace_id.py)."""
    decision: str = ""
    subresource: str = ""
    mutations: tuple[AppliedPolicy, ...] = ()
    """The admission policies that have changed what the request sent, in the order in which they did."""
    mutated: tuple[bytes, ...] = ()
    """For each of `mutations`, the fields that it has changed: a field set as in `managedFields`, or empty if there are
    very many. Records of earlier builds have none."""


class EntryRecord(msgspec.Struct, array_like=True, frozen=True, tag="e", gc=False):
    """An object in a snapshot, with the revision that wrote it."""

    key: str
    revision: int
    value: bytes


class ReachedRecord(msgspec.Struct, array_like=True, frozen=True, tag="r", gc=False):
    """All changes after one revision, up to and including another, are here: in the frame that this record begins."""

    after: int
    revision: int
    at: int


class MissedRecord(msgspec.Struct, array_like=True, frozen=True, tag="g", gc=False):
    """The recorder was away while the store forgot: the changes after one revision up to another are nowhere."""

    after: int
    revision: int
    at: int


class MemoryRecord(msgspec.Struct, array_like=True, frozen=True, tag="m", gc=False):
    """A memory that is too large to be in every record that depends on it."""

    component: str
    digest: bytes
    at: int
    content: bytes


class LostRecord(msgspec.Struct, array_like=True, frozen=True, tag="l", gc=False):
    """Decisions that were made between two times and are not here, or not whole, because what keeps them did not keep
    up: a disk, or a server that was away for too long."""

    since: int
    until: int
    records: int
    details: int
    source: str = ""
    """The instance of the component that made them."""


class SampledRecord(msgspec.Struct, array_like=True, frozen=True, tag="s", gc=False):
    """Decisions that were made between two times and that a rule has left out (sampling.py). That is no loss."""

    since: int
    until: int
    rule: str
    component: str
    records: int

    def with_more(self, other: "SampledRecord") -> "SampledRecord":
        """Together with another one about the same rule and component."""
        since, until = min(self.since, other.since), max(self.until, other.until)
        return SampledRecord(since, until, self.rule, self.component, self.records + other.records)


Record = (
    DecisionRecord
    | WriteRecord
    | ChangeRecord
    | EntryRecord
    | ReachedRecord
    | MissedRecord
    | MemoryRecord
    | LostRecord
    | SampledRecord
)


def name_of_decision(decision: str) -> str:
    return f"decision {decision}"


def name_of_memory(digest: bytes) -> str:
    return f"memory {digest.hex()}"


def name_of_object(kind: str, namespace: str, name: str) -> str:
    return f"object {kind} {namespace}/{name}"


def name_of_component(component: str) -> str:
    return f"component {component}"


def name_of_kind(kind: str) -> str:
    return f"kind {kind}"


def name_of_uid(uid: str) -> str:
    return f"uid {uid}"


_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode


def compute_digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:16]


def action(
    verb: str, kind: str, namespace: str, name: str, *, subresource: str = "", body: bytes = b""
) -> RecordedAction:
    """An action for a record. `body` is what is to be written, always encoded the same way."""
    digest = compute_digest(body) if body and kind != "secrets" else b""
    return RecordedAction(verb, kind, namespace, name, subresource, digest)


def bounded(record: DecisionRecord) -> DecisionRecord:
    """The record with no list or text longer than it may be. What was cut off is counted where a count exists."""
    if (
        len(record.woken_by) <= WOKEN_BY_MAX
        and len(record.looked_at) <= LOOKED_AT_MAX
        and len(record.reasons) <= PARTS_MAX
        and len(record.conditions) <= PARTS_MAX
        and len(record.actions) <= PARTS_MAX
        and len(record.writes) <= PARTS_MAX
        and len(record.outcome.message) <= TEXT_LENGTH_MAX
        and (not record.reasons or max(map(len, record.reasons)) <= TEXT_LENGTH_MAX)
        and (not record.conditions or all(len(each.message) <= TEXT_LENGTH_MAX for each in record.conditions))
        and record.woken_count >= len(record.woken_by)
        and record.looked_at_count >= len(record.looked_at)
    ):
        return record
    replace = msgspec.structs.replace
    return replace(
        record,
        outcome=replace(record.outcome, message=_short(record.outcome.message)),
        woken_by=record.woken_by[-WOKEN_BY_MAX:],
        woken_count=max(record.woken_count, len(record.woken_by)),
        looked_at=record.looked_at[:LOOKED_AT_MAX],
        looked_at_count=max(record.looked_at_count, len(record.looked_at)),
        reasons=tuple(_short(reason) for reason in record.reasons[:PARTS_MAX]),
        conditions=tuple(replace(each, message=_short(each.message)) for each in record.conditions[:PARTS_MAX]),
        actions=record.actions[:PARTS_MAX],
        writes=record.writes[:PARTS_MAX],
    )


def without_detail(record: DecisionRecord) -> DecisionRecord:
    """What is kept of a decision when there is no room for all: what it was about, how it ended, what it wrote."""
    return msgspec.structs.replace(
        record,
        memory=RecordedMemory(record.memory.size, digest=record.memory.digest),
        looked_at=(),
        looked_at_count=max(record.looked_at_count, len(record.looked_at)),
        reasons=record.reasons[:1],
        conditions=(),
        actions=(),
        why_not=tuple(dict.fromkeys((*record.why_not, WhyNot.DETAIL_DROPPED))),
    )


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 1] + "…"


_records = msgspec.msgpack.Decoder(list[Record])
_raws = msgspec.msgpack.Decoder(list[msgspec.Raw])
_one = msgspec.msgpack.Decoder(Record)


class DecodedRecords(NamedTuple):
    records: Sequence[Record]
    unknown: int
    """Records that a newer version wrote, and that this one does not know."""


def decode(content: bytes, containing: Sequence[bytes] = ()) -> DecodedRecords:
    """The records of a frame, as `joined` made it. Raises `msgspec.MsgspecError` if it is none.

    With `containing`, only those that have each of these bytes somewhere.
    """
    if not containing:
        try:
            return DecodedRecords(_records.decode(content), 0)
        except msgspec.ValidationError:
            pass
    raws = _raws.decode(content)
    for wanted in containing:
        raws = [raw for raw in raws if wanted in bytes(raw)]
    known: list[Record] = []
    for raw in raws:
        try:
            known.append(_one.decode(raw))
        except msgspec.ValidationError:
            continue
    return DecodedRecords(known, len(raws) - len(known))


def joined(records: Sequence[bytes]) -> bytes:
    """Several encoded records as one content, for a frame."""
    return _encoder.encode([msgspec.Raw(record) for record in records])
