"""A store in etcd, made from a backup: every key and value, and nothing that refers to revisions of another etcd."""

from collections.abc import AsyncIterable
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.env import SystemClock, tasks
from mainstay.server.backup.contents import BackupContents, Restored, read_contents
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.etcd_restore import Save, restore_store
from mainstay.server.backup.unfinished import RESTORING, RestoreUnfinished, require_finished_store
from mainstay.server.placement.ledger.history import NO_HISTORY, LedgerHistory
from mainstay.server.placement.ledger.ledger import Ledger, encode_ledger, ledger_in
from mainstay.store import open_memory
from mainstay.store.errors import Compacted, StoreUnavailable
from mainstay.store.interface import Check, Committed, Entry, Put, Store, TransactionRefused, Write
from tests.requirements import needs
from tests.server.backup.stores import a_backup, all_entries, an_object, write_objects
from tests.store.backends import Backend

STORES = ["fake-etcd", pytest.param("etcd", marks=[pytest.mark.real_loop, needs("etcd")])]


@pytest.fixture(params=STORES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend.make(request.param, tmp_path)


async def a_cluster(path: Path) -> BackupContents:
    """A backup of a store with a long past."""
    store = await open_memory()
    await write_objects(store, 250)
    ledger = Ledger(used={"cpu": 7}, history=LedgerHistory(nodes=100_000, pods=100_000))
    await store.commit([], [Put("~ledger/node-1", encode_ledger(ledger)), Put("~operations/a/b", b"x")])
    await store.commit([], [Put("~servers/10.0.0.1/6443", b"{}"), Put("~lineage/07", b"{}")])
    await store.commit([], [Put("core/configmaps/default/large", an_object("large", "x" * 1_200_000))])
    await store.commit([], [Put("core/configmaps/default/larger", an_object("larger", "x" * 1_200_000))])
    return await a_backup(store, path)


async def restore(contents: BackupContents, store: Store, save: Save | None = None) -> Restored:
    return await restore_store(contents, store, SystemClock(), save, lambda text: None)


def values(entries: list[Entry]) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in entries if not entry.key.startswith("~")}


async def test_every_object_is_restored_into_an_empty_etcd(target: Backend, tmp_path: Path):
    contents = await a_cluster(tmp_path / "b")
    async with target.open() as store:
        await restore(contents, store)

        entries = await all_entries(store)
        assert values(entries) == values(list(contents.entries))
        beside = [entry.key for entry in entries if entry.key.startswith("~")]
        assert beside == ["~ledger/node-1", "~terms/kube-system/scheduler"]
        ledger = ledger_in(next(entry for entry in entries if entry.key == "~ledger/node-1"))
        assert (ledger.used, ledger.history) == ({"cpu": 7}, NO_HISTORY)
        await require_finished_store(store)


async def test_objects_are_written_in_the_order_in_which_they_were(target: Backend, tmp_path: Path):
    contents = await a_cluster(tmp_path / "b")
    async with target.open() as store:
        await restore(contents, store)

        now = {entry.key: entry.revision for entry in await all_entries(store)}
        before = sorted((entry.revision, entry.key) for entry in contents.entries if entry.key in now)
        revisions = [now[key] for _, key in before]
        assert revisions == sorted(revisions)


async def test_what_is_there_is_saved_before_it_is_replaced(target: Backend, tmp_path: Path):
    contents = await a_cluster(tmp_path / "b")
    saved = tmp_path / "saved"

    async def save(pieces: AsyncIterable[bytes]) -> Path:
        saved.write_bytes(b"".join([piece async for piece in pieces]))
        return saved

    async with target.open() as store:
        await store.commit([], [Put("core/configmaps/default/old", an_object("old"))])
        before = await store.revision()

        with pytest.raises(BackupRefused, match="--replace"):
            await restore(contents, store)
        assert await store.revision() == before
        restored = await restore(contents, store, save)

        assert list(restored.moved) == [saved]
        assert [entry.key for entry in read_contents(saved).entries] == ["core/configmaps/default/old"]
        assert values(await all_entries(store)) == values(list(contents.entries))
        with store.watch("", after=before) as watch, pytest.raises(Compacted):
            await anext(watch)


class _FailingStore:
    """Takes so many commits and then no more."""

    def __init__(self, store: Store, commits: int) -> None:
        self._store = store
        self._left = commits

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, checks: list[Check], writes: list[Write]) -> Committed | TransactionRefused:
        if self._left <= 0:
            raise StoreUnavailable("etcd does not answer")
        self._left -= 1
        return await self._store.commit(checks, writes)


async def test_a_restore_that_is_cut_short_anywhere_is_refused_and_can_be_run_again(tmp_path: Path):
    contents = await a_cluster(tmp_path / "b")
    commits = 0
    while True:
        commits += 1
        async with Backend.make("fake-etcd", tmp_path).open() as store:
            try:
                await restore(contents, _FailingStore(store, commits))  # type: ignore[arg-type]
            except StoreUnavailable:
                pass
            else:
                break

            with pytest.raises(RestoreUnfinished, match="was interrupted: run it again"):
                await require_finished_store(store)
            await restore(contents, store)

            assert values(await all_entries(store)) == values(list(contents.entries))
            assert await store.get(RESTORING) is None
    assert commits > 5


async def test_a_restore_is_refused_while_a_server_uses_the_etcd(tmp_path: Path):
    contents = await a_cluster(tmp_path / "b")
    async with Backend.make("fake-etcd", tmp_path).open() as store:

        async def serve() -> None:
            for n in range(100):
                await store.commit([], [Put("~servers/10.0.0.9/6443", b"%d" % n)])
                await tasks.sleep(timedelta(seconds=10))

        serving = tasks.spawn(serve(), name="server")
        await tasks.sleep(timedelta(seconds=1))

        async def save(pieces: AsyncIterable[bytes]) -> Path:
            raise AssertionError("nothing is to be replaced")

        with pytest.raises(BackupRefused, match=r"the API server at 10\.0\.0\.9:6443 uses this etcd"):
            await restore(contents, store, save)
        await tasks.stop(serving)
