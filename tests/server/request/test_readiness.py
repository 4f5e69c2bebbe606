"""What an API server says of its health: the pages, and what makes each check fail."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import tasks
from mainstay.env.invariants import broken
from mainstay.server.watch.feed import Window
from mainstay.sim.simulation import Simulation
from mainstay.store.errors import StoreUnavailable
from mainstay.store.local import LocalStore
from tests.server.test_invariants import collect_failures
from tests.server.world import CONFIGMAPS, Client, a_configmap, a_server


async def read(client: Client, path: str, **headers: str) -> tuple[int, str]:
    answer = await client.ask("GET", path, **headers)
    return answer.status, str(answer.body)


async def test_a_healthy_server_says_ok_and_lists_its_checks(sim: Simulation):
    async with a_server(sim) as client:
        for page in ("livez", "readyz", "healthz"):
            assert await read(client, f"/{page}", Authorization="") == (200, "ok")
            status, text = await read(client, f"/{page}?verbose", Authorization="")
            first, *_, last = text.splitlines()
            assert (status, first, last) == (200, "[+]ping ok", f"{page} check passed")
        _, live = await read(client, "/livez?verbose")
        _, ready = await read(client, "/readyz?verbose")
        assert "[+]task/feed ok\n" in live
        assert "informer-sync" not in live
        for name in ("informer-sync", "shutdown", "clock", "invariants", "task/crd-definitions", "task/bookmarks"):
            assert f"[+]{name} ok\n" in ready


async def test_checks_can_be_excluded_and_asked_for_one_by_one(sim: Simulation):
    async with a_server(sim) as client:
        broken("feed revisions strictly grow", "the feed", before=7, after=7)

        status, text = await read(client, "/readyz", Authorization="")
        assert status == 500
        assert "[-]invariants failed: reason withheld\n" in text
        assert text.endswith("readyz check failed\n")
        assert await read(client, "/livez", Authorization="") == (200, "ok")
        assert await read(client, "/readyz?exclude=invariants") == (200, "ok")
        status, text = await read(client, "/readyz?verbose&exclude=invariants&exclude=nope")
        assert status == 200
        assert "[+]invariants excluded: ok\n" in text
        assert 'warn: some health checks cannot be excluded: no matches for "nope"\n' in text
        assert await read(client, "/readyz/invariants") == (
            500,
            "internal server error: feed revisions strictly grow\n",
        )
        assert await read(client, "/readyz/ping") == (200, "ok")
        assert (await read(client, "/readyz/nope"))[0] == 404
        # Why a check fails is not for every client.
        assert (await read(client, "/readyz/invariants", Authorization=""))[0] == 403


async def test_a_store_that_does_not_answer_makes_the_server_unready_within_seconds(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    async with a_server(sim) as client:
        assert await read(client, "/readyz") == (200, "ok")
        await tasks.sleep(timedelta(seconds=2))

        async def revision(self: LocalStore) -> int:
            await tasks.sleep(timedelta(seconds=20))
            raise StoreUnavailable("etcd does not answer")

        with monkeypatch.context() as patched:
            patched.setattr(LocalStore, "revision", revision)
            began = sim.loop.time()
            asked = [await read(client, "/readyz") for _ in range(10)]
            assert {status for status, _ in asked} == {500}
            assert all("[-]informer-sync failed: reason withheld\n" in text for _, text in asked)
            assert sim.loop.time() - began < 3  # The first waits for two seconds, the others do not.
            assert await read(client, "/livez") == (200, "ok")
            assert "no answer for " in (await read(client, "/readyz/informer-sync"))[1]
            await tasks.sleep(timedelta(seconds=30))
        assert await read(client, "/readyz") == (200, "ok")


async def test_a_feed_that_has_ended_fails_livez_by_its_name(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    async with a_server(sim) as client:
        failures = collect_failures()

        def add(self: Window, changes: Any) -> None:
            raise ZeroDivisionError("planted")

        monkeypatch.setattr(Window, "add", add)
        await client.ask("POST", CONFIGMAPS, a_configmap("one"))
        await tasks.sleep(timedelta(seconds=1))

        status, text = await read(client, "/livez", Authorization="")
        assert status == 500
        assert "[-]task/feed failed: reason withheld\n" in text
        assert await read(client, "/livez/task/feed") == (500, "internal server error: planted\n")
        assert [type(each) for each in failures] == [ZeroDivisionError]
