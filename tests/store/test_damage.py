"""A directory of a store that was damaged in any way: either every acknowledged key is there, or it is refused."""

import asyncio
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from mainstay.store import open_sqlite, sqlite_log
from mainstay.store.errors import Corrupt, StoreError
from mainstay.store.interface import DeleteEntry, Entry, Put

FLIPS = 300
KEYS = 40


class Image:
    """A directory as a killed server has left it, and what that server had acknowledged."""

    def __init__(self, directory: Path, entries: list[Entry], revision: int) -> None:
        self.directory = directory
        self.entries = entries
        self.revision = revision

    def copy(self, to: Path) -> Path:
        shutil.rmtree(to, ignore_errors=True)
        return shutil.copytree(self.directory, to)


async def an_image(directory: Path, *, is_checkpointed: bool) -> Image:
    """The files are copied while the store is open, so that they are as a killed process leaves them."""
    store = await open_sqlite(directory / "running")
    for first in range(0, 300, 10):
        await asyncio.gather(
            *(
                store.commit([], [Put(f"k{number % KEYS}", bytes([number % 251]) * 900)])
                for number in range(first, first + 10)
            )
        )
        if first == 150 and is_checkpointed:
            await store.compact(120)
            store._log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
    await store.commit([], [DeleteEntry("k7"), DeleteEntry("k8")])
    if is_checkpointed:
        await store.compact(260)
    page = await store.range("")
    shutil.copytree(directory / "running", directory / "killed")
    await store.close()
    return Image(directory / "killed", list(page.entries), page.revision)


async def open_and_compare(image: Image, directory: Path) -> str:
    """Whether it was refused, and in which words. Fails if it was not, and something is gone."""
    for _ in range(2):
        try:
            store = await open_sqlite(directory)
        except Corrupt as error:
            return str(error)
        page = await store.range("")
        found = [entry for entry in page.entries if not entry.key.startswith("later/")]
        await store.commit([], [Put(f"later/{number}", bytes(2000)) for number in range(20)])
        await store.compact(page.revision)
        await store.close()
        assert found == image.entries
        assert page.revision >= image.revision
    return ""


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["all in the WAL", "half in the database"])
async def test_a_flipped_bit_anywhere_loses_nothing_silently(tmp_path, is_checkpointed):
    image = await an_image(tmp_path, is_checkpointed=is_checkpointed)
    chance = random.Random(20 + is_checkpointed)
    refused: dict[str, int] = {}
    for name in (sqlite_log.DATABASE, sqlite_log.WAL, sqlite_log.MARK):
        for _ in range(FLIPS // 6):
            directory = image.copy(tmp_path / "damaged")
            data = bytearray((directory / name).read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            (directory / name).write_bytes(data)
            refused[name] = refused.get(name, 0) + bool(await open_and_compare(image, directory))
    assert refused[sqlite_log.WAL] > FLIPS // 12
    assert refused[sqlite_log.MARK] == 0, "one of the two slots is always whole"


@pytest.mark.parametrize("name", [sqlite_log.DATABASE, sqlite_log.WAL, sqlite_log.MARK])
@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["all in the WAL", "half in the database"])
async def test_a_file_that_was_cut_short_or_removed_loses_nothing_silently(tmp_path, name, is_checkpointed):
    image = await an_image(tmp_path, is_checkpointed=is_checkpointed)
    size = (image.directory / name).stat().st_size
    for kept in (0, 1, 31, 32, 512, size // 3, size // 2, size - 4096, size - 1):
        directory = image.copy(tmp_path / "damaged")
        (directory / name).write_bytes((directory / name).read_bytes()[:kept])
        await open_and_compare(image, directory)
    directory = image.copy(tmp_path / "damaged")
    (directory / name).unlink()

    assert await open_and_compare(image, directory)


async def test_a_log_without_its_last_commits_is_refused_in_words_and_left_as_it_is(tmp_path):
    image = await an_image(tmp_path, is_checkpointed=False)
    wal = image.directory / sqlite_log.WAL
    data = bytearray(wal.read_bytes())
    data[len(data) // 10] ^= 1
    wal.write_bytes(data)
    before = {path.name: path.read_bytes() for path in image.directory.iterdir() if path.name != sqlite_log.LOCK}

    for _ in range(2):
        with pytest.raises(
            Corrupt, match=r"the log ends at revision \d+, but revision 302 was acknowledged: \d+ commits are lost"
        ):
            await open_sqlite(image.directory)

    wal_after = (image.directory / sqlite_log.WAL).read_bytes()
    assert wal_after == bytes(data)
    assert set(before) == {path.name for path in image.directory.iterdir() if path.name != sqlite_log.LOCK}


async def test_an_old_copy_of_the_database_is_refused(tmp_path):
    await (await open_sqlite(tmp_path / "a")).close()
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    store = await open_sqlite(tmp_path / "a")
    await store.commit([], [Put("k", b"")])
    await store.close()
    shutil.copy(tmp_path / "old" / sqlite_log.DATABASE, tmp_path / "a" / sqlite_log.DATABASE)

    with pytest.raises(Corrupt, match="the log ends at revision 1, but revision 2 was acknowledged: 1 commit is lost"):
        await open_sqlite(tmp_path / "a")


async def test_an_old_copy_of_the_mark_does_no_harm(tmp_path):
    store = await open_sqlite(tmp_path)
    await store.commit([], [Put("k", b"")])
    old = (tmp_path / sqlite_log.MARK).read_bytes()
    await store.commit([], [Put("k", b"2")])
    await store.close()
    (tmp_path / sqlite_log.MARK).write_bytes(old)

    store = await open_sqlite(tmp_path)
    assert await store.revision() == 3
    await store.close()
    assert (tmp_path / sqlite_log.MARK).read_bytes() != old


async def test_a_database_of_another_store_is_refused(tmp_path):
    for name in ("a", "b"):
        store = await open_sqlite(tmp_path / name)
        await store.commit([], [Put(name, b"")])
        await store.commit([], [Put("same", b"")])
        await store.close()
    shutil.copy(tmp_path / "b" / sqlite_log.DATABASE, tmp_path / "a" / sqlite_log.DATABASE)

    with pytest.raises(Corrupt, match="revision 3 is not the one that was acknowledged: another history is there"):
        await open_sqlite(tmp_path / "a")


async def test_a_compacted_row_that_is_gone_is_named(tmp_path):
    store = await open_sqlite(tmp_path)
    for number in range(5):
        await store.commit([], [Put(f"k{number}", b"")])
    await store.compact(6)
    await store.close()
    with sqlite3.connect(tmp_path / sqlite_log.DATABASE) as database:
        database.execute("DELETE FROM rows WHERE revision = 4")
    database.close()

    with pytest.raises(Corrupt, match="1 of the 5 rows up to revision 6 is missing"):
        await open_sqlite(tmp_path)


async def test_a_mark_that_cannot_be_written_leaves_the_outcome_unknown(tmp_path, monkeypatch):
    store = await open_sqlite(tmp_path)
    await store.commit([], [Put("k", b"1")])

    def fail(name: str, offset: int, data: bytes) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store._log._disk, "overwrite", fail)  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="while this was being written"):
        await store.commit([], [Put("k", b"2")])
    await store.close()

    store = await open_sqlite(tmp_path)
    entry = await store.get("k")
    assert entry is not None
    assert entry.value in (b"1", b"2")
    await store.close()
