"""Read every record of a running server's store again, and compare it with what the server serves.

    SQLite   each row is read from the file, between the writes of others; its checksum is compared with the one that
             the server knows, and its entries with those in memory. Every entry in memory must be in some row
    etcd     every entry is read by quorum, at one revision. A value that cannot be unsealed is a fault
    memory   has no file: only that each object can be decoded is checked

In each of them every object must decode, and be the one that its key names. The store goes on meanwhile; a slice takes
a few milliseconds. Not found: damage to pages that SQLite has in its own cache (2 MB), until it reads them again.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mainstay.env import tasks
from mainstay.server.backup.export import find_sealer
from mainstay.server.backup.facts import find_object_fault
from mainstay.server.storage.key_rotation import find_finished_key
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.errors import StoreError
from mainstay.store.interface import Entry, Store
from mainstay.store.local import LocalStore
from mainstay.store.sealer import KeyRing

PAGE_ENTRIES: Final = 1000
FAULTS_MAX: Final = 100
"""A report has no more: the first ones say what is wrong."""


@dataclass(slots=True)
class StoreReport:
    """What was read, so far or in all."""

    revision: int = 0
    """The latest one when it began."""
    records: int = 0
    """Rows of a log, or keys of etcd."""
    expected: int = 0
    """How many there are to read."""
    objects: int = 0
    """Versions of objects: a log also has some of the past."""
    faults: list[str] = field(default_factory=list)
    encryption_key: str = ""
    """The id of the key that seals values of Secrets. Empty: they are not sealed."""
    is_rotated: bool = False
    """No record needs another key, in the history neither."""
    stale: dict[str, int] = field(default_factory=dict)
    """How many values are not sealed with it yet, by the id of what they need instead; `none`: they are plain."""

    def add_faults(self, faults: Sequence[str]) -> None:
        self.faults += faults[: FAULTS_MAX - len(self.faults)]


class _Line(msgspec.Struct):
    report: StoreReport
    is_last: bool


_decode_line = msgspec.json.Decoder(_Line).decode


def encode_report(report: StoreReport, *, is_last: bool) -> bytes:
    """A line of the page."""
    return msgspec.json.encode(_Line(report, is_last)) + b"\n"


def decode_report(line: bytes) -> tuple[StoreReport, bool]:
    """The report, and whether it is the last one. Raises `ValueError`."""
    found = _decode_line(line)
    return found.report, found.is_last


async def verify_store(store: Store, worker: tasks.Worker) -> AsyncGenerator[StoreReport, None]:
    """The same report again and again, as it grows; the last one is the result. Raises `StoreError`."""
    report = StoreReport(revision=await store.revision())
    sealer = find_sealer(store)
    parts = _verify_local(store, report) if isinstance(store, LocalStore) else _verify_shared(store, report)
    async for entries in parts:
        report.objects += sum(not entry.key.startswith(INTERNAL_PREFIX) for entry in entries)
        report.add_faults(await worker.run(_find_object_faults, entries))
        if isinstance(sealer, KeyRing):
            report.encryption_key, report.stale = sealer.key_id, dict(sealer.count_stale())
            report.is_rotated = not report.stale and await find_finished_key(store) == sealer.key_id
        yield report


async def _verify_local(store: LocalStore, report: StoreReport) -> AsyncGenerator[Sequence[Entry], None]:
    report.expected = await store.count_rows()
    if not report.expected:  # It is only in memory.
        report.records = report.expected = store.count("")
        yield (await store.range("")).entries
    async for audited in store.audit():
        report.records += len(audited.rows)
        report.add_faults(audited.faults)
        yield [write for row in audited.rows for write in row.writes if isinstance(write, Entry)]


async def _verify_shared(store: Store, report: StoreReport) -> AsyncGenerator[Sequence[Entry], None]:
    after: str | None = None
    while True:
        try:
            page = await store.range("", at=report.revision, limit=PAGE_ENTRIES, after=after)
        except StoreError as error:
            where = "at the beginning" if after is None else f"after {after}"
            report.add_faults([f"cannot read on {where}: {error}"])
            yield []
            return
        report.records += len(page.entries)
        report.expected = report.records + page.remaining
        yield page.entries
        if not page.remaining:
            return
        after = page.entries[-1].key


def _find_object_faults(entries: Sequence[Entry]) -> list[str]:
    found = [find_object_fault(entry) for entry in entries if not entry.key.startswith(INTERNAL_PREFIX)]
    return [fault for fault in found if fault]
