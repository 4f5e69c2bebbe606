"""A log that begins with what another store had: a backup, or what was salvaged."""

from pathlib import Path

import pytest

from mainstay.env import SystemDisk
from mainstay.env.invariants import BrokenInvariant
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.store.disk_log import DiskLog
from mainstay.store.epoch_jump import build_rows
from mainstay.store.errors import Compacted
from mainstay.store.interface import Entry, Put
from mainstay.store.local import LocalStore
from mainstay.store.log import Log, LogRow
from mainstay.store.sqlite_log import SqliteLog


@pytest.mark.parametrize("kind", ["sqlite", "disk-log"])
async def test_a_filled_log_has_the_rows_and_goes_on_after_the_revision_it_is_compacted_to(kind: str, tmp_path: Path):
    disk = SystemDisk(tmp_path) if kind == "sqlite" else SimDisk(Choices(), "disk")

    def a_log() -> Log:
        return SqliteLog(disk) if isinstance(disk, SystemDisk) else DiskLog(disk)

    entries = [Entry("a", b"1", 3, 7, 2), Entry("b", b"2", 7, 7, 1), Entry("c", b"3", 4, 4, 1)]
    log = a_log()
    await log.open()
    await log.fill(1000, build_rows(entries))
    await log.close()

    for _ in range(2):  # Also after it was written again.
        store = await LocalStore.open(a_log())
        assert [entry for entry in (await store.range("")).entries if entry.key != "d"] == entries
        with pytest.raises(Compacted):
            await store.range("", at=999)
        await store.commit([], [Put("d", b"4")])
        await store.close()


async def test_only_an_empty_log_is_filled_and_only_with_what_is_compacted(tmp_path: Path):
    log = SqliteLog(SystemDisk(tmp_path))
    await log.open()
    rows = build_rows([Entry("a", b"1", 3, 7, 2)])
    for compacted, wrong in ((6, rows), (9, rows * 2), (9, [LogRow(1, rows[0].writes)])):
        with pytest.raises(BrokenInvariant):
            await log.fill(compacted, wrong)
    await log.append([LogRow(2, rows[0].writes)])
    with pytest.raises(BrokenInvariant):
        await log.fill(9, rows)
    await log.close()
