"""An object that cannot be shown ends the watches that it concerns, and nothing else (C2)."""

import logging
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.env.health import Health
from mainstay.server.crd.definitions import Definitions
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.watch import follower
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import DeleteEntry, Entry, KeyChange, Put, Store
from tests.api.definitions import a_crd
from tests.server.quota.zone_quota_cases import ZONE_QUOTAS, a_zone_quota
from tests.server.world import CONFIGMAPS, a_configmap, a_server

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BAD_KEY = "mainstay.dev/zonequotas/default/bad"


async def poison(store: Store) -> None:
    """Damage an object behind the server's back."""
    await store.commit([], [Put(BAD_KEY, b'{"kind":"ZoneQuota","metadata":{"labels":')])


async def test_a_bad_object_ends_the_watch_that_cannot_show_it_and_the_feed_goes_on(
    sim: Simulation, caplog: pytest.LogCaptureFixture
):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await client.create(ZONE_QUOTAS, a_zone_quota("bad", cpu="1"))
        async with (
            client.watch(f"{ZONE_QUOTAS}?watch=1&labelSelector=a%3Db") as selecting,
            client.watch(f"{CONFIGMAPS}?watch=1") as others,
        ):
            await poison(store)

            error = await selecting.next()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 500)
            assert "zonequotas default/bad at revision" in error["object"]["message"]
            assert await selecting.next() is None
            assert BAD_KEY in caplog.text
            # That it is deleted is as hard to show as that it was there.
            await store.commit([], [DeleteEntry(BAD_KEY)])
            await client.create(CONFIGMAPS, a_configmap("one"))
            assert (await others.next())["object"]["metadata"]["name"] == "one"
        assert (await client.ask("GET", "/readyz")).body == "ok"


async def test_a_watch_from_before_a_bad_object_ends_with_an_error(sim: Simulation):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        made = await client.create(ZONE_QUOTAS, a_zone_quota("bad", cpu="1"))
        await poison(store)
        path = f"{ZONE_QUOTAS}?watch=1&labelSelector=a%3Db&resourceVersion={made['metadata']['resourceVersion']}"
        async with client.watch(path) as events:
            error = await events.next()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 500)
            assert await events.next() is None


async def test_a_pod_whose_node_cannot_be_read_ends_the_watches_by_node_only(sim: Simulation):
    store = await open_memory()
    async with (
        a_server(sim, store=store) as client,
        client.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1") as by_node,
        client.watch(f"{CONFIGMAPS}?watch=1") as others,
    ):
        await store.commit([], [Put("core/pods/default/bad", b'{"spec":{"nodeName":')])
        error = await by_node.next()
        assert (error["type"], error["object"]["code"]) == ("ERROR", 500)
        await client.create(CONFIGMAPS, a_configmap("one"))
        assert (await others.next())["object"]["metadata"]["name"] == "one"


async def test_a_key_of_the_store_that_is_no_object_is_left_alone(sim: Simulation):
    store = await open_memory()
    async with a_server(sim, store=store) as client, client.watch(f"{CONFIGMAPS}?watch=1") as events:
        await store.commit([], [Put("nonsense", b"x"), Put("core/nonsense", b"x")])
        await client.create(CONFIGMAPS, a_configmap("one"))
        assert (await events.next())["object"]["metadata"]["name"] == "one"


async def test_a_follower_that_cannot_handle_a_change_reads_again_and_is_named(sim: Simulation):
    store = await open_memory()
    health = Health(sim.env("server").clock)
    values: dict[str, bytes] = {}

    def take(change: KeyChange) -> None:
        values.pop(change.key, None)
        if change.entry is not None:
            if change.entry.value == b"bad":
                raise ValueError("planted")
            values[change.key] = change.entry.value

    def reset(entries: Sequence[Entry]) -> None:
        values.clear()
        for entry in entries:
            take(KeyChange(entry.revision, entry.key, entry, None))

    with health.active():
        feed = await Feed.start(store)
        following = PrefixFollower(store, feed, "core/things/", take, reset)
        await following.start()
    heard: list[str] = []
    feed.on_internal_change(lambda change: heard.append(change.key))

    await store.commit([], [Put("core/things/a", b"good"), Put("core/things/b", b"bad")])
    await tasks.sleep(timedelta(seconds=1))
    result = await health.check("objects/core/things")
    assert "cannot handle core/things/" in result.problem
    assert (await health.check("task/feed")).problem == ""

    await store.commit([], [Put("core/things/b", b"better")])
    await tasks.sleep(follower.FAILED_RETRY_AFTER + timedelta(seconds=1))
    assert values == {"core/things/a": b"good", "core/things/b": b"better"}
    assert (await health.check("objects/core/things")).problem == ""
    await following.stop()
    await feed.stop()


async def test_a_listener_that_fails_does_not_end_the_feed_and_is_named(sim: Simulation):
    store = await open_memory()
    health = Health(sim.env("server").clock)
    with health.active():
        feed = await Feed.start(store)

    def fail(change: KeyChange) -> None:
        raise ValueError("planted")

    heard: list[str] = []
    feed.on_internal_change(fail)
    feed.on_internal_change(lambda change: heard.append(change.key))
    key = f"{INTERNAL_PREFIX}x"
    await store.commit([], [Put(key, b"1")])
    await feed.reach(await store.revision())
    assert key in heard
    assert "planted" in (await health.check("objects/feed")).problem
    await feed.stop()


async def test_a_definition_that_cannot_be_settled_does_not_keep_others_from_it(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    honest = Definitions._try_to_settle

    async def settle(self: Definitions, key: str) -> bool | None:
        if "widgets" in key:
            raise ValueError("planted")
        return await honest(self, key)

    monkeypatch.setattr(Definitions, "_try_to_settle", settle)
    caplog.set_level(logging.ERROR)
    async with a_server(sim) as client:
        await client.create(CRDS, a_crd("widgets"))
        await client.create(CRDS, a_crd("gadgets", "Gadget"))
        await tasks.sleep(timedelta(seconds=2))
        made = await client.get(f"{CRDS}/{a_crd('gadgets')['metadata']['name']}")
        assert {"Established": "True"}.items() <= {
            each["type"]: each["status"] for each in made["status"]["conditions"]
        }.items()
        assert "planted" in str((await client.ask("GET", "/readyz/objects/crd-definitions")).body)
        assert (await client.ask("GET", "/livez")).status == 200
