"""What is restored of a backup. The rest is of no use in a store that goes on with other revisions.

    epochs       left out: a client that knows one has seen a past that need not be this one (storage/epochs.py)
    lineage      left out: it is about the history, which a backup does not have (storage/write_context.py)

Where entries get new revisions (etcd), also what refers to the old ones:

    operations   left out: a stored answer has the revision of its object (storage/operations.py)
    ledgers      reset: they know when they last changed, and by what (placement/ledger/history.py)
    servers      left out: those that ran over the old store (services/api_service.py)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.facts import BackupCounter, BackupFacts, read_backup
from mainstay.server.placement.ledger.history import NO_HISTORY
from mainstay.server.placement.ledger.ledger import LEDGERS, encode_ledger, ledger_in
from mainstay.server.services.api_service import SERVER_LEASES
from mainstay.server.storage.epochs import EPOCHS
from mainstay.server.storage.operations import OPERATIONS
from mainstay.server.storage.write_context import LINEAGE
from mainstay.store.backup_format import BackupFile
from mainstay.store.interface import Entry

_LEFT_OUT: Final = (EPOCHS, LINEAGE)
_LEFT_OUT_ELSEWHERE: Final = (*_LEFT_OUT, OPERATIONS, SERVER_LEASES)


@dataclass(frozen=True, slots=True)
class BackupContents:
    """All of a backup that is whole."""

    facts: BackupFacts
    entries: Sequence[Entry]
    files: Sequence[BackupFile]

    @classmethod
    def gather(cls, facts: BackupFacts, parts: Sequence[Entry | BackupFile]) -> "BackupContents":
        entries = [part for part in parts if isinstance(part, Entry)]
        return cls(facts, entries, [part for part in parts if isinstance(part, BackupFile)])


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done."""

    facts: BackupFacts
    revision: int
    """With which the store goes on."""
    moved: Sequence[Path] = ()
    """What was there before, and where it is now."""
    keys: str = ""
    """What became of the keys in the backup. Empty: it has none."""


def read_contents(path: Path) -> BackupContents:
    """Raises `BackupRefused`; then nothing of the file can be used. Blocks."""
    counter = BackupCounter(decodes=True)
    try:
        parts = [part for found in read_backup(path, counter) for part in found]
    except OSError as error:
        raise BackupRefused(f"cannot read {path}: {error.strerror or error}") from None
    return BackupContents.gather(counter.finish(), parts)


def select_entries(entries: Sequence[Entry]) -> list[Entry]:
    """What is restored with the revisions that it has."""
    return [entry for entry in entries if not entry.key.startswith(_LEFT_OUT)]


def select_values(entries: Sequence[Entry]) -> list[Entry]:
    """What is restored with new revisions: only keys and values count. In the order in which they were written."""
    chosen = [entry for entry in entries if not entry.key.startswith(_LEFT_OUT_ELSEWHERE)]
    return [_without_revisions(entry) for entry in sorted(chosen, key=lambda entry: (entry.revision, entry.key))]


def _without_revisions(entry: Entry) -> Entry:
    if not entry.key.startswith(LEDGERS):
        return entry
    return replace(entry, value=encode_ledger(replace(ledger_in(entry), history=NO_HISTORY)))
