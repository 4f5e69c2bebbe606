"""The form of the journal's files, as bytes: what a segment being written looks like, and a closed one.

    <series>-<number>.open    magic, then a frame per append: records, as record.py joins them
    <series>-<number>.zst     closed: magic, frames of compressed blocks, and last a frame with the index
    <series>-<number>.index   a copy of that index, to be read without the rest
    <series>-<number>.names   hashes of the names in each block, to find an object or a decision quickly

Series are `history`, `decisions`, and `snapshot`, whose number is its revision. A block is some hundred records that
are compressed together, and the least that is read. The index says of each block what it covers, so that a reader takes
only what it needs, and can tell what is gone when a block is damaged. The last two files are only a help: without
them a reader looks into the closed segment itself.

An open segment may end in a torn frame. A closed one was complete when it got its name, so whatever is wrong with it
is damage, and is reported as such.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
import zstandard

from mainstay.env import frames
from mainstay.journal import name_hashes as naming
from mainstay.journal.record import LostRecord, MissedRecord, ReachedRecord, Record, SampledRecord, decode
from mainstay.journal.record_header import (
    ChangeGlance,
    DecisionGlance,
    EntryGlance,
    Glance,
    MemoryGlance,
    WriteGlance,
    glances,
    list_names,
)

MAGIC: Final = b"MAINSTAY JOURNAL 1\n"
FORMAT: Final = 1
BLOCK_BYTES: Final = 512 * 1024  # Before compression. Larger ones compress hardly better and cost more to read.
_BLOCK_BYTES_MAX: Final = 1 << 30  # More than any frame has: a damaged length must not ask for all memory.
_LEVEL: Final = 3

_BLOCK: Final = b"B"
_INDEX: Final = b"I"
_ARRAY_32: Final = b"\xdd"  # How msgpack begins an array with a length of four bytes.

_NAME: Final = re.compile(r"(history|decisions|snapshot)-(\d{12,18})\.(open|zst|index|names|new)")


class Series(StrEnum):
    HISTORY = "history"
    DECISIONS = "decisions"
    SNAPSHOT = "snapshot"


class Suffix(StrEnum):
    OPEN = "open"
    CLOSED = "zst"
    INDEX = "index"
    NAMES = "names"
    NEW = "new"


class FileName(NamedTuple):
    series: Series
    number: int
    suffix: Suffix

    def __str__(self) -> str:
        return f"{self.series}-{self.number:012}.{self.suffix}"


def parsed_name(name: str) -> FileName | None:
    """None if this is no file of a journal."""
    match = _NAME.fullmatch(name)
    return FileName(Series(match[1]), int(match[2]), Suffix(match[3])) if match else None


Interval = tuple[int, int]
"""After the first revision, up to and including the second."""


class BlockIndex(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a block has. Like records, only ever added to."""

    offset: int
    """Where its frame begins."""
    count: int
    first_at: int
    last_at: int
    """The earliest and the latest time in it: clocks may jump."""
    covers: tuple[Interval, ...]
    missed: tuple[Interval, ...]
    first_key: str = ""
    last_key: str = ""
    """Of a snapshot, which is in the order of its keys."""
    lost: tuple[LostRecord, ...] = ()
    sampled: tuple[SampledRecord, ...] = ()
    """What the block tells of decisions that are not there, so that readers need not read it for that. Those about the
    same rule and component are put together."""


class FileIndex(msgspec.Struct, array_like=True, frozen=True, gc=False):
    format: int
    series: str
    number: int
    bytes: int
    """What it takes on disk, about."""
    bytes_before: int
    """What it took before it was compressed."""
    blocks: tuple[BlockIndex, ...]
    damages: tuple[str, ...] = ()
    """What could not be read when it was closed, in words."""

    @property
    def first_at(self) -> int:
        return min((block.first_at for block in self.blocks), default=0)

    @property
    def last_at(self) -> int:
        return max((block.last_at for block in self.blocks), default=0)

    @property
    def covers(self) -> tuple[Interval, ...]:
        return merged(interval for block in self.blocks for interval in block.covers)

    @property
    def missed(self) -> tuple[Interval, ...]:
        return tuple(interval for block in self.blocks for interval in block.missed)


_encode = msgspec.msgpack.Encoder().encode
_decode_index = msgspec.msgpack.Decoder(FileIndex).decode
_decode_block = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same revisions in as few intervals as possible, in order."""
    result: list[Interval] = []
    for after, until in sorted(intervals):
        if result and after <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], until)
        else:
            result.append((after, until))
    return tuple(result)


class Content(NamedTuple):
    """One frame's records, as bytes, and as far as an index needs them."""

    data: bytes
    glances: Sequence[Glance]


class Builder:
    """Makes a closed file, block by block. What the methods return is to be appended to it, in order."""

    def __init__(self, series: Series, number: int, damages: tuple[str, ...] = ()) -> None:
        self._series = series
        self._number = number
        self._damages = damages
        self._pending: list[Content] = []
        self._pending_bytes = 0
        self._bytes_before = 0
        self._size = 0
        self._blocks: list[BlockIndex] = []
        self._hashes: list[set[int]] = []
        """Of the names in each block."""
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress

    def add(self, content: Content) -> bytes:
        self._pending.append(content)
        self._pending_bytes += len(content.data)
        return self._block() if self._pending_bytes >= BLOCK_BYTES else b""

    def finish(self) -> tuple[bytes, FileIndex, bytes]:
        """The rest of the file, its index, and the content of the file of names."""
        rest = self._block() if self._pending or not self._size else b""
        names = naming.packed(self._hashes)
        size = self._size + len(names)
        index = FileIndex(
            FORMAT, self._series, self._number, size, self._bytes_before, tuple(self._blocks), self._damages
        )
        return rest + frames.frame(_INDEX + _encode(index)), index, names

    def _block(self) -> bytes:
        start = MAGIC if not self._size else b""
        offset = self._size + len(start)
        joined = b"".join([_ARRAY_32, len(self._pending).to_bytes(4), *(content.data for content in self._pending)])
        data = start + frames.frame(_BLOCK + self._compress(joined))
        found = [glance for content in self._pending for glance in content.glances]
        self._blocks.append(described(found, offset))
        self._hashes.append(hash_names(found))
        self._size += len(data)
        self._bytes_before += self._pending_bytes
        self._pending.clear()
        self._pending_bytes = 0
        return data


def hash_names(found: Iterable[Glance]) -> set[int]:
    """Of all names of some records. Each name is hashed once."""
    return {naming.hashed(name) for name in {name for glance in found for name in list_names(glance)}}


def described(records: Sequence[Glance], offset: int) -> BlockIndex:
    """The index of a block with these records."""
    times: list[int] = []
    covers: list[Interval] = []
    missed: list[Interval] = []
    keys: list[str] = []
    lost: list[LostRecord] = []
    sampled: dict[tuple[str, str], SampledRecord] = {}
    for record in records:
        match record:
            case DecisionGlance(at=at) | WriteGlance(at=at) | ChangeGlance(at=at) | MemoryGlance(at=at):
                times.append(at)
            case ReachedRecord(after=after, revision=revision, at=at):
                times.append(at)
                covers.append((after, revision))
            case MissedRecord(after=after, revision=revision, at=at):
                times.append(at)
                missed.append((after, revision))
            case LostRecord(since=since, until=until):
                times += (since, until)
                lost.append(record)
            case SampledRecord(since=since, until=until, rule=rule, component=component):
                times += (since, until)
                before = sampled.get((rule, component))
                sampled[rule, component] = record if before is None else before.with_more(record)
            case EntryGlance(key=key):
                keys.append(key)
    return BlockIndex(
        offset,
        len(records),
        min(times, default=0),
        max(times, default=0),
        merged(covers),
        tuple(missed),
        min(keys, default=""),
        max(keys, default=""),
        tuple(lost),
        tuple(sampled.values()),
    )


class Frames(NamedTuple):
    """What can be read of an open segment."""

    contents: list[Content]
    damages: list[str]
    """What cannot, in words. A torn end is nothing to speak of."""
    end: int
    """Where the last whole frame ends."""


def read_frames(data: bytes, start: int = 0) -> Frames:
    """What can be read of an open segment, from its beginning or from where the last whole frame ended."""
    found = Frames([], [], start)
    if not data.startswith(MAGIC):
        if not MAGIC.startswith(data) and any(data):
            found.damages.append("not a segment of a journal")
        return found
    next_start: int | None = start or len(MAGIC)
    while next_start is not None:
        # Each turn but the last has passed over a damaged frame, so this ends.
        start = next_start
        start, next_start = _read_until_damage(data, start, found.contents, found.damages)
    return found._replace(end=start)


def _read_until_damage(data: bytes, start: int, contents: list[Content], damages: list[str]) -> tuple[int, int | None]:
    """Where the last whole frame ended, and where to go on; None: that was all."""
    try:
        for content, end in frames.read(data, start):
            start = end
            contents.append(Content(content, glances(content)))
    except frames.Damaged as error:
        damages.append(str(error))
        return start, error.resume
    except msgspec.MsgspecError as error:
        damages.append(f"cannot parse the frame before byte {start}: {error}")
        return start, start
    return start, None


class CorruptFile(Exception):
    """A part of a file is not what was written there."""


def read_block(data: bytes, block: BlockIndex, containing: Sequence[bytes] = ()) -> Sequence[Record]:
    """The records of one block of a closed file. Raises `CorruptFile`.

    With `containing`, at least those that have each of these bytes somewhere: the others need not be taken apart.
    """
    with _breaking():
        joined = _read_content(data, block)
        if any(each not in joined for each in containing):
            return []
        return [record for frame in _decode_block(joined) for record in decode(bytes(frame), containing).records]


def _read_content(data: bytes, block: BlockIndex) -> bytes:
    content, _ = next(frames.read(data, block.offset), (b"", 0))
    if not content.startswith(_BLOCK):
        raise CorruptFile(f"there is no block at byte {block.offset}")
    return zstandard.ZstdDecompressor().decompress(content[1:], max_output_size=_BLOCK_BYTES_MAX)


@contextlib.contextmanager
def _breaking() -> Iterator[None]:
    try:
        yield
    except (frames.Damaged, msgspec.MsgspecError, zstandard.ZstdError) as error:
        raise CorruptFile(str(error)) from error


def index_in(data: bytes) -> FileIndex:
    """The index at the end of a closed file. Raises `CorruptFile`."""
    start: int | None = len(MAGIC)
    if not data.startswith(MAGIC):
        raise CorruptFile("not a segment of a journal")
    last = b""
    while start is not None:
        try:
            for content, end in frames.read(data, start):
                last, start = content, end
            break
        except frames.Damaged as error:
            start = error.resume
    if not last.startswith(_INDEX):
        raise CorruptFile("truncated")
    return _index(last[1:])


def sidecar(content: bytes) -> bytes:
    """The content of an index file."""
    return MAGIC + frames.frame(content)


def names_file(content: bytes) -> bytes:
    return naming.MAGIC + frames.frame(content)


def index_file(index: FileIndex) -> bytes:
    return sidecar(_encode(index))


def read_index(data: bytes) -> FileIndex:
    """From the content of an index file. Raises `CorruptFile`."""
    return _index(_sidecar_content(data))


def read_names(data: bytes) -> naming.NameHashes:
    """From the content of a file of names. Raises `CorruptFile`."""
    is_first_format = not data.startswith(naming.MAGIC)
    content = _sidecar_content(data, len(MAGIC if is_first_format else naming.MAGIC))
    try:
        return naming.NameHashes(content, is_first_format=is_first_format)
    except ValueError as error:
        raise CorruptFile(str(error)) from error


def _sidecar_content(data: bytes, start: int = len(MAGIC)) -> bytes:
    try:
        for content, _ in frames.read(data, start):
            return content
    except frames.Damaged as error:
        raise CorruptFile(str(error)) from error
    raise CorruptFile("truncated")


def _index(content: bytes) -> FileIndex:
    try:
        return _decode_index(content)
    except msgspec.MsgspecError as error:
        raise CorruptFile(f"cannot parse its index: {error}") from error


def rebuilt_index(name: FileName, data: bytes) -> FileIndex:
    """The index of a closed file whose own is gone, from the blocks that can be read."""
    damages: list[str] = []
    blocks: list[BlockIndex] = []
    start: int | None = len(MAGIC) if data.startswith(MAGIC) else None
    while start is not None:
        begun = start
        try:
            for content, end in frames.read(data, begun):
                if content.startswith(_BLOCK):
                    at = BlockIndex(begun, 0, 0, 0, (), ())
                    with _breaking():
                        found = [
                            each for part in _decode_block(_read_content(data, at)) for each in glances(bytes(part))
                        ]
                    blocks.append(described(found, begun))
                begun = end
            break
        except frames.Damaged as error:
            damages.append(str(error))
            start = error.resume
        except CorruptFile as error:
            damages.append(str(error))
            break
    return FileIndex(FORMAT, name.series, name.number, len(data), 0, tuple(blocks), (*damages, "truncated"))
