"""The journal on the wire: what is asked of a server's pages, and what they answer. Both sides read it here.

    GET /journal/extent                                    how far it goes
    GET /journal/state?at=pods@918812&at=nodes@918790      objects of kinds, each as of a revision
    GET /journal/changes?kind=pods&namespace=a&name=web-1  and `decision`, `after`, `until`, `since`, `before`
    GET /journal/decisions?kind=…                          and `uid`, `component`, `since`, `before`, `limit`
    GET /journal/decision?id=…                             one, or none
    GET /journal/writes?kind=…                             who asked for revisions
    GET /journal/memory?digest=…                           what a decision depended on, if it was kept
    POST /journal/decisions                                records of decisions, from components

Times in a query are microseconds (record.py). An answer is msgpack, compressed with zstd if the client accepts that.
Its parts are arrays, and more may be added at their end; records are as on disk, so an older reader passes over what it
does not know.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import zstandard

from mainstay.api.object_key import ObjectKey
from mainstay.journal.answers import Changes, Decisions, Extent, StateAnswer, StoredVersion, WritesAnswer
from mainstay.journal.coverage import Gap
from mainstay.journal.files import Interval
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    LostRecord,
    Record,
    SampledRecord,
    WriteRecord,
    decode,
    encode,
    micros,
    moment,
)
from mainstay.journal.scan import Damage

PATH: Final = "/journal/"
RECORDS: Final = "application/vnd.mainstay.records"
"""The content type of records, both ways."""
COMPRESSED: Final = f"{RECORDS}+zstd"
"""The same, compressed. By its type and not as an encoding, of which many a client and proxy has its own idea."""
OFF: Final = "JournalOff"
"""The reason of the answer of a server that keeps no journal."""
INCOMPLETE: Final = "JournalIncomplete"
"""The reason of the answer of a server that would have to ask another one, which does not answer."""

_COMPRESSED_FROM: Final = 1024  # Bytes. Less is not worth it.
_PLAIN_BYTES_MAX: Final = 1024 * 1024 * 1024  # Of an answer that was compressed.

_TEXTS: Final = ("kind", "name", "uid", "component", "decision")
_NUMBERS: Final = ("after", "until", "limit")
_TIMES: Final = ("since", "before")
_OBJECT: Final = ("kind", "namespace", "name", *_TIMES)
_ASKED: Final = {
    "changes": frozenset({*_OBJECT, "decision", "after", "until"}),
    "decisions": frozenset({*_OBJECT, "uid", "component", "limit"}),
    "writes": frozenset({*_OBJECT, "after", "until", "limit"}),
}
"""What can be said of what is wanted, by page."""

Pairs = list[tuple[str, str]]


class BadPage(ValueError):
    """What was asked, or what came back, makes no sense. The message says what."""


# What is asked.


def build_query(wanted: Mapping[str, Any]) -> Pairs:
    """What `Journal.changes`, `decisions` and `writes` are called with, as a query."""
    pairs: Pairs = []
    for name, value in wanted.items():
        if value is None or (name in _TEXTS and value == ""):
            continue
        pairs.append((name, str(micros(value)) if isinstance(value, datetime) else str(value)))
    return pairs


def wanted_in(page: str, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The way back, for one of these pages. Raises `BadPage`."""
    wanted: dict[str, Any] = {}
    for name, value in pairs:
        if name not in _ASKED[page]:
            raise BadPage(f"{page} does not support the parameter {name!r}, only {', '.join(sorted(_ASKED[page]))}")
        if name in _TEXTS or name == "namespace":
            wanted[name] = value
        elif name in _NUMBERS:
            wanted[name] = _number(name, value)
        else:
            wanted[name] = moment(_number(name, value))
    return wanted


def vector_query(vector: Mapping[str, int]) -> Pairs:
    return [("at", f"{kind}@{revision}") for kind, revision in vector.items()]


def vector_in(values: Iterable[str]) -> dict[str, int]:
    """The way back. Raises `BadPage`."""
    vector: dict[str, int] = {}
    for value in values:
        kind, _, revision = value.rpartition("@")
        if not kind:
            raise BadPage(f"{value!r} must be KIND@REVISION, for example pods@918812")
        vector[kind] = _number("at", revision)
    return vector


def digest_in(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadPage(f"{text!r} is not a digest") from None


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise BadPage(f"{name} must be an integer, not {value!r}")
    return int(value)


# What is answered.


class _Extent(msgspec.Struct, array_like=True, frozen=True):
    gaps: tuple[Gap, ...]
    damages: tuple[Damage, ...]
    recorded: tuple[Interval, ...]
    first_at: int
    last_at: int


class _Objects(msgspec.Struct, array_like=True, frozen=True):
    kind: str
    objects: Sequence[tuple[str, str, int, bytes]]
    """Namespace, name, revision, and the object as the store had it."""


class _State(msgspec.Struct, array_like=True, frozen=True):
    gaps: tuple[Gap, ...]
    damages: tuple[Damage, ...]
    based_on: int
    kinds: Sequence[_Objects]


class _Records(msgspec.Struct, array_like=True, frozen=True):
    gaps: tuple[Gap, ...]
    damages: tuple[Damage, ...]
    records: msgspec.Raw


class _Memory(msgspec.Struct, array_like=True, frozen=True):
    content: bytes | None


_extent = msgspec.msgpack.Decoder(_Extent).decode
_state = msgspec.msgpack.Decoder(_State).decode
_page = msgspec.msgpack.Decoder(_Records).decode
_memory = msgspec.msgpack.Decoder(_Memory).decode
_encode = msgspec.msgpack.Encoder().encode


def extent_page(extent: Extent) -> bytes:
    return _encode(_Extent(extent.gaps, extent.damages, extent.recorded, extent.first_at, extent.last_at))


def extent_in(page: bytes) -> Extent:
    found = _extent(page)
    return Extent(found.gaps, found.damages, found.recorded, found.first_at, found.last_at)


def state_page(state: StateAnswer) -> bytes:
    kinds = [
        _Objects(kind, [(key.namespace, key.name, stored.revision, stored.value) for key, stored in objects.items()])
        for kind, objects in state.kinds.items()
    ]
    return _encode(_State(state.gaps, state.damages, state.based_on, kinds))


def state_in(page: bytes) -> StateAnswer:
    found = _state(page)
    kinds = {
        each.kind: {
            ObjectKey(namespace, name): StoredVersion(revision, value)
            for namespace, name, revision, value in each.objects
        }
        for each in found.kinds
    }
    return StateAnswer(found.gaps, found.damages, kinds, found.based_on)


def changes_page(changes: Changes) -> bytes:
    return _records_page(changes.gaps, changes.damages, changes.records)


def changes_in(page: bytes) -> Changes:
    gaps, damages, records = _records_in(page)
    return Changes(gaps, damages, tuple(each for each in records if isinstance(each, ChangeRecord)))


def decisions_page(decisions: Decisions) -> bytes:
    return _records_page(decisions.gaps, decisions.damages, (*decisions.lost, *decisions.left_out, *decisions.records))


def decisions_in(page: bytes) -> Decisions:
    gaps, damages, records = _records_in(page)
    return Decisions(
        gaps,
        damages,
        tuple(each for each in records if isinstance(each, DecisionRecord)),
        tuple(each for each in records if isinstance(each, LostRecord)),
        tuple(each for each in records if isinstance(each, SampledRecord)),
    )


def decision_page(record: DecisionRecord | None) -> bytes:
    return _records_page((), (), () if record is None else (record,))


def decision_in(page: bytes) -> DecisionRecord | None:
    return next(iter(decisions_in(page).records), None)


def writes_page(writes: WritesAnswer) -> bytes:
    return _records_page(writes.gaps, writes.damages, writes.records)


def writes_in(page: bytes) -> WritesAnswer:
    gaps, damages, records = _records_in(page)
    return WritesAnswer(gaps, damages, tuple(each for each in records if isinstance(each, WriteRecord)))


def memory_page(content: bytes | None) -> bytes:
    return _encode(_Memory(content))


def memory_in(page: bytes) -> bytes | None:
    return _memory(page).content


def _records_page(gaps: tuple[Gap, ...], damages: tuple[Damage, ...], records: Sequence[Record]) -> bytes:
    return _encode(_Records(gaps, damages, msgspec.Raw(encode(records))))


def _records_in(page: bytes) -> tuple[tuple[Gap, ...], tuple[Damage, ...], Sequence[Record]]:
    found = _page(page)
    return found.gaps, found.damages, decode(bytes(found.records)).records


# On the way.


def compressed(page: bytes, accept: str | None) -> tuple[bytes, str]:
    """The page in a form that the other side accepts, and its content type."""
    if len(page) < _COMPRESSED_FROM or COMPRESSED not in (accept or ""):
        return page, RECORDS
    return zstandard.ZstdCompressor(level=1).compress(page), COMPRESSED


def plain(content: bytes, content_type: str, bytes_max: int = _PLAIN_BYTES_MAX) -> bytes:
    """The way back. Raises `BadPage`."""
    media = content_type.partition(";")[0].strip()
    if media not in (RECORDS, COMPRESSED):
        raise BadPage(f"it is {media or 'of no type'}, and not {RECORDS}")
    if media == RECORDS:
        if len(content) > bytes_max:
            raise BadPage(f"it is larger than {bytes_max} bytes")
        return content
    try:
        # The size comes first: a body that is too large is refused before memory is allocated for it.
        if zstandard.frame_content_size(content) > bytes_max:
            raise BadPage(f"it is larger than {bytes_max} bytes")
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=bytes_max)
    except zstandard.ZstdError as error:
        raise BadPage(f"cannot decompress it: {error}") from None
