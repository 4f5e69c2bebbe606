"""The store as the journal's source of history (journal/history.py): every change, with the decision it came from.

The server writes lineage beside an object, at the same revision (server/storage/write_context.py); here the two are
joined again. What the server keeps aside is not passed on: answers to operations hold whole objects, secrets too. The
store keeps the history that the journal has not made durable yet.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Final

import msgspec

from mainstay.journal.errors import HistoryAhead, Missed, SourceUnavailable
from mainstay.journal.history import HistoryBatch, KeyVersion, Snapshot
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.write_context import LINEAGE
from mainstay.store.errors import Compacted, FutureRevision, StoreUnavailable
from mainstay.store.interface import Hold, KeyChange, Store

PAGE_ENTRIES: Final = 500


class _Lineage(msgspec.Struct, frozen=True, gc=False):
    key: str
    decision: str = ""
    cause: str = ""


_NO_LINEAGE: Final = _Lineage("")
_lineage = msgspec.json.Decoder(_Lineage).decode


class StoreHistory:
    """Implements `HistorySource`."""

    def __init__(self, store: Store, page_entries: int = PAGE_ENTRIES) -> None:
        self._store = store
        self._page_entries = page_entries
        self._hold: Hold | None = None

    async def snapshot(self, at: int | None) -> Snapshot:
        try:
            revision = await self._store.revision() if at is None else at
            self._keep(revision)
            page = await self._store.range("", at=revision, limit=1)
        except (Compacted, FutureRevision) as error:
            raise Missed(str(error)) from error
        except StoreUnavailable as error:
            raise SourceUnavailable(str(error)) from error
        return Snapshot(page.revision, self._pages(page.revision))

    async def _pages(self, revision: int) -> AsyncIterator[Sequence[KeyVersion]]:
        after: str | None = None
        while True:
            try:
                page = await self._store.range("", at=revision, limit=self._page_entries, after=after)
            except Compacted as error:
                raise Missed(str(error)) from error
            except StoreUnavailable as error:
                raise SourceUnavailable(str(error)) from error
            yield [
                KeyVersion(entry.revision, entry.key, entry.value)
                for entry in page.entries
                if not entry.key.startswith(INTERNAL_PREFIX)
            ]
            if not page.remaining:
                return
            after = page.entries[-1].key

    async def changes(self, after: int) -> AsyncGenerator[HistoryBatch, None]:
        try:
            with self._store.watch("", after=after) as watch:
                async for batch in watch:
                    yield HistoryBatch(batch.revision, joined(batch.changes))
        except Compacted as error:
            raise Missed(str(error)) from error
        except FutureRevision as error:
            raise HistoryAhead(str(error)) from error
        except StoreUnavailable as error:
            raise SourceUnavailable(str(error)) from error

    def advance(self, revision: int) -> None:
        self._keep(revision)

    def _keep(self, revision: int) -> None:
        if self._hold is None:
            try:
                self._hold = self._store.hold(revision)
            except Compacted:
                return  # The journal was away for too long, and hears of it when it follows.
        self._hold.advance(revision)

    def close(self) -> None:
        """Let the store forget what it likes."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None


def joined(changes: Sequence[KeyChange]) -> list[KeyVersion]:
    """The objects among the changes, each with the lineage that was written at the same revision.

    With every write of the server: it must cost little.
    """
    lineage: dict[tuple[int, str], _Lineage] = {}
    objects: list[KeyChange] = []
    for change in changes:
        key = change.key
        if not key.startswith(INTERNAL_PREFIX):
            objects.append(change)
        elif change.entry is not None and key.startswith(LINEAGE):
            told = _lineage(change.entry.value)
            lineage[change.revision, told.key] = told
    result: list[KeyVersion] = []
    for change in objects:
        key, revision, entry = change.key, change.revision, change.entry
        found = lineage.get((revision, key), _NO_LINEAGE)
        result.append(KeyVersion(revision, key, None if entry is None else entry.value, found.decision, found.cause))
    return result
