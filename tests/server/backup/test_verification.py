"""A running server reads its store again."""

from pathlib import Path

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.store_verify import verify_server
from mainstay.client.client import Client as ApiClient
from mainstay.client.config import Config
from mainstay.env import SystemDisk, tasks
from mainstay.server.backup.verification import StoreReport, verify_store
from mainstay.sim.simulation import Simulation
from mainstay.store.interface import Put, Store
from mainstay.store.local import LocalStore
from mainstay.store.sqlite_log import SqliteLog
from tests.cli.paper import Paper
from tests.server.backup.stores import write_objects
from tests.server.world import CONFIGMAPS, PORT, a_configmap, a_server
from tests.store.backends import Backend


async def verify(store: Store) -> StoreReport:
    worker = tasks.Worker("verify")
    reports = [report async for report in verify_store(store, worker)]
    worker.close()
    return reports[-1]


@pytest.mark.parametrize("name", ["memory", "sqlite", "disk-log", "fake-etcd"])
async def test_a_sound_store_has_no_fault_and_all_its_records_were_read(name: str, tmp_path: Path):
    async with Backend.make(name, tmp_path).open() as store:
        await write_objects(store, 600)

        report = await verify(store)

        assert report.faults == []
        assert report.records == report.expected > 200
        assert report.objects >= 599


@pytest.mark.parametrize("name", ["memory", "sqlite", "fake-etcd"])
async def test_an_object_that_cannot_be_decoded_or_is_another_one_is_a_fault(name: str, tmp_path: Path):
    async with Backend.make(name, tmp_path).open() as store:
        await write_objects(store)
        await store.commit([], [Put("core/configmaps/default/bad", b'{"metadata":')])
        await store.commit([], [Put("core/configmaps/default/other", b'{"metadata":{"name":"one"}}')])

        faults = (await verify(store)).faults

        assert len(faults) == 2
        assert "core/configmaps/default/bad cannot be decoded" in faults[0]
        assert faults[1] == "the object core/configmaps/default/other is named 'one'"


async def test_a_damaged_row_of_a_running_server_is_named_with_what_to_do(sim: Simulation, tmp_path: Path):
    log = SqliteLog(SystemDisk(tmp_path))
    store = await LocalStore.open(log)
    async with a_server(sim, store=store) as client:
        for n in range(20):
            await client.create(CONFIGMAPS, a_configmap(f"m{n:02}"))
        config = Config(servers=(f"http://server:{PORT}",), token="admintoken")
        async with ApiClient(config, sim.env("client"), user_agent="test") as api:
            paper = Paper()
            assert await verify_server(api, paper, as_json=False) == Exit.SATISFIED
            assert "no damage" in paper.text

            assert log._connection is not None
            revision = (await store.range("core/configmaps/default/m07")).entries[0].revision
            log._connection.execute("UPDATE rows SET writes = x'90' WHERE revision = ?", (revision,))
            paper = Paper()
            assert await verify_server(api, paper, as_json=False) == Exit.BLOCKED
            assert f"the row of revision {revision} does not match its checksum" in paper.text
            assert "Save it now: mainstay backup FILE" in paper.text
        refused = await client.ask("GET", "/mainstay/verify", Authorization="Bearer usertoken")
        assert refused.status == 403
    await store.close()
