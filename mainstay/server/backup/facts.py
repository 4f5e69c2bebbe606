"""What is in a backup: counted while it is written, and checked object by object when it is verified."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from mainstay.env.disk import read_pieces
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.backup_format import BackupFile, BackupHead, BackupReader, BadBackup
from mainstay.store.errors import Corrupt
from mainstay.store.interface import Entry
from mainstay.store.sealer import read_key_id

PIECE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BackupFacts:
    head: BackupHead
    objects: int
    entries: int
    """Objects, and what the server keeps beside them."""
    file_bytes: int
    sha256: str
    files: int
    """Of the data directory, such as keys."""
    encryption_keys: tuple[str, ...] = ()
    """The ids of those that its sealed values need."""


class _Named(msgspec.Struct):
    name: str


class _StoredObject(msgspec.Struct):
    metadata: _Named


_decode_object = msgspec.json.Decoder(_StoredObject).decode


class BackupCounter:
    """Follows the bytes of a backup. With `decodes`, every object in it must be one."""

    def __init__(self, *, decodes: bool = False) -> None:
        self._reader = BackupReader()
        self._decodes = decodes
        self._encryption_keys: set[str] = set()
        self.objects = 0
        self.file_bytes = 0

    def feed(self, data: bytes) -> list[Entry | BackupFile]:
        """What has come with these bytes. Raises `BackupRefused`."""
        self.file_bytes += len(data)
        try:
            return self._feed(data)
        except (BadBackup, Corrupt) as error:
            raise BackupRefused(str(error)) from error

    def _feed(self, data: bytes) -> list[Entry | BackupFile]:
        found: list[Entry | BackupFile] = []
        for part in self._reader.feed(data):
            if isinstance(part, BackupFile):
                found.append(part)
                continue
            objects = [entry for entry in part if not entry.key.startswith(INTERNAL_PREFIX)]
            self.objects += len(objects)
            self._encryption_keys.update(filter(None, (read_key_id(entry.value) for entry in part)))
            if self._decodes:
                for fault in filter(None, map(find_object_fault, objects)):
                    raise BadBackup(f"{fault}; use another copy of the backup")
            found += part
        return found

    def finish(self) -> BackupFacts:
        """All bytes have come. Raises `BackupRefused` unless they are a whole backup."""
        reader = self._reader
        try:
            head = reader.finish()
        except BadBackup as error:
            raise BackupRefused(str(error)) from error
        keys = tuple(sorted(self._encryption_keys))
        return BackupFacts(head, self.objects, reader.entries, self.file_bytes, reader.sha256, reader.files, keys)


def read_backup(path: Path, counter: BackupCounter) -> Iterator[list[Entry | BackupFile]]:
    """What is in a backup file, part by part, never all at once. Raises `BackupRefused`, `OSError`. The caller asks the
    counter for the facts in the end; before that, nothing is known to be whole. Blocks."""
    for piece in read_pieces(path, PIECE_BYTES):
        yield counter.feed(piece)


def find_object_fault(entry: Entry) -> str:
    """What is wrong with a stored object, as far as its bytes tell. Empty: nothing."""
    if read_key_id(entry.value) is not None:
        return ""  # Sealed: only its key can tell.
    try:
        name = _decode_object(entry.value).metadata.name
    except msgspec.MsgspecError as error:
        return f"the object {entry.key} cannot be decoded: {error}"
    return "" if name == entry.key.rpartition("/")[2] else f"the object {entry.key} is named {name!r}"
