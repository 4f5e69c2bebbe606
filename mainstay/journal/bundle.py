"""A bundle: what happened in some minutes of a cluster, in one file that opens anywhere.

    MAINSTAY BUNDLE 1
    frame  head: what it is of, from when to when, what is not in it      plain msgpack
    frame  records, as record.py joins them, compressed                   many
    frame  end: how many records there are of each sort                   plain msgpack

It begins with the state of the cluster, and has every change after that, who asked for them, the decisions with the
memories they depended on, and so all that `why`, `timeline` and `replay` need. The state is taken early enough for the
oldest view of any decision in it. Records are only ever added to, so bundles are read across versions as journals are.

`gathered` (bundle_contents.py) asks any journal for it, `write_bundle` makes the bytes, `open_bundle` a journal of them
again. Values of Secrets were never in the journal; whatever else a reader's rights leave out is not in the bundle
either. A bundle is opened whole or not at all: one that was cut off or damaged says so and gives nothing, because half
of a story misleads.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import zstandard

from mainstay.env import frames
from mainstay.journal.coverage import Gap, GapReason
from mainstay.journal.errors import JournalError
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    EntryRecord,
    LostRecord,
    MemoryRecord,
    Record,
    SampledRecord,
    WriteRecord,
    decode,
    encode,
    joined,
)

MAGIC: Final = b"MAINSTAY BUNDLE 1\n"
_ANY_MAGIC: Final = b"MAINSTAY BUNDLE "
SECRETS_MASKED: Final = "values of Secrets"

_HEAD: Final = b"H"
_RECORDS: Final = b"R"
_END: Final = b"E"
_FRAME_BYTES: Final = 1024 * 1024  # Before compression.
_FRAME_BYTES_MAX: Final = 1 << 30  # A damaged length must not ask for all memory.
_LEVEL: Final = 9


class BadBundle(JournalError):
    """This is no bundle, or not all of one. Says what is wrong with it, and what to do."""


class Head(msgspec.Struct, array_like=True, frozen=True):
    """What a bundle is of. Like records, only ever added to."""

    format: int
    build: str
    """Of the process that made the bundle. The decisions have their own."""
    cluster: str
    """The uid of the namespace kube-system; empty if that was not to be seen."""
    begins: int
    """The revision of the state; every change after it is there."""
    ends: int
    since: int
    until: int
    """What was asked for, in microseconds. Some of what came before is there as well: see `begins`."""
    made_at: int
    about: tuple[str, ...] = ()
    """The objects it was made for, as in `deployments.apps default/web`. Empty: all decisions are in it."""
    redactions: tuple[str, ...] = ()
    """What was left out on purpose, in words."""
    gaps: tuple[tuple[int, int, str], ...] = ()
    """Revisions that the journal did not have itself: after one, up to another, and why."""


class BundleCounts(msgspec.Struct, array_like=True, frozen=True):
    """How many records there are of each sort."""

    objects: int = 0
    changes: int = 0
    decisions: int = 0
    writes: int = 0
    memories: int = 0
    notes: int = 0
    """Of what was lost, or left out by rules."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into a bundle."""

    head: Head
    records: Sequence[Record]

    @property
    def counts(self) -> BundleCounts:
        return _counted(self.records)


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened one."""

    head: Head
    counts: BundleCounts
    journal: MemoryJournal


def packed(contents: Contents) -> Iterator[bytes]:
    """The bytes of a bundle, piece by piece."""
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress
    yield MAGIC + frames.frame(_HEAD + encode(contents.head))
    waiting: list[bytes] = []
    size = 0
    for record in contents.records:
        waiting.append(encode(record))
        size += len(waiting[-1])
        if size >= _FRAME_BYTES:
            yield frames.frame(_RECORDS + compress(joined(waiting)))
            waiting, size = [], 0
    if waiting:
        yield frames.frame(_RECORDS + compress(joined(waiting)))
    yield frames.frame(_END + encode(contents.counts))


def write_bundle(contents: Contents, write: Callable[[bytes], object]) -> int:
    """Pass a bundle to a writer. Returns how many bytes it has."""
    size = 0
    for piece in packed(contents):
        write(piece)
        size += len(piece)
    return size


def open_bundle(data: bytes) -> Bundle:
    """The journal in a bundle. Raises `BadBundle`."""
    if not data.startswith(MAGIC):
        raise BadBundle(_no_bundle(data))
    head: Head | None = None
    end: BundleCounts | None = None
    records: list[Record] = []
    unknown = 0
    decompressor = zstandard.ZstdDecompressor()
    try:
        for content, _ in frames.read(data, len(MAGIC)):
            body = content[1:]
            match content[:1]:
                case b"H":
                    head = msgspec.msgpack.decode(body, type=Head)
                case b"R":
                    decoded = decode(decompressor.decompress(body, max_output_size=_FRAME_BYTES_MAX))
                    records += decoded.records
                    unknown += decoded.unknown
                case b"E":
                    end = msgspec.msgpack.decode(body, type=BundleCounts)
                case _:
                    continue  # Of a later version.
    except (frames.Damaged, msgspec.MsgspecError, zstandard.ZstdError) as error:
        raise BadBundle(f"the bundle is damaged ({error}); copy it again") from error
    if head is None or end is None:
        raise BadBundle(f"the bundle is truncated after {len(data)} bytes; copy it again")
    counts = _counted(records)
    if counts != end and not unknown:
        raise BadBundle(f"the bundle has {counts} records, not {end}; create it again")
    return Bundle(head, counts, _journal(head, records))


def build_journal(contents: Contents) -> MemoryJournal:
    """The journal that a bundle of this would have."""
    return _journal(contents.head, contents.records)


def _no_bundle(data: bytes) -> str:
    if data.startswith(_ANY_MAGIC):
        return "the bundle was made by a newer version of mainstay; open it with that version"
    if not data:
        return "the bundle is empty; check that `mainstay record` succeeded"
    return "not a bundle; create one with `mainstay record --since 10m > FILE`"


def _journal(head: Head, records: Iterable[Record]) -> MemoryJournal:
    gaps = [Gap(after, until, GapReason(reason)) for after, until, reason in head.gaps if reason in set(GapReason)]
    entries = (record for record in records if isinstance(record, EntryRecord))
    journal = MemoryJournal(head.begins, entries, gaps)
    for record in records:
        match record:
            case ChangeRecord():
                journal.change(record)
            case DecisionRecord():
                journal.decided(record)
            case WriteRecord():
                journal.wrote(record)
            case MemoryRecord():
                journal.remember(record)
            case LostRecord():
                journal.lost.append(record)
            case SampledRecord():
                journal.left_out.append(record)
    journal.reached(head.ends)
    return journal


def _counted(records: Iterable[Record]) -> BundleCounts:
    found: dict[type, int] = {}
    for record in records:
        found[type(record)] = found.get(type(record), 0) + 1
    return BundleCounts(
        found.get(EntryRecord, 0),
        found.get(ChangeRecord, 0),
        found.get(DecisionRecord, 0),
        found.get(WriteRecord, 0),
        found.get(MemoryRecord, 0),
        found.get(LostRecord, 0) + found.get(SampledRecord, 0),
    )
