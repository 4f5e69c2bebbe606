"""Bugs that the journal could have."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mainstay.env import frames
from mainstay.journal import history, reader, secret_mask
from mainstay.journal.files import MAGIC, Suffix
from mainstay.journal.history import HistoryBatch, HistoryRecorder
from mainstay.journal.record import joined
from mainstay.journal.segments import Segments
from mainstay.sim.disk import SimDisk

Twin = Callable[[pytest.MonkeyPatch], None]


def reports_durable_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    honest = SimDisk.sync
    patch.setattr(SimDisk, "sync", lambda self, name: None if name.endswith(Suffix.OPEN) else honest(self, name))


def removes_the_open_segment_before_the_closed_one_is_durable(patch: pytest.MonkeyPatch) -> None:
    honest = SimDisk.sync
    patch.setattr(SimDisk, "sync", lambda self, name: None if name.endswith(Suffix.NEW) else honest(self, name))


def tells_the_store_to_forget_before_it_has_written(patch: pytest.MonkeyPatch) -> None:
    honest = HistoryRecorder._take

    def take(self: HistoryRecorder, batch: HistoryBatch) -> None:
        honest(self, batch)
        self._source.advance(batch.revision)

    patch.setattr(HistoryRecorder, "_take", take)


def believes_a_torn_frame(patch: pytest.MonkeyPatch) -> None:
    class Blind:
        @staticmethod
        def crc32(data: bytes) -> int:
            return 0

    patch.setattr(frames, "zlib", Blind)


def writes_each_record_in_a_frame_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Says first how far it has come, and is there only later."""

    def append(self: Segments, records: Sequence[bytes], at: int) -> None:
        for record in records:
            data = frames.frame(joined([record]))
            if not self._size:
                self._number += 1
                self._begun_at = at
                data = MAGIC + data
            name = self._name(self._number, Suffix.OPEN)
            self._disk.append(name, data)
            self._disk.sync(name)
            self._size += len(data)
        if self._size >= self._limits.segment_bytes:
            self.roll()

    patch.setattr(Segments, "append", append)


def believes_what_is_not_synced_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """What a process finds of its predecessor may still be lost in a power cut."""
    honest = Segments.open

    def open_unsynced(self: Segments) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(SimDisk, "sync", lambda self, name: None)
            inner.setattr(Segments, "_close_finished", lambda self: None)
            honest(self)

    patch.setattr(Segments, "open", open_unsynced)


TWINS: list[Twin] = [
    reports_durable_before_the_sync,
    removes_the_open_segment_before_the_closed_one_is_durable,
    tells_the_store_to_forget_before_it_has_written,
    believes_a_torn_frame,
    writes_each_record_in_a_frame_of_its_own,
]


# For the rebuilt state (tests/journal/test_history.py).


def goes_back_to_changes_before_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """Brings back what was deleted before the snapshot was taken."""
    honest = reader._snapshot

    def snapshot(scan: Any, latest: int, limits: Any) -> Any:
        base, held = honest(scan, latest, limits)
        return max(base - 3, 0), held

    patch.setattr(reader, "_snapshot", snapshot)


def takes_all_kinds_at_one_revision(patch: pytest.MonkeyPatch) -> None:
    honest = reader._state
    patch.setattr(
        reader, "_state", lambda scan, vector: honest(scan, dict.fromkeys(vector, max(vector.values(), default=0)))
    )


def forgets_deletions(patch: pytest.MonkeyPatch) -> None:
    honest = HistoryRecorder._take

    def take(self: HistoryRecorder, batch: HistoryBatch) -> None:
        honest(self, HistoryBatch(batch.revision, [change for change in batch.changes if change.value is not None]))

    patch.setattr(HistoryRecorder, "_take", take)


STATE_TWINS: list[Twin] = [
    goes_back_to_changes_before_the_snapshot,
    takes_all_kinds_at_one_revision,
    forgets_deletions,
]


# For Secrets (tests/journal/test_masking.py).


def writes_secrets_as_they_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(history, "masked", lambda key, value: value)


def trusts_annotations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(secret_mask, "_is_harmless", lambda text, parts: True)
