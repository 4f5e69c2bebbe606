"""Reading a log again while it is in use."""

import sqlite3
from pathlib import Path

import pytest

from mainstay.env import SystemDisk
from mainstay.sim.disk import SimDisk
from mainstay.sim.run.choices import Choices
from mainstay.store import open_memory
from mainstay.store.disk_log import DiskLog
from mainstay.store.interface import DeleteEntry, Put
from mainstay.store.local import LocalStore
from mainstay.store.log import Log
from mainstay.store.sqlite_log import SqliteLog


async def a_store(kind: str, path: Path) -> LocalStore:
    log: Log = SqliteLog(SystemDisk(path)) if kind == "sqlite" else DiskLog(SimDisk(Choices(), "disk"))
    return await LocalStore.open(log)


async def write(store: LocalStore, count: int, value: str = "x") -> None:
    for n in range(count):
        await store.commit([], [Put(f"k{n:04}", value.encode()), Put(f"j{n % 7}", value.encode())])


async def audit(store: LocalStore) -> tuple[int, list[str]]:
    parts = [part async for part in store.audit()]
    return sum(len(part.rows) for part in parts), [fault for part in parts for fault in part.faults]


@pytest.mark.parametrize("kind", ["sqlite", "disk-log"])
async def test_a_sound_log_has_all_its_rows_and_no_fault(kind: str, tmp_path: Path):
    store = await a_store(kind, tmp_path)
    await write(store, 700)
    await store.commit([], [DeleteEntry("k0003")])
    assert await audit(store) == (701, [])

    await store.compact(await store.revision())
    rows, faults = await audit(store)
    assert (rows, faults) == (await store.count_rows(), [])
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "disk-log"])
async def test_commits_and_compactions_meanwhile_are_no_faults(kind: str, tmp_path: Path):
    store = await a_store(kind, tmp_path)
    await write(store, 1300)
    faults: list[str] = []
    async for part in store.audit():
        faults += part.faults
        await write(store, 5, "later")
        await store.compact(await store.revision() - 2)
    assert faults == []
    await store.close()


async def test_a_store_in_memory_has_no_rows():
    store = await open_memory()
    await write(store, 10)

    assert (await store.count_rows(), await audit(store)) == (0, (0, []))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("UPDATE rows SET writes = x'90' WHERE revision = 500", "the row of revision 500 does not match its checksum"),
        ("DELETE FROM rows WHERE revision = 500", "the row of revision 500 is missing"),
        ("UPDATE rows SET writes = 7 WHERE revision = 500", "the row of revision 500 does not match its checksum"),
    ],
)
async def test_a_row_that_is_not_as_it_was_written_is_a_fault(change: str, fault: str, tmp_path: Path):
    log = SqliteLog(SystemDisk(tmp_path))
    store = await LocalStore.open(log)
    await write(store, 700)
    connection = log._connection
    assert isinstance(connection, sqlite3.Connection)
    connection.execute(change)

    rows, faults = await audit(store)

    assert (rows, faults) == (699, [fault])
    await store.close()
