"""Records as far as an index needs them: what they are about and when, without the rest, which is passed over.

To close a segment each of its records has to be looked at, in the process that serves the API. Taken apart whole, that
would cost several times as much. The fields are the first ones of the records of the same tags (record.py).
"""

from collections.abc import Sequence

import msgspec

from mainstay.journal.keys import parse_kind, parse_object_key
from mainstay.journal.record import (
    LostRecord,
    MissedRecord,
    ReachedRecord,
    SampledRecord,
    Subject,
    name_of_component,
    name_of_decision,
    name_of_kind,
    name_of_memory,
    name_of_object,
    name_of_uid,
)


class DecisionGlance(msgspec.Struct, array_like=True, frozen=True, tag="d", gc=False):
    id: str
    at: int
    component: str
    build: msgspec.Raw
    subject: Subject


class ChangeGlance(msgspec.Struct, array_like=True, frozen=True, tag="c", gc=False):
    revision: int
    key: str
    value: msgspec.Raw
    at: int
    decision: str = ""


class WriteGlance(msgspec.Struct, array_like=True, frozen=True, tag="w", gc=False):
    revision: int
    kind: str
    namespace: str
    name: str
    at: int


class EntryGlance(msgspec.Struct, array_like=True, frozen=True, tag="e", gc=False):
    key: str


class MemoryGlance(msgspec.Struct, array_like=True, frozen=True, tag="m", gc=False):
    component: str
    digest: bytes
    at: int


Glance = (
    DecisionGlance
    | ChangeGlance
    | WriteGlance
    | EntryGlance
    | MemoryGlance
    | ReachedRecord
    | MissedRecord
    | LostRecord
    | SampledRecord
)

_all = msgspec.msgpack.Decoder(list[Glance])
_raws = msgspec.msgpack.Decoder(list[msgspec.Raw])
_one = msgspec.msgpack.Decoder(Glance)


def glances(content: bytes) -> Sequence[Glance]:
    """Those at the records of a frame, as `record.joined` made it. Raises `msgspec.MsgspecError` if it is none."""
    try:
        return _all.decode(content)
    except msgspec.ValidationError:
        pass
    known: list[Glance] = []
    for raw in _raws.decode(content):
        try:
            known.append(_one.decode(raw))
        except msgspec.ValidationError:
            continue  # Of a later version.
    return known


def list_names(glance: Glance) -> tuple[str, ...]:
    """What a record can be found by, in an index."""
    match glance:
        case DecisionGlance(id=decision, subject=subject, component=component):
            return (
                name_of_decision(decision),
                name_of_object(subject.kind, subject.namespace, subject.name),
                name_of_uid(subject.uid),
                name_of_component(component),
                name_of_kind(subject.kind),
            )
        case ChangeGlance(key=key, decision=decision):
            where = parse_object_key(key)
            name = name_of_object(parse_kind(key), where.namespace, where.name)
            return (name, name_of_decision(decision)) if decision else (name,)
        case WriteGlance(kind=kind, namespace=namespace, name=name):
            return (name_of_object(kind, namespace, name),)
        case MemoryGlance(digest=digest):
            return (name_of_memory(digest),)
        case _:
            return ()
