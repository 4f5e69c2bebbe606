"""Bugs that a local store and its log could have."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mainstay.env import frames
from mainstay.server.storage import compaction
from mainstay.sim.disk import SimDisk
from mainstay.store import disk_log, local
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import StorageFull
from mainstay.store.holds import RevisionHolds
from mainstay.store.index import StoreIndex
from mainstay.store.interface import Committed, TransactionRefused
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow, encode_row
from mainstay.store.log_chain import HighWater, LogChain

Twin = Callable[[pytest.MonkeyPatch], None]


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def append(self: DiskLog, frame: bytes) -> None:
        self._disk.append(disk_log.FILE, frame)
        self._size += len(frame)

    patch.setattr(DiskLog, "_append", append)


def shows_writes_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    async def flush(self: LocalStore) -> None:
        while self._staged:
            group = self._take_group()
            rows = [local._row(staged.transaction) for staged in group if staged.transaction is not None]
            waiters = [staged.waiter for staged in group]
            for staged in group:
                staged.waiter = staged.waiter.get_loop().create_future()
            self._durable = self._next_revision - 1  # Otherwise the store notices by itself.
            self._publish(group)
            await self._log.append(rows)
            for staged, waiter in zip(group, waiters, strict=True):
                waiter.set_result(staged.answer)
        self._flushing = None

    patch.setattr(LocalStore, "_flush", flush)


def refuses_with_what_is_only_staged(patch: pytest.MonkeyPatch) -> None:
    honest = LocalStore.commit

    async def commit(self: LocalStore, checks: Any, writes: Any) -> Committed | TransactionRefused:
        found = {
            check.key: entry for check in checks if local._revision(entry := self._newest(check.key)) != check.revision
        }
        return TransactionRefused(found) if found else await honest(self, checks, writes)

    patch.setattr(LocalStore, "commit", commit)


def appends_after_a_torn_frame(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimDisk, "truncate", lambda self, name, size: None)


def believes_a_torn_frame(patch: pytest.MonkeyPatch) -> None:
    """A checksum that always fits, over frames that a crash has left unfilled."""

    class Blind:
        @staticmethod
        def crc32(data: bytes) -> int:
            return 0

    patch.setattr(frames, "zlib", Blind)


def writes_each_row_in_a_frame_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Splits a transaction: its first write is durable before its second."""

    honest = DiskLog._append_rows

    def append_rows(self: DiskLog, rows: Sequence[LogRow]) -> None:
        for row in rows:
            for count in range(1, len(row.writes)):
                part = (row.revision, encode_row(LogRow(row.revision, row.writes[:count]), self.sealer))
                self._append(disk_log._encode(disk_log._Frame(0, [part])))
        honest(self, rows)

    patch.setattr(DiskLog, "_append_rows", append_rows)


def forgets_a_deletion_before_what_it_deleted(patch: pytest.MonkeyPatch) -> None:
    """Compacts from the wrong end: a crash halfway brings deleted keys back."""

    async def finish_compaction(self: LocalStore) -> None:
        rows: list[LogRow] = []
        while (step := self._index.compact_step(local.COMPACTION_STEP_CHANGES)) is not None:
            rows += step
        for row in reversed(rows):
            await self._log.compact(self._index.compacted, [row])

    patch.setattr(LocalStore, "_finish_compaction", finish_compaction)


def forgets_what_is_still_there(patch: pytest.MonkeyPatch) -> None:
    honest = StoreIndex.compact_step

    def compact_step(self: StoreIndex, changes_max: int) -> list[LogRow] | None:
        rows = honest(self, changes_max)
        return None if rows is None else [LogRow(row.revision + 1, ()) for row in rows]

    patch.setattr(StoreIndex, "compact_step", compact_step)


def renames_before_it_has_synced(patch: pytest.MonkeyPatch) -> None:
    """A rewritten log takes the place of the old one before it is there itself."""
    honest = SimDisk.sync
    patch.setattr(SimDisk, "sync", lambda self, name: None if name == disk_log.NEW_FILE else honest(self, name))


def goes_on_after_an_error(patch: pytest.MonkeyPatch) -> None:
    """Takes a failed write for one that did not happen, and writes on behind whatever it has left."""

    def append(self: DiskLog, frame: bytes) -> None:
        try:
            self._disk.append(disk_log.FILE, frame)
            self._disk.sync(disk_log.FILE)
        except OSError as error:
            raise StorageFull(str(error)) from error
        self._size += len(frame)

    patch.setattr(DiskLog, "_append", append)


def forgets_all_when_something_is_old_enough(patch: pytest.MonkeyPatch) -> None:
    """Also what is younger than what is kept."""
    honest = compaction.take_expired

    def take_expired(seen: deque[tuple[int, int]], now_ns: int) -> int:
        newest = seen[-1][1]
        return newest if honest(seen, now_ns) else 0

    patch.setattr(compaction, "take_expired", take_expired)


TWINS: list[Twin] = [
    acknowledges_before_the_sync,
    shows_writes_before_they_are_durable,
    refuses_with_what_is_only_staged,
    appends_after_a_torn_frame,
    believes_a_torn_frame,
    writes_each_row_in_a_frame_of_its_own,
    forgets_a_deletion_before_what_it_deleted,
    forgets_what_is_still_there,
]


# For the model (tests/store/test_model.py), which looks at answers rather than at crashes.


def lets_compaction_pass_a_hold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RevisionHolds, "limit", lambda self, revision: revision)


def delivers_changes_twice_to_a_slow_watch(patch: pytest.MonkeyPatch) -> None:
    honest = StoreIndex.transactions_after
    patch.setattr(StoreIndex, "transactions_after", lambda self, revision, count: honest(self, revision - 1, count))


def shows_the_latest_state_for_an_old_revision(patch: pytest.MonkeyPatch) -> None:
    honest = StoreIndex.range
    patch.setattr(StoreIndex, "range", lambda self, prefix, at, limit, after: honest(self, prefix, None, limit, after))


def checks_only_what_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Two commits in one group both see the state before the group: one update is lost."""
    patch.setattr(LocalStore, "_newest", lambda self, key: self._index.live.get(key))


MODEL_TWINS: list[Twin] = [
    lets_compaction_pass_a_hold,
    delivers_changes_twice_to_a_slow_watch,
    shows_the_latest_state_for_an_old_revision,
    checks_only_what_is_durable,
]


# For the scenario damaged-log.


def does_not_compare_with_the_mark(patch: pytest.MonkeyPatch) -> None:
    """A log that ends early is taken for one to which no more was written."""
    honest = LogChain.find_faults
    patch.setattr(LogChain, "find_faults", lambda self, acknowledged, *, is_chained=True: honest(self, None))


def acknowledges_before_the_mark(patch: pytest.MonkeyPatch) -> None:
    """The mark is written with the next commit."""
    honest = DiskLog._acknowledge
    pending: dict[int, HighWater] = {}

    def acknowledge(self: DiskLog, head: HighWater) -> None:
        if id(self) in pending:
            honest(self, pending[id(self)])
        pending[id(self)] = head

    patch.setattr(DiskLog, "_acknowledge", acknowledge)
