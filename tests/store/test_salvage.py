"""What is left of a damaged store: all that can be read is read, and the longest whole part is kept."""

import sqlite3
from pathlib import Path

import pytest

from mainstay.env import SystemDisk
from mainstay.store import open_sqlite, sqlite_log
from mainstay.store.interface import Put
from mainstay.store.salvage import find_salvageable
from mainstay.store.sqlite_image import LogImage, read_image
from mainstay.store.sqlite_wal import find_wal_damage
from tests.store.test_damage import an_image


def read(directory: Path) -> LogImage:
    return read_image(SystemDisk(directory), lambda rows: None)


async def test_a_whole_store_has_no_faults_and_is_left_as_it_is(tmp_path):
    image = await an_image(tmp_path, is_checkpointed=True)
    wal = (image.directory / sqlite_log.WAL).read_bytes()

    found = read(image.directory)

    assert (found.faults, found.highest) == ([], image.revision)
    assert list(find_salvageable(found).entries) == image.entries
    assert (image.directory / sqlite_log.WAL).read_bytes() == wal
    store = await open_sqlite(image.directory)
    assert (await store.range("")).entries == image.entries
    await store.close()


async def test_a_damaged_write_ahead_file_is_named_with_the_place_and_its_beginning_is_kept(tmp_path):
    image = await an_image(tmp_path, is_checkpointed=False)
    wal = image.directory / sqlite_log.WAL
    data = bytearray(wal.read_bytes())
    assert find_wal_damage(bytes(data)) is None
    at = len(data) // 2
    data[at] ^= 4
    wal.write_bytes(data)

    found = read(image.directory)
    salvage = find_salvageable(found)

    lost, place = map(str, found.faults)
    assert lost.startswith(f"store.db: the log ends at revision {salvage.revision}, but revision 302 was acknowledged")
    damage = find_wal_damage(bytes(data))
    assert damage is not None
    assert damage <= at < damage + 24 + sqlite_log.PAGE_BYTES
    assert place == f"store.db-wal: damaged at byte {damage}: what follows cannot be read"
    assert 50 < salvage.revision < 302
    assert salvage.commits_lost == 302 - salvage.revision
    assert len(salvage.entries) == 40
    assert max(entry.revision for entry in salvage.entries) == salvage.revision


async def test_rows_behind_a_damaged_page_are_found(tmp_path):
    store = await open_sqlite(tmp_path)
    for number in range(100):
        await store.commit([], [Put(f"k{number:03}", bytes([number]) * 900)])
    await store.compact(await store.revision())
    await store.close()
    database = tmp_path / sqlite_log.DATABASE
    data = bytearray(database.read_bytes())
    page = data.index(bytes([50]) * 900) // sqlite_log.PAGE_BYTES * sqlite_log.PAGE_BYTES
    data[page : page + 8] = b"\xff" * 8  # The head of the page: none of its rows can be reached.
    database.write_bytes(data)

    found = read(tmp_path)
    salvage = find_salvageable(found)

    assert any("malformed" in fault.what or "page" in fault.what for fault in found.faults)
    assert any("rows up to revision 101 are missing" in fault.what for fault in found.faults)
    assert 80 < len(salvage.entries) < 100
    assert salvage.rows_lost + len(salvage.entries) == 100
    assert salvage.entries[-1].key == "k099"


async def test_what_follows_a_missing_revision_is_not_kept(tmp_path):
    store = await open_sqlite(tmp_path)
    for number in range(10):
        await store.commit([], [Put(f"k{number}", b"")])
    await store.close()
    with sqlite3.connect(tmp_path / sqlite_log.DATABASE) as database:
        database.execute("DELETE FROM rows WHERE revision = 7")
    database.close()

    salvage = find_salvageable(read(tmp_path))

    assert (salvage.revision, salvage.commits_lost) == (6, 5)
    assert [entry.key for entry in salvage.entries] == ["k0", "k1", "k2", "k3", "k4"]


@pytest.mark.parametrize("damage", ["emptied", "removed", "garbage"])
async def test_nothing_is_kept_of_a_database_that_is_gone(tmp_path, damage):
    store = await open_sqlite(tmp_path)
    await store.commit([], [Put("k", b"")])
    await store.close()
    database = tmp_path / sqlite_log.DATABASE
    if damage == "removed":
        database.unlink()
    else:
        database.write_bytes(b"" if damage == "emptied" else bytes(range(256)) * 80)

    found = read(tmp_path)

    assert found.faults
    assert (found.highest, find_salvageable(found).entries) == (2, ())
