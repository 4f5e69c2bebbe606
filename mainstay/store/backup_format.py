"""The backup file: all entries of a store at one revision, the same whichever store they come from.

    magic    "MAINSTAY BACKUP 1\\n": the number is the format
    head     revision, time, build, cluster; which keys sealed values need
    entries  up to about a megabyte of entries, in the order of their keys, compressed         many frames
    file     a file of the data directory, such as the key of the authority                    only if asked for
    end      how many entries and bytes there were, and a SHA-256 of all that comes before

Frames have checksums (env/frames.py), so that damage is found where it is; the digest at the end covers the whole, and
a file without its end is truncated. A reader accepts a file only as a whole: `BackupReader.finish`. A format is never
changed: a later one gets a number of its own, and the readers of earlier ones stay.

Pure: bytes in, values out. Who reads a store into a backup is server/backup/export.py, who fills a store from one are
server/backup/directory_restore.py and etcd_restore.py.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import zstandard

from mainstay.env import frames
from mainstay.store.errors import StoreError
from mainstay.store.interface import Entry

FORMAT: Final = 1
CHUNK_BYTES: Final = 1024 * 1024  # Of keys and values, before compression.
_NAME: Final = b"MAINSTAY BACKUP "
_MAGIC_BYTES_MAX: Final = 32
_FRAME_BYTES_MAX: Final = 64 * 1024 * 1024  # More than a chunk and the largest value, whatever they compress to.
_LEVEL: Final = 3
_HEAD, _ENTRIES, _FILE, _END = b"H", b"D", b"F", b"E"


class BadBackup(StoreError):
    """The file is no backup, damaged, truncated, or of a newer Mainstay. Nothing was changed; use another copy."""


class BackupHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of. Fields are only ever added."""

    revision: int
    made_at: str
    """RFC 3339, by the clock of the server that made it."""
    build: str
    """Of that server."""
    cluster: str = ""
    """The uid of the namespace kube-system: how clusters are told apart."""
    store: str = ""
    """What it was made from: sqlite, etcd, memory."""
    keys: tuple[str, ...] = ()
    """The ids of the keys that its sealed values need. Empty: no value is sealed."""


class BackupEnd(msgspec.Struct, frozen=True, array_like=True):
    entries: int
    value_bytes: int
    files: int
    digest: bytes
    """SHA-256 of all bytes before the frame of the end."""


class BackupFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the data directory."""

    name: str
    content: bytes


class _StoredEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    key: str
    created: int
    revision: int
    version: int
    value: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(BackupHead).decode
_decode_entries = msgspec.msgpack.Decoder(list[_StoredEntry]).decode
_decode_file = msgspec.msgpack.Decoder(BackupFile).decode
_decode_end = msgspec.msgpack.Decoder(BackupEnd).decode


class BackupWriter:
    """Makes the bytes of a backup, part by part: `begin`, then `add_entries` and `add_file`, then `finish`."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._digest = hashlib.sha256()
        self._entries = 0
        self._value_bytes = 0
        self._files = 0

    def begin(self, head: BackupHead) -> bytes:
        return self._note(_NAME + b"%d\n" % FORMAT + frames.frame(_HEAD + _encode(head)))

    def add_entries(self, entries: Sequence[Entry]) -> bytes:
        """A chunk of them (`chunks`). Their order is that of the whole backup."""
        self._entries += len(entries)
        self._value_bytes += sum(len(entry.value) for entry in entries)
        stored = [_StoredEntry(each.key, each.created, each.revision, each.version, each.value) for each in entries]
        return self._note(frames.frame(_ENTRIES + self._compressor.compress(_encode(stored))))

    def add_file(self, file: BackupFile) -> bytes:
        self._files += 1
        return self._note(frames.frame(_FILE + _encode(file)))

    def finish(self) -> bytes:
        end = BackupEnd(self._entries, self._value_bytes, self._files, self._digest.digest())
        return frames.frame(_END + _encode(end))

    def _note(self, data: bytes) -> bytes:
        self._digest.update(data)
        return data


def chunks(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Entries in parts that are worth a frame each."""
    start = size = 0
    for index, entry in enumerate(entries):
        size += len(entry.key) + len(entry.value)
        if size >= CHUNK_BYTES:
            yield entries[start : index + 1]
            start, size = index + 1, 0
    if start < len(entries):
        yield entries[start:]


class BackupReader:
    """Reads a backup as its bytes come. `head` is set once that has come; nothing counts before `finish`."""

    def __init__(self) -> None:
        self.head: BackupHead | None = None
        self.entries = 0
        self.value_bytes = 0
        self.files = 0
        self._whole = hashlib.sha256()
        """Of all bytes, as sha256sum would tell."""
        self._digest = hashlib.sha256()
        self._magic = b""
        self._frames: frames.FrameReader | None = None
        self._end: BackupEnd | None = None
        self._last_key = ""
        self._decompressor = zstandard.ZstdDecompressor()

    @property
    def sha256(self) -> str:
        """Of all that was read."""
        return self._whole.hexdigest()

    def feed(self, data: bytes) -> Iterator[list[Entry] | BackupFile]:
        """The entries and files that have come with these bytes. Raises `BadBackup`."""
        self._whole.update(data)
        try:
            if self._frames is None:
                data = self._read_magic(data)
            if self._frames is not None:
                for whole, content in self._frames.feed(data):
                    yield from self._read(whole, content)
        except (frames.Damaged, msgspec.MsgspecError, zstandard.ZstdError) as error:
            raise BadBackup(f"the backup is damaged ({error}): use another copy") from error

    def finish(self) -> BackupHead:
        """All bytes have come. Raises `BadBackup` unless the backup is whole."""
        if self.head is None or self._end is None or self._frames is None or self._frames.unread:
            raise BadBackup("the backup is truncated, its end is missing: use another copy")
        return self.head

    def _read_magic(self, data: bytes) -> bytes:
        """Returns what comes after it."""
        self._magic += data
        line, found, rest = self._magic.partition(b"\n")
        if not found and len(self._magic) < _MAGIC_BYTES_MAX and (_NAME.startswith(line) or line.startswith(_NAME)):
            return b""  # More of it is to come.
        number = line.removeprefix(_NAME)
        if not found or not line.startswith(_NAME) or not number.isdigit():
            raise BadBackup("the file is not a Mainstay backup")
        if int(number) > FORMAT:
            raise BadBackup(
                f"written by a newer Mainstay (backup format {int(number)}): this one reads up to format {FORMAT};"
                " restore it with that release"
            )
        self._digest.update(line + b"\n")
        self._frames = frames.FrameReader(_FRAME_BYTES_MAX, len(line) + 1)
        return rest

    def _read(self, whole: bytes, content: bytes) -> Iterator[list[Entry] | BackupFile]:
        kind, body = content[:1], content[1:]
        if self._end is not None:
            raise BadBackup("the backup is damaged (there is more after its end): use another copy")
        if (self.head is None) != (kind == _HEAD):
            raise BadBackup("the backup is damaged (its head is not where it belongs): use another copy")
        if kind == _END:
            self._end = _decode_end(body)
            self._require_end(self._end)
            return
        self._digest.update(whole)
        match kind:
            case b"H":
                self.head = _decode_head(body)
            case b"D":
                plain = self._decompressor.decompress(body, max_output_size=_FRAME_BYTES_MAX)
                yield self._note_entries(_decode_entries(plain))
            case b"F":
                self.files += 1
                yield _decode_file(body)
            case _:
                raise BadBackup(f"the backup is damaged (a part of unknown kind {kind!r}): use another copy")

    def _note_entries(self, stored: Sequence[_StoredEntry]) -> list[Entry]:
        for each in stored:
            if each.key <= self._last_key or not 0 < each.created <= each.revision or each.version < 1:
                raise BadBackup(f"the backup is damaged (the entry {each.key!r} is out of order): use another copy")
            self._last_key = each.key
        self.entries += len(stored)
        self.value_bytes += sum(len(each.value) for each in stored)
        return [Entry(each.key, each.value, each.created, each.revision, each.version) for each in stored]

    def _require_end(self, end: BackupEnd) -> None:
        if end.digest != self._digest.digest():
            raise BadBackup("the backup is damaged (it does not match its SHA-256): use another copy")
        if (end.entries, end.value_bytes, end.files) != (self.entries, self.value_bytes, self.files):
            raise BadBackup("the backup is damaged (its parts do not add up): use another copy")
