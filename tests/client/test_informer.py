"""Caches that follow a server, and those who use them."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.client.cache import CacheStopped
from mainstay.client.entry import Change
from mainstay.client.errors import Forbidden
from mainstay.client.indexes import NODE, label
from mainstay.client.informer import Informer, Informers
from mainstay.client.pump import Collection
from mainstay.client.reflector import REWIND_AFTER
from mainstay.env import tasks
from mainstay.server.storage.stored import stored
from mainstay.store import open_memory
from mainstay.store.interface import Put
from tests.client.follower import Follower
from tests.client.informing import (
    MINUTE,
    a_stored_configmap,
    a_while,
    bookmarks,
    following,
    make,
    same_as_a_list,
    same_as_a_real_list,
)
from tests.client.objects import a_pod, key, raw
from tests.client.pretend_api import PretendApi
from tests.client.world import a_client, a_world
from tests.server.world import a_configmap
from tests.server.world import a_pod as a_new_pod


@pytest.mark.parametrize("streams_state", [True, False])
async def test_a_cache_follows_what_happens(sim, streams_state: bool):
    async with a_world(sim) as world:
        await make(world, "a", "b")
        async with following(sim, world.client, CONFIG_MAPS, streams_state=streams_state) as (informer, follower):
            await world.client.patch(CONFIG_MAPS, "a", "default", {"data": {"k": "v"}})
            await make(world, "c")
            await world.client.delete(CONFIG_MAPS, "b", "default")
            await a_while(2)

            await same_as_a_real_list(world, informer, follower)
            assert [(change, name) for change, name, _ in follower.told] == [
                ("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("ADDED", "c"), ("DELETED", "b"),
            ]  # fmt: skip
            assert (informer.counters.lists, informer.counters.events, informer.last_error) == (1, 3, "")


async def test_a_list_in_many_pages_is_one_state(sim):
    store = await open_memory()
    async with a_world(sim, store=store) as world:
        await make(world, "made-by-the-server")
        for number in range(1100):
            await store.commit(
                [], [Put(f"core/configmaps/default/c{number}", stored(a_stored_configmap(f"c{number}")))]
            )
        async with following(sim, world.client, CONFIG_MAPS, streams_state=False) as (informer, follower):
            await same_as_a_real_list(world, informer, follower)
            assert len(informer.cache) == 1101


async def test_ones_own_writes_can_be_waited_for(sim):
    async with a_world(sim) as world, following(sim, world.client, CONFIG_MAPS) as (informer, _):
        sim.network.set_latency("client", "server", timedelta(seconds=2))
        with sim.network.host("elsewhere").active():
            async with a_client(sim, name="elsewhere") as client:
                written = await client.create(CONFIG_MAPS, a_configmap("mine"), "default")
        revision = int(written["metadata"]["resourceVersion"])
        informer.saw(revision)

        assert (informer.cache.get(key("mine")), informer.lag > 0) == (None, True)
        async with tasks.timeout(MINUTE):
            await informer.cache.wait_until(revision)
        assert (informer.cache.get(key("mine")), informer.lag) == (written, 0)


async def test_a_bookmark_tells_that_nothing_else_happened(sim):
    async with a_world(sim) as world, following(sim, world.client, CONFIG_MAPS) as (informer, _):
        written = await world.client.create(PODS, a_new_pod("of-another-kind"), "default")
        await a_while(3)

        assert informer.cache.revision >= int(written["metadata"]["resourceVersion"])
        silent_for = informer.silent_for
        assert silent_for is not None
        assert silent_for < timedelta(seconds=3)


async def test_an_object_that_is_no_longer_selected_is_gone(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("one", {"on": "yes"}), "default")
        informer = Informer(world.client, sim.env("client"), Collection(CONFIG_MAPS, "default", labels="on=yes"))
        follower = Follower(informer)
        informer.start()
        await informer.synced()
        await world.client.patch(CONFIG_MAPS, "one", "default", {"metadata": {"labels": {"on": "no"}}})
        await a_while(2)
        await informer.stop()

        assert ([change for change, _, _ in follower.told], follower.problems) == (["ADDED", "DELETED"], [])
        assert str(informer.collection) == "configmaps/default?labels=on=yes"


async def test_a_broken_connection_costs_no_list(sim):
    async with a_world(sim) as world, following(sim, world.client, CONFIG_MAPS) as (informer, follower):
        await make(world, "a")
        sim.network.reset("client", "server")
        await a_while(5)
        await make(world, "b")
        await a_while(5)

        await same_as_a_real_list(world, informer, follower)
        assert (informer.counters.lists, informer.counters.disconnects, informer.counters.reconnects) == (1, 1, 1)


async def test_a_server_that_is_away_is_found_again(sim):
    async with a_world(sim) as world, following(sim, world.client, CONFIG_MAPS) as (informer, follower):
        sim.network.cut("client", "server")
        await a_while(600)
        assert informer.last_error != ""
        sim.network.heal("client", "server")
        await a_while(10)  # By then the client has tried again.
        await make(world, "a")
        await a_while(90)

        await same_as_a_real_list(world, informer, follower)
        assert informer.last_error == ""


async def test_a_store_that_was_put_back_is_believed_in_the_end(sim):
    api = PretendApi()
    api.put("a", image="x:1")
    backup = api.revision
    api.put("a", image="x:2")
    api.put("b")
    async with following(sim, api, may_go_back=True) as (informer, follower):
        api.go_back(backup)
        await bookmarks(api, 10)
        assert informer.cache.keys() == (key("a"), key("b"))
        await bookmarks(api, 300)

        same_as_a_list(api, informer, follower)
        assert (informer.counters.rewinds, informer.counters.refused > REWIND_AFTER) == (1, True)
        assert informer.cache.revision == backup


async def test_a_server_that_cannot_stream_its_state_is_listed(sim):
    api = PretendApi(streams_state=False)
    api.put("a")
    async with following(sim, api) as (informer, follower):
        api.put("b")
        await a_while(1)

        same_as_a_list(api, informer, follower)
        assert api.asked == ["watch state", "list", "watch 2"]


async def test_a_list_whose_pages_expire_is_asked_for_at_once(sim):
    api = PretendApi(streams_state=False)
    for number in range(1200):
        api.put(f"a{number:04}")
    informer = Informer(api, sim.env("client"), Collection(PODS), streams_state=False)
    informer.start()
    await asyncio.sleep(0.0015)  # After the first page.
    api.put("meanwhile")
    api.compact()
    await informer.synced()
    await informer.stop()

    assert len(informer.cache) == 1201
    assert api.asked == ["list", "list 500@1201", "list", "watch 1202"]


@pytest.mark.parametrize(
    ("change", "nonsense"),
    [
        ("MODIFIED", b"{}"),
        ("MODIFIED", b'{"metadata":{"name":"a","uid":"u","resourceVersion":"x"}}'),
        ("MODIFIED", b'{"metadata":{"name":7,"uid":"u","resourceVersion":"9"}}'),
        ("BOOKMARK", b"{}"),
        ("BOOKMARK", b'{"metadata":{"resourceVersion":"x"}}'),
        ("NEWS", raw(a_pod("a", 9))),
    ],
)
async def test_nonsense_in_a_stream_ends_the_stream_and_not_the_informer(sim, change, nonsense: bytes):
    api = PretendApi()
    async with following(sim, api) as (informer, follower):
        api.tell(change, msgspec.Raw(nonsense))  # type: ignore[arg-type]
        await a_while(5)
        api.put("a")
        await a_while(5)

        same_as_a_list(api, informer, follower)
        assert (informer.counters.refused, informer.counters.relists) == (1, 0)


async def test_without_the_rights_it_says_so_and_goes_on_asking(sim, caplog):
    class Refusing(PretendApi):
        def watch(self, *args: Any, **options: Any) -> Any:
            if len(self.asked) < 5:
                self.asked.append("refused")
                raise Forbidden("you may not watch pods")
            return super().watch(*args, **options)

    api = Refusing()
    informer = Informer(api, sim.env("client"), Collection(PODS))
    informer.start()
    await a_while(1)
    assert (informer.last_error, informer.silent_for) == ("you may not watch pods", None)
    await a_while()

    assert (informer.last_error, informer.cache.is_synced) == ("", True)
    warned = [record for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert "you may not watch pods" in warned[0].getMessage()
    await informer.stop()


# Subscribing and sharing.


async def test_a_late_subscriber_first_gets_the_present_objects(sim):
    api = PretendApi()
    api.put("b")
    api.put("a")
    async with following(sim, api) as (informer, _):
        late = Follower(informer)
        assert late.told == [("ADDED", "a", 3), ("ADDED", "b", 3)]
        api.delete("a")
        await a_while(1)
        assert late.told[2:] == [("DELETED", "a", 4)]

        told: list[Change] = []
        informer.subscribe(told.append)
        informer.unsubscribe(told.append)
        api.put("c")
        await a_while(1)
        assert [change.key.name for change in told] == ["b"]


async def test_a_subscriber_that_fails_stops_the_informer_and_ends_waits(sim):
    api = PretendApi()
    failures: list[Any] = []
    sim.loop.set_exception_handler(lambda loop, context: failures.append(context["exception"]))
    informer = Informer(api, sim.env("client"), Collection(PODS))

    def fail(change: Change) -> None:
        raise LookupError("a bug")

    informer.subscribe(fail)
    informer.start()
    await informer.synced()
    waiting = asyncio.ensure_future(informer.cache.wait_until(99))
    await asyncio.sleep(1)
    api.put("a")

    with pytest.raises(CacheStopped):
        await waiting
    assert list(map(repr, failures)) == [
        """SubscriberFailed("subscriber failed on: default/a of pods was ADDED at 2: LookupError('a bug')")"""
    ]


async def test_informers_are_shared_and_have_all_requested_indexes(sim):
    api = PretendApi()
    api.put("a", node="n1", labels={"app": "web"})
    informers = Informers(api, sim.env("client"))

    first = informers.get(PODS, indexes=[NODE])
    await informers.synced()
    second = informers.get(PODS, indexes=[NODE, label("app")])
    other = informers.get(PODS, "default")
    await informers.synced()

    assert (first is second, first is other, informers.all()) == (True, False, [first, other])
    assert (first.cache.by("node", "n1"), first.cache.by("label:app", "web")) == ((key("a"),), (key("a"),))
    assert api.asked == ["watch state"] * 2
    await informers.stop()
    with pytest.raises(CacheStopped):
        await first.cache.wait_until(99)
    assert (first.cache.keys(), informers.all()) == ((key("a"),), [])


async def test_an_informer_is_started_once(sim):
    informer = Informer(PretendApi(), sim.env("client"), Collection(PODS))
    informer.start()
    with pytest.raises(RuntimeError, match="informer of pods is already started"):
        informer.start()
    await informer.stop()
