"""What only the store on SQLite has to show: its file, and who else may have touched it."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainstay.env import SystemDisk, tasks
from mainstay.store import local, open_sqlite
from mainstay.store.errors import Corrupt, OutcomeUnknown, StorageFull, StoreInUse, StoreUnavailable
from mainstay.store.interface import Committed, DeleteEntry, Entry, Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.log import LogRow, decode_row
from mainstay.store.sqlite_log import DATABASE, SqliteLog


async def fill(store: Store, count: int, size: int = 300) -> None:
    for number in range(count):
        await store.commit([], [Put(f"pods/{number:04}", bytes([number % 251]) * size)])


async def make(directory: Path, count: int = 100) -> None:
    store = await open_sqlite(directory)
    await fill(store, count)
    await store.close()


async def test_data_history_and_compaction_survive_a_restart(tmp_path):
    store = await open_sqlite(tmp_path)
    await fill(store, 20)
    await fill(store, 20)
    await store.compact(11)
    before = [await store.range("", at=at) for at in (11, 25, 41)]
    await store.close()

    store = await open_sqlite(tmp_path)

    assert [await store.range("", at=at) for at in (11, 25, 41)] == before
    with store.watch("", after=11) as watch:
        assert [change.revision for change in (await anext(watch)).changes] == list(range(12, 42))
    assert await store.commit([], [Put("a", b"")]) == Committed(42)
    await store.close()


async def test_the_revision_does_not_go_back_when_everything_was_deleted_and_compacted(tmp_path):
    store = await open_sqlite(tmp_path)
    await fill(store, 3)
    page = await store.range("")
    answer = await store.commit([], [DeleteEntry(entry.key) for entry in page.entries])
    assert answer == Committed(5)
    await store.compact(5)
    await store.close()

    store = await open_sqlite(tmp_path)

    assert await store.revision() == 5
    assert (await store.range("")).entries == []
    await store.close()


async def test_compaction_gives_room_back(tmp_path):
    store = await open_sqlite(tmp_path)
    for number in range(500):
        await store.commit([], [Put("hot", bytes(2000) + str(number).encode())])
    await store.compact(await store.revision())
    await store.close()

    database = sqlite3.connect(tmp_path / DATABASE)
    assert database.execute("SELECT count(*) FROM rows").fetchone() == (1,)
    database.close()


async def test_a_row_of_several_writes_keeps_those_that_are_still_needed(tmp_path):
    store = await open_sqlite(tmp_path)
    await store.commit([], [Put("a", b"1"), Put("b", b"1"), Put("c", b"1")])
    await store.commit([], [Put("a", b"2"), Put("b", b"2")])
    await store.commit([], [Put("b", b"3")])
    await store.compact(4)
    before = await store.range("")
    await store.close()

    store = await open_sqlite(tmp_path)

    assert await store.range("") == before
    assert [(entry.key, entry.value, entry.version) for entry in before.entries] == [
        ("a", b"2", 2),
        ("b", b"3", 3),
        ("c", b"1", 1),
    ]
    await store.close()


async def test_a_second_store_on_the_same_directory_is_refused(tmp_path):
    store = await open_sqlite(tmp_path)

    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()}: stop that one, or use another directory"):
        await open_sqlite(tmp_path)

    await store.commit([], [Put("still", b"works")])
    await store.close()
    await (await open_sqlite(tmp_path)).close()


def test_a_second_process_on_the_same_directory_is_refused(tmp_path):
    first = subprocess.Popen(
        [sys.executable, "-m", "tests.store.writer", str(tmp_path), "1"], stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    first.stdout.readline()  # It has opened the store and committed something.

    with pytest.raises(StoreInUse, match=f"is in use by process {first.pid}: stop that one, or use another directory"):
        tasks.run(open_sqlite(tmp_path))

    first.kill()
    first.wait()
    first.stdout.close()
    tasks.run(make(tmp_path, 1))


async def test_a_flipped_bit_in_a_value_is_found(tmp_path):
    await make(tmp_path)
    database = tmp_path / DATABASE
    data = bytearray(database.read_bytes())
    data[data.index(bytes([77]) * 300) + 150] ^= 1
    database.write_bytes(data)

    with pytest.raises(Corrupt, match=r"store\.db: the row of revision \d+ does not match its checksum"):
        await open_sqlite(tmp_path)


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.97])
async def test_a_file_that_was_cut_short_is_found(tmp_path, keep):
    await make(tmp_path)
    database = tmp_path / DATABASE
    data = database.read_bytes()
    database.write_bytes(data[: int(len(data) * keep)])

    with pytest.raises(Corrupt, match=r"malformed|checksum"):
        await open_sqlite(tmp_path)


@pytest.mark.parametrize("damage", ["emptied", "removed"])
async def test_a_database_that_was_emptied_or_removed_is_found(tmp_path, damage):
    await make(tmp_path)
    database = tmp_path / DATABASE
    if damage == "emptied":
        database.write_bytes(b"")
    else:
        database.unlink()

    with pytest.raises(Corrupt, match="the database is empty, though a store was made here"):
        await open_sqlite(tmp_path)


async def test_a_missing_revision_is_found(tmp_path):
    await make(tmp_path)
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("DELETE FROM rows WHERE revision = 50")
    database.close()

    with pytest.raises(Corrupt, match="revision 50 is missing: the next one found is 51"):
        await open_sqlite(tmp_path)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    text = b"Dear diary, today I learned how to share a directory. " * 20
    (tmp_path / DATABASE).write_bytes(text)

    with pytest.raises(Corrupt, match="file is not a database"):
        await open_sqlite(tmp_path)

    assert (tmp_path / DATABASE).read_bytes() == text


async def test_a_foreign_database_is_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("CREATE TABLE recipes (name TEXT)")
    database.close()
    before = (tmp_path / DATABASE).read_bytes()

    with pytest.raises(Corrupt, match="not a Mainstay store"):
        await open_sqlite(tmp_path)

    assert (tmp_path / DATABASE).read_bytes() == before


async def test_a_store_of_a_newer_format_is_refused(tmp_path):
    await make(tmp_path)
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()

    with pytest.raises(Corrupt, match=r"written by a newer Mainstay \(format 7\)"):
        await open_sqlite(tmp_path)


async def test_a_refused_directory_is_free_again(tmp_path):
    (tmp_path / DATABASE).write_bytes(b"no database at all" * 100)
    with pytest.raises(Corrupt):
        await open_sqlite(tmp_path)
    (tmp_path / DATABASE).unlink()

    await make(tmp_path, 1)


async def test_a_full_store_takes_nothing_more_and_loses_nothing(tmp_path):
    store = await LocalStore.open(SqliteLog(SystemDisk(tmp_path), size_bytes_max=200_000))
    with pytest.raises(StorageFull, match="compact, or free some space"):
        for number in range(500):
            await store.commit([], [Put("hot", bytes(2000) + str(number).encode())])
    full = await store.range("")

    with pytest.raises(StorageFull):
        await store.commit([], [Put("other", bytes(50_000))])
    assert await store.range("") == full

    await store.compact(full.revision)
    assert await store.commit([], [Put("other", bytes(50_000))]) == Committed(full.revision + 1)
    await store.close()
    store = await open_sqlite(tmp_path)
    assert [entry.key for entry in (await store.range("")).entries] == ["hot", "other"]
    await store.close()


def test_an_error_of_the_disk_leaves_the_outcome_unknown_and_the_store_readable(tmp_path):
    """The file may not grow past a limit, which SQLite sees as a failed write: what is on disk is unknown then."""

    async def write_until_it_fails() -> tuple[int, Store]:
        store = await open_sqlite(tmp_path)
        acknowledged = 0
        with pytest.raises(OutcomeUnknown):
            for _ in range(1000):
                answer = await store.commit([], [Put("hot", bytes(2000))])
                assert isinstance(answer, Committed)
                acknowledged = answer.revision
        with pytest.raises(StoreUnavailable, match="until it is opened again"):
            await store.commit([], [Put("hot", b"")])
        entry = await store.get("hot")
        assert entry is not None
        assert entry.revision == acknowledged
        await store.close()
        return acknowledged, store

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, old[1]))
    try:
        acknowledged, _ = tasks.run(write_until_it_fails())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)

    async def read() -> int:
        store = await open_sqlite(tmp_path)
        revision = await store.revision()
        await store.close()
        return revision

    assert tasks.run(read()) in (acknowledged, acknowledged + 1)


def test_sqlite_is_told_to_sync_with_every_commit(tmp_path):
    program = (
        "import asyncio, sys, pathlib\n"
        "from mainstay.env import tasks\n"
        "from mainstay.store import open_sqlite\n"
        "from mainstay.store.interface import Put\n"
        "async def main():\n"
        "    store = await open_sqlite(pathlib.Path(sys.argv[1]))\n"
        "    connection = store._log._connection\n"
        "    print(connection.execute('PRAGMA synchronous').fetchone()[0])\n"
        "    print(connection.execute('PRAGMA journal_mode').fetchone()[0])\n"
        "    await store.close()\n"
        "tasks.run(main())\n"
    )
    result = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["2", "wal"]  # 2 is FULL: the write-ahead file is synced by each commit.


@pytest.mark.parametrize("mark", ["UPDATE anchor SET compacted = compacted + 1", "DELETE FROM anchor",
                                  "UPDATE anchor SET count = 3", "UPDATE anchor SET compacted = 'x'",
                                  "INSERT INTO anchor VALUES (3, 3, 3, 3, 3)"])  # fmt: skip
async def test_a_damaged_mark_of_compaction_is_found_and_the_directory_is_free_again(tmp_path, mark):
    await make(tmp_path)
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute(mark)
    database.close()

    for _ in range(2):
        with pytest.raises(Corrupt, match="the mark of how far it was compacted"):
            await open_sqlite(tmp_path)


@pytest.mark.slow
async def test_another_reader_of_the_database_is_told_apart_from_damage(tmp_path):
    await make(tmp_path)
    database = sqlite3.connect(tmp_path / DATABASE)
    database.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreInUse, match="a program other than Mainstay"):
        await open_sqlite(tmp_path)

    database.close()
    await (await open_sqlite(tmp_path)).close()


async def test_a_compaction_that_was_cut_short_is_finished_on_opening(tmp_path, monkeypatch):
    """A deletion whose key is already gone from the log is left over, and goes too."""
    monkeypatch.setattr(local, "COMPACTION_STEP_CHANGES", 1)
    log = SqliteLog(SystemDisk(tmp_path))
    store = await LocalStore.open(log)
    await store.commit([], [Put("a", b"")])
    await store.commit([], [Put("b", b"")])
    await store.commit([], [DeleteEntry("a"), Put("b", b"2")])
    before = await store.range("")
    honest = log.compact
    steps: list[int] = []

    async def compact(compacted: int, rows: Sequence[LogRow]) -> None:
        if steps:
            raise OutcomeUnknown("killed")
        steps.append(compacted)
        await honest(compacted, rows[:1])

    monkeypatch.setattr(log, "compact", compact)
    with pytest.raises(OutcomeUnknown, match="killed"):
        await store.compact(4)
    await store.close()

    store = await open_sqlite(tmp_path)
    assert await store.range("") == before
    await store.close()

    database = sqlite3.connect(tmp_path / DATABASE)
    rows = database.execute("SELECT revision, writes FROM rows").fetchall()
    database.close()
    assert [decode_row(*row) for row in rows] == [LogRow(4, (Entry("b", b"2", 3, 4, 2),))]
