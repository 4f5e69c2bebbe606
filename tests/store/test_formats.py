"""Directories that an older Mainstay has written: they open, are upgraded, and an upgrade may be cut short anywhere."""

import contextlib
import sqlite3
import tarfile
from pathlib import Path

import msgspec
import pytest

from mainstay.env import SystemDisk, frames
from mainstay.sim.disk import PowerLost, SimDisk, Survival
from mainstay.store import disk_log, open_sqlite, sqlite_log
from mainstay.store.disk_log import DiskLog
from mainstay.store.errors import Corrupt
from mainstay.store.interface import Committed, Entry, Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow, encode_row
from mainstay.store.log_chain import LogAnchor
from mainstay.store.sqlite_log import SqliteLog
from tests.store.test_disk_log import Always

FORMAT_1 = Path(__file__).with_name("format-1.tar.gz")
"""As Mainstay 0.2.0 leaves it when it is killed: 31 commits, compacted to revision 20, most of it in the WAL."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(FORMAT_1) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


async def check_contents(store: Store) -> None:
    page = await store.range("")
    assert page.revision == 32
    assert {entry.key: entry.value for entry in page.entries} == {
        "k0": b"value 28",
        "k1": b"value 29",
        "k2": b"value 23",
        "k4": b"last",
        "k5": b"value 26",
        "k6": b"value 27",
    }


def read_format(directory: Path) -> int:
    connection = sqlite3.connect(directory / sqlite_log.DATABASE)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(found)


async def test_a_directory_of_the_last_release_opens_and_is_upgraded(old):
    for commits in range(2):
        store = await open_sqlite(old)
        if not commits:
            await check_contents(store)
        assert await store.commit([], [Put("new", b"")]) == Committed(33 + commits)
        await store.close()

    assert read_format(old) == sqlite_log.FORMAT == 2
    assert (old / sqlite_log.MARK).exists()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", range(1, 9))
async def test_an_upgrade_that_is_cut_short_is_begun_again(old, step, monkeypatch):
    left = step

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    class Counting(SystemDisk):
        def append(self, name: str, data: bytes) -> None:
            count()
            super().append(name, data)

        def sync(self, name: str) -> None:
            count()
            super().sync(name)

        def rename(self, old: str, new: str) -> None:
            if old != sqlite_log.KEPT_WAL:
                count()
            super().rename(old, new)

    honest = sqlite_log._upgrade_script

    def upgrade_script(anchor: LogAnchor) -> str:
        count()
        return honest(anchor)

    monkeypatch.setattr(sqlite_log, "_upgrade_script", upgrade_script)
    monkeypatch.setattr(sqlite_log, "_move_into_database", lambda connection: count())
    with contextlib.suppress(Killed):
        await (await LocalStore.open(SqliteLog(Counting(old)))).close()
    monkeypatch.undo()
    assert step > 5 or left == 0, "an upgrade has five steps"

    store = await open_sqlite(old)
    await check_contents(store)
    await store.close()
    assert read_format(old) == 2


async def test_an_upgraded_log_that_falls_back_to_the_old_one_is_refused(old):
    """All that was written since is gone from the log, and with it that there was an upgrade. The mark knows."""
    store = await open_sqlite(old)
    await store.commit([], [Put("new", b"")])
    await store.close()
    mark = (old / sqlite_log.MARK).read_bytes()
    with tarfile.open(FORMAT_1) as archive:
        archive.extractall(old, filter="data")
    (old / sqlite_log.MARK).write_bytes(mark)

    with pytest.raises(Corrupt, match="the log ends at revision 32, but revision 33 was acknowledged"):
        await open_sqlite(old)


async def test_the_last_release_refuses_a_newer_directory_in_words(old, monkeypatch):
    await (await open_sqlite(old)).close()
    monkeypatch.setattr(sqlite_log, "FORMAT", 1)

    with pytest.raises(Corrupt, match=r"written by a newer Mainstay \(format 2\): this one reads up to format 1"):
        await open_sqlite(old)


def a_log_of_format_1(disk: SimDisk) -> None:
    encode = msgspec.msgpack.Encoder().encode
    rows = [(r, encode_row(LogRow(r, (Entry(f"k{r % 3}", b"%d" % r, 2, r, 1),)))) for r in range(2, 12)]
    parts = [encode((0, rows)), encode((6, [(2, b""), (3, b"")]))]
    disk.append(disk_log.FILE, b"MAINSTAY LOG 1\n" + b"".join(map(frames.frame, parts)))
    disk.sync(disk_log.FILE)


@pytest.mark.parametrize("survival", list(Survival))
async def test_an_upgrade_of_a_log_on_a_disk_survives_a_power_cut_anywhere(survival):
    for operation in range(1, 25):
        disk = SimDisk(Always(survival), "disk")
        a_log_of_format_1(disk)
        disk.cut_power_before(operation)
        with contextlib.suppress(PowerLost):
            DiskLog(disk)._open()
        store = await LocalStore.open(DiskLog(disk.after_power_cut()))
        page = await store.range("")
        assert page.revision == 11
        assert [(entry.key, entry.value) for entry in page.entries] == [("k0", b"9"), ("k1", b"10"), ("k2", b"11")]
        await store.close()
