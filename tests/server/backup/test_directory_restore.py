"""A store in a data directory, made from a backup: all that was there, in a new epoch, or nothing."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.server.backup.contents import BackupContents, Restored, read_contents
from mainstay.server.backup.directory_restore import restore_directory
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.unfinished import MARKER
from mainstay.server.process import ServerCannotStart, ServerOptions, ServerProcess
from mainstay.store import open_memory, open_sqlite
from mainstay.store.epoch_jump import JUMP
from mainstay.store.errors import Compacted
from mainstay.store.interface import Put
from tests.server.backup.stores import KEYS, a_backup, all_entries, an_object, without_epochs, write_objects


async def a_cluster(tmp_path: Path) -> BackupContents:
    store = await open_memory()
    await write_objects(store)
    return await a_backup(store, tmp_path / "cluster.backup")


async def restore(contents: BackupContents, data_dir: Path, *, replaces: bool = False) -> Restored:
    return await restore_directory(contents, data_dir, SystemClock(), replaces=replaces)


async def test_a_restored_store_has_every_entry_with_its_revisions(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    restored = await restore(contents, tmp_path / "data")

    store = await open_sqlite(tmp_path / "data" / "store")
    try:
        assert await all_entries(store) == without_epochs(list(contents.entries))
        assert await store.revision() == restored.revision > contents.facts.head.revision + 1_000_000_000 - 1
    finally:
        await store.close()


async def test_every_revision_of_before_is_compacted_so_that_clients_list_again(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    restored = await restore(contents, tmp_path / "data")

    store = await open_sqlite(tmp_path / "data" / "store")
    try:
        for old in (2, contents.facts.head.revision, contents.facts.head.revision + 5, restored.revision - 1):
            with store.watch("", after=old) as watch, pytest.raises(Compacted):
                await anext(watch)
        assert (await store.commit([], [Put("a", b"1")])).revision == restored.revision + 1  # type: ignore[union-attr]
    finally:
        await store.close()


async def test_the_second_restore_of_a_backup_gives_no_revision_again(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    first = await restore(contents, tmp_path / "one")
    await tasks.sleep(timedelta(seconds=1))
    second = await restore(contents, tmp_path / "two")
    await tasks.sleep(timedelta(seconds=1))
    third = await restore(contents, tmp_path / "one", replaces=True)

    assert first.revision < second.revision < third.revision


async def test_the_next_revision_is_ahead_of_the_store_that_is_replaced_whatever_the_clock_says(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    ahead = await restore(contents, tmp_path / "data")
    store = await open_sqlite(tmp_path / "data" / "store")
    for n in range(20):
        await store.commit([], [Put("a", b"%d" % n)])
    await store.close()

    again = await restore(contents, tmp_path / "data", replaces=True)  # At the same time, by this clock.

    assert again.revision == ahead.revision + 20 + JUMP


async def test_what_is_there_is_replaced_only_if_asked_for_and_is_never_deleted(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    data_dir = tmp_path / "data"
    old = await open_sqlite(data_dir / "store")
    await old.commit([], [Put("precious", b"1")])
    await old.close()
    (data_dir / "journal").mkdir()
    (data_dir / "journal" / "history").write_text("precious too")

    with pytest.raises(BackupRefused, match=r"has a store already.*--replace"):
        await restore(contents, data_dir)
    restored = await restore(contents, data_dir, replaces=True)

    assert list(restored.moved) == [data_dir / "store.replaced-1", data_dir / "journal.replaced-1"]
    assert (data_dir / "journal.replaced-1" / "history").read_text() == "precious too"
    aside = await open_sqlite(data_dir / "store.replaced-1")
    assert [entry.key for entry in await all_entries(aside)] == ["precious"]
    await aside.close()
    assert not (data_dir / "journal").exists()


async def test_keys_are_restored_all_or_none(tmp_path: Path):
    store = await open_memory()
    await write_objects(store)
    with_keys = await a_backup(store, tmp_path / "keys.backup", KEYS)
    data_dir = tmp_path / "data"

    assert (await restore(with_keys, data_dir)).keys == "restored"
    assert {file.name: (data_dir / file.name).read_bytes() for file in KEYS} == {f.name: f.content for f in KEYS}
    assert (await restore(with_keys, data_dir, replaces=True)).keys == "unchanged"
    (data_dir / "ca.key").write_bytes(b"of another cluster")
    assert (await restore(with_keys, data_dir, replaces=True)).keys == "restored"
    assert (data_dir / "ca.key.replaced-1").read_bytes() == b"of another cluster"

    other = tmp_path / "other"
    other.mkdir()
    (other / "ca.key").write_bytes(b"mine")
    assert (await restore(with_keys, other)).keys == "kept"
    assert (other / "ca.key").read_bytes() == b"mine"
    assert not (other / "service-account.key").exists()


async def test_a_directory_in_use_is_refused(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    disk = SystemDisk(tmp_path / "data")
    disk.lock("server.lock", "process 7")

    with pytest.raises(BackupRefused, match="in use by process 7"):
        await restore(contents, tmp_path / "data")
    disk.close()


@pytest.mark.parametrize("damage", ["flipped", "truncated"])
async def test_a_damaged_backup_changes_nothing(tmp_path: Path, damage: str):
    await a_cluster(tmp_path)
    file = tmp_path / "cluster.backup"
    data = bytearray(file.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 1
    else:
        del data[-5:]
    file.write_bytes(data)

    with pytest.raises(BackupRefused, match="use another copy"):
        read_contents(file)


class _Interrupted(BaseException):
    """The process ends here, as after kill -9."""


def _interrupt(patch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Let the file operation after so many raise. Returns how many there were."""
    done = 0

    def counted(name: str) -> None:
        original = getattr(SystemDisk, name)

        def call(self: SystemDisk, *arguments: Any) -> Any:
            nonlocal done
            if done == after:
                raise _Interrupted
            done += 1
            return original(self, *arguments)

        patch.setattr(SystemDisk, name, call)

    for name in ("append", "sync", "rename", "remove"):
        counted(name)
    return lambda: done


async def test_a_restore_that_is_cut_short_anywhere_is_refused_or_without_effect_and_can_be_run_again(tmp_path: Path):
    contents = await a_cluster(tmp_path)
    points = 0
    while True:
        data_dir = tmp_path / f"data-{points}"
        old = await open_sqlite(data_dir / "store")
        await old.commit([], [Put("core/configmaps/default/old", an_object("old"))])
        await old.close()
        with pytest.MonkeyPatch.context() as patch:
            _interrupt(patch, points)
            try:
                await restore(contents, data_dir, replaces=True)
            except _Interrupted:
                pass
            else:
                break
        if MARKER in SystemDisk(data_dir).names():
            await _require_refused(data_dir)
            await restore(contents, data_dir)  # Without --replace: it was allowed the first time.
        else:
            store = await open_sqlite(data_dir / "store")
            keys = [entry.key for entry in await all_entries(store)]
            await store.close()
            assert keys in (["core/configmaps/default/old"], [e.key for e in without_epochs(list(contents.entries))])
            await restore(contents, data_dir, replaces=True)
        store = await open_sqlite(data_dir / "store")
        assert await all_entries(store) == without_epochs(list(contents.entries))
        await store.close()
        assert MARKER not in SystemDisk(data_dir).names()
        points += 1
    assert points > 5


async def _require_refused(data_dir: Path) -> None:
    options = ServerOptions(data_dir=data_dir, host="127.0.0.1", port=0)
    env = Env(SystemClock(), Chance(b"test"), SystemDisk(data_dir))
    with pytest.raises(ServerCannotStart, match="the restore of this data directory was interrupted: run it again"):
        await ServerProcess.start(options, env)
