"""A decision's record as an object of kind Decision, in the form in which the store would have it. Plain functions."""

from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kinds import BUILTIN
from mainstay.api.kinds.decisions import DECISION, NAMESPACE
from mainstay.api.times import format_micro_time, format_time
from mainstay.journal.record import DecisionRecord, Subject, moment
from mainstay.journal.trace_id import derive_trace_id
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.stored import stored
from mainstay.store.interface import Entry

KIND_BY_TEXT: Final = {kind.reference.text: kind.kind for kind in BUILTIN}
TEXTS_BY_KIND: Final[dict[str, tuple[str, ...]]] = {}
for _text, _kind in KIND_BY_TEXT.items():
    TEXTS_BY_KIND[_kind] = (*TEXTS_BY_KIND.get(_kind, ()), _text)


def find_namespace(record: DecisionRecord) -> str:
    """The namespace that the object is in."""
    return record.subject.namespace or NAMESPACE


def rendered(record: DecisionRecord, revision: int) -> Entry:
    """The object as an entry at a revision."""
    key = build_key(DECISION, find_namespace(record), record.id)
    return Entry(key, stored(build_object(record)), revision, revision, 1)


def build_object(record: DecisionRecord) -> Object:
    """The object. What a record does not say is left out."""
    outcome, memory = record.outcome, record.memory
    trace = record.trace or derive_trace_id(record.id)
    found: Object = {
        "metadata": {
            "name": record.id,
            "namespace": find_namespace(record),
            "uid": _as_uid(derive_trace_id(record.id)),
            "creationTimestamp": format_time(moment(record.at)),
        },
        "at": format_micro_time(moment(record.at)),
        "component": record.component,
        "build": record.build,
        "subject": _subject(record.subject),
        "outcome": str(outcome.ending),
        "reason": outcome.reason,
        "message": outcome.message,
        "wakeAt": format_micro_time(moment(outcome.wake_at)) if outcome.wake_at else "",
        "user": record.user,
        "parentDecision": record.parent,
        "attempts": record.attempts,
        "term": record.term,
        "now": format_micro_time(moment(record.now)) if record.now else "",
        "view": _parts(record.view),
        "seed": record.seed,
        "flags": list(record.flags),
        "policies": _parts(record.policies),
        "shadows": _parts(record.shadows),
        "memory": {"bytes": memory.size, "digest": memory.digest.hex()} if memory.size else {},
        "queueWaitMicroseconds": record.queue_wait_us,
        "wokenBy": list(record.woken_by),
        "wokenCount": record.woken_count,
        "lookedAt": _parts(record.looked_at),
        "lookedAtCount": record.looked_at_count,
        "reasons": list(record.reasons),
        "conditions": _parts(record.conditions),
        "actions": _parts(record.actions),
        "writes": _parts(record.writes),
        "traceID": trace,
        "auditIDs": list(record.audits),
        "whyNotReplayable": list(record.why_not),
        "kept": record.kept,
        "priority": record.priority,
        "priorityClassName": record.priority_class,
        "isRollingOut": record.is_rolling_out,
    }
    return {name: value for name, value in found.items() if value not in ("", 0, [], {}, False)}


def _subject(subject: Subject) -> Object:
    found: Object = {
        "kind": KIND_BY_TEXT.get(subject.kind, subject.kind),
        "resource": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "generation": subject.generation,
    }
    return {name: value for name, value in found.items() if value not in ("", 0)}


def _parts(parts: tuple[msgspec.Struct, ...]) -> list[Object]:
    """Parts of a record with the names of their fields, as JSON has them."""
    return [
        {
            _camel(name): value.hex() if isinstance(value, bytes) else value
            for name in each.__struct_fields__
            if (value := getattr(each, name)) not in ("", 0, b"", False)
        }
        for each in parts
    ]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


def _as_uid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
