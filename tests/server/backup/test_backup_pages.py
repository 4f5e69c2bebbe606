"""A backup from a running server: everything at one revision, for those who may have it."""

import asyncio
import random
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mainstay.api.store_pages import BACKUP_PATH
from mainstay.server.backup import pages
from mainstay.server.backup.errors import BackupRefused
from mainstay.server.backup.facts import BackupCounter
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.errors import StoreUnavailable
from mainstay.store.interface import Entry, RangePage, Store
from tests.server.world import CONFIGMAPS, Client, a_configmap, a_server
from tests.store.backends import Backend


async def take_backup(client: Client, token: str = "admintoken") -> tuple[BackupCounter, dict[str, Entry]]:
    counter = BackupCounter(decodes=True)
    entries: dict[str, Entry] = {}
    headers = {"Authorization": f"Bearer {token}"}
    async with client.session.get(client.base + BACKUP_PATH, headers=headers) as response:
        assert response.status == 200, await response.text()
        async for piece in response.content.iter_any():
            entries |= {part.key: part for part in counter.feed(piece) if isinstance(part, Entry)}
    counter.finish()
    return counter, entries


@pytest.mark.parametrize(("name", "said"), [("memory", "local"), ("fake-etcd", "etcd")])
async def test_a_backup_is_the_store_at_one_revision_while_others_write(
    sim: Simulation, name: str, said: str, tmp_path: Path
):
    store = await Backend.make(name, tmp_path).reopen()

    async with a_server(sim, store=store) as client:
        for n in range(30):
            await client.create(CONFIGMAPS, a_configmap(f"m{n:02}", value="x" * 5000))

        async def keep_writing() -> None:
            for n in range(30):
                if n % 3:
                    await client.patch(f"{CONFIGMAPS}/m{n:02}", {"data": {"value": f"later {n}"}})
                else:
                    await client.delete(f"{CONFIGMAPS}/m{n:02}")

        writing = asyncio.ensure_future(keep_writing())
        counter, entries = await take_backup(client)
        hold = store.hold((head := counter.finish().head).revision)
        await writing
        at_revision = await store.range("", at=head.revision)
        hold.release()

        assert list(entries.values()) == at_revision.entries
        assert head.cluster == (await client.get("/api/v1/namespaces/kube-system"))["metadata"]["uid"]
        assert (head.store, bool(head.made_at), bool(head.build)) == (said, True, True)


async def test_a_backup_has_the_values_of_secrets_and_what_the_server_keeps_beside_objects(sim: Simulation):
    async with a_server(sim) as client:
        secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
        await client.create("/api/v1/namespaces/default/secrets", secret)

        counter, entries = await take_backup(client)

        assert b"aHVudGVyMg==" in entries["core/secrets/default/s"].value
        assert any(key.startswith("~openings/") for key in entries)
        assert counter.objects == sum(not key.startswith("~") for key in entries)


async def test_only_those_who_may_get_the_path_have_a_backup(sim: Simulation):
    async with a_server(sim) as client:
        refused = await client.ask("GET", BACKUP_PATH, Authorization="Bearer usertoken")
        assert refused.status == 403

        binding = {
            "metadata": {"name": "nightly"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:mainstay:backup",
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        await client.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        await take_backup(client, "usertoken")


async def test_other_methods_and_pages_are_refused(sim: Simulation):
    async with a_server(sim) as client:
        assert (await client.ask("POST", BACKUP_PATH, {})).status == 405
        assert (await client.ask("GET", "/mainstay/else")).status == 404


async def test_a_client_that_takes_nothing_is_cut_off_and_costs_no_memory(sim: Simulation):
    async with a_server(sim) as client:
        for n in range(40):
            await client.create(CONFIGMAPS, a_configmap(f"m{n:02}", value=_incompressible(n)))
        headers = {"Authorization": "Bearer admintoken"}
        async with client.session.get(client.base + BACKUP_PATH, headers=headers) as response:
            await asyncio.sleep(pages.PIECE_WITHIN.total_seconds() * 3)

            counter = BackupCounter()
            with pytest.raises((aiohttp.ClientError, BackupRefused)):
                async for piece in response.content.iter_any():
                    counter.feed(piece)
                counter.finish()


async def test_a_store_that_fails_on_the_way_leaves_no_backup_that_looks_whole(sim: Simulation):
    memory = await open_memory()
    failing = _FailingStore(memory)

    async with a_server(sim, store=failing) as client:
        await client.create(CONFIGMAPS, a_configmap("m"))
        failing.fails = True
        with pytest.raises((aiohttp.ClientError, BackupRefused)):
            await take_backup(client)
        failing.fails = False
        await take_backup(client)


def _incompressible(seed: int) -> str:
    return random.Random(seed).randbytes(400_000).hex()


class _FailingStore:
    """A store whose pages at a revision cannot be read, as those of an etcd that is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.fails = False
        self.memory = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def range(
        self, prefix: str, *, at: int | None = None, limit: int | None = None, after: str | None = None
    ) -> RangePage:
        if self.fails and prefix == "" and after is None:
            raise StoreUnavailable("etcd does not answer")
        return await self._store.range(prefix, at=at, limit=limit, after=after)
