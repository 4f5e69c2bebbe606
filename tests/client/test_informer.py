"""Caches that follow a server through everything that can happen on the way, and the bugs that would be noticed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, NODES, PODS
from mainstay.client.cache import Cache, CacheStopped
from mainstay.client.entry import Change
from mainstay.client.errors import Forbidden
from mainstay.client.indexes import NODE, label
from mainstay.client.informer import Informer, Informers
from mainstay.client.pump import Collection
from mainstay.client.reflector import REWIND_AFTER
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.server.storage.stored import stored
from mainstay.server.watch import feed
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Put
from tests.client.follower import Follower
from tests.client.objects import a_pod, key, raw
from tests.client.pretend_api import PretendApi
from tests.client.world import GATE_PORT, World, a_client, a_gate, a_world
from tests.server.world import a_configmap
from tests.server.world import a_pod as a_new_pod
from tests.twins import caches as twins

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def following(
    sim: Simulation, source: Any, kind: KindName = PODS, *, may_go_back: bool = False, **options: Any
) -> AsyncIterator[tuple[Informer, Follower]]:
    """An informer that runs, and a follower that believes it. In the end the follower must have heard no nonsense."""
    informer = Informer(source, sim.env("client"), Collection(kind), [NODE], **options)
    follower = Follower(informer, may_go_back=may_go_back)
    informer.start()
    try:
        async with tasks.timeout(MINUTE):
            await informer.synced()
        yield informer, follower
        assert follower.problems == []
    finally:
        await informer.stop()


async def a_while(seconds: float = 60) -> None:
    """Long enough for every backoff and repeat."""
    await asyncio.sleep(seconds)


async def bookmarks(api: PretendApi, count: int) -> None:
    """One each second."""
    for _ in range(count):
        api.bookmark()
        await asyncio.sleep(1)


def same_as_a_list(api: PretendApi, informer: Informer, follower: Follower) -> None:
    expected = api.state(api.revision)
    assert [entry.object() for entry in informer.cache.entries()] == list(expected.values())
    held = {entry.key: (entry.uid, entry.revision) for entry in informer.cache.entries()}
    assert follower.objects() == held


async def same_as_a_real_list(world: World, informer: Informer, follower: Follower) -> None:
    page = await world.client.list(informer.collection.kind)
    named = {"kind": informer.collection.kind.kind, "apiVersion": informer.collection.kind.group_version}
    assert [entry.object() for entry in informer.cache.entries()] == [{**named, **item} for item in page.items]
    assert follower.objects() == {entry.key: (entry.uid, entry.revision) for entry in informer.cache.entries()}


def a_stored_configmap(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"{name:-<36}"}, "data": {}}


async def make(world: World, *names: str) -> None:
    for name in names:
        await world.client.create(CONFIG_MAPS, a_configmap(name), "default")


# Following a real server.


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


class Nowhere:
    """Where a connection leads whose other end is gone without a word."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


async def a_silent_connection(sim: Simulation) -> None:
    """Nothing says that the connection is dead; only nothing comes any more."""
    async with (
        a_world(sim) as world,
        a_gate(sim) as gate,
        a_client(sim, f"gate:{GATE_PORT}") as client,
        following(sim, client, CONFIG_MAPS) as (informer, follower),
    ):
        for inside in gate.open:
            inside.transport = Nowhere()  # type: ignore[assignment]
        await make(world, "a")
        await a_while(200)

        await same_as_a_real_list(world, informer, follower)
        assert (informer.counters.disconnects, informer.counters.relists) == (1, 0)


async def compaction_while_a_watch_is_broken(sim: Simulation) -> None:
    """Scenario 23: the history between is gone. What was deleted in it must be told as deleted (2: a node, say)."""
    async with a_world(sim) as world:
        for name in ("stays", "goes", "comes-again"):
            await world.client.create(NODES, {"metadata": {"name": name}})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(feed, "WINDOW_CHANGES_MAX", 2)
            async with following(sim, world.client, NODES) as (informer, follower):
                sim.network.cut("client", "server")
                with sim.network.host("elsewhere").active():
                    async with a_client(sim, name="elsewhere") as client:
                        await client.delete(NODES, "goes")
                        await client.delete(NODES, "comes-again")
                        await client.create(NODES, {"metadata": {"name": "comes-again"}})
                        for number in range(5):
                            await client.create(NODES, {"metadata": {"name": f"new-{number}"}})
                sim.network.heal("client", "server")
                sim.network.reset("client", "server")
                await a_while()

                await same_as_a_real_list(world, informer, follower)
                changes = [(change, name) for change, name, _ in follower.told[3:]]
                assert changes[:2] == [("DELETED", "goes"), ("DELETED", "comes-again")]
                assert ("ADDED", "comes-again") in changes
                assert (informer.counters.expired, informer.counters.relists) == (1, 1)


async def more_than_a_server_holds_for_one_client(sim: Simulation) -> None:
    """It is cut off, and again each time that it comes back for the same."""
    async with a_world(sim) as world, following(sim, world.client, CONFIG_MAPS) as (informer, follower):
        sim.network.cut("server", "client", one_way=True)  # The server's buffer for this client fills up.
        with sim.network.host("elsewhere").active():
            async with a_client(sim, name="elsewhere") as client:
                for number in range(30):
                    await client.create(CONFIG_MAPS, a_configmap(f"big-{number}", blob="x" * 900_000), "default")
        sim.network.heal("client", "server")
        await a_while(200)

        await same_as_a_real_list(world, informer, follower)
        assert informer.counters.relists == 1


# Following one that breaks its promises.


async def repeated_events(sim: Simulation) -> None:
    """Scenario 24: what was told is told again, some of it out of order."""
    api = PretendApi()
    api.put("a")
    async with following(sim, api) as (informer, follower):
        for number in range(4):
            api.put("a", image=f"x:{number}")
            api.put("b")
            api.delete("b")
            await a_while(1)
            api.tell_again(5)
            api.tell_again(2)
            await a_while(1)

        same_as_a_list(api, informer, follower)
        assert len(follower.told) == 1 + 4 * 3
        assert (informer.counters.dropped, informer.counters.relists) == (27, 0)


async def a_member_that_is_behind(sim: Simulation) -> None:
    """Scenario 24: after a reconnect the watch goes back in time, and so would a list."""
    api = PretendApi()
    api.put("a", image="x:1")
    old = api.put("ghost")
    async with following(sim, api) as (informer, follower):
        api.put("a", image="x:2")
        latest = api.delete("ghost")
        await a_while(1)
        api.shown = old
        api.break_streams()
        await a_while(1)
        api.tell("ADDED", a_pod("ghost", old, uid="uid-ghost-2"))  # It replays what it believes to be news.
        await bookmarks(api, 20)
        assert (informer.cache.revision, informer.cache.keys()) == (latest, (key("a"),))

        api.catch_up()
        api.put("c")
        await a_while()
        same_as_a_list(api, informer, follower)
        assert (informer.counters.rewinds, informer.counters.behind > 0) == (0, True)


async def a_bookmark_before_its_time(sim: Simulation) -> None:
    """Scenario 24: a watch says that it has told everything, and then tells what it had left out."""
    api = PretendApi()
    api.put("a")
    async with following(sim, api) as (informer, follower):
        api.shown = api.revision
        api.put("a", image="x:2")
        missed = api.put("b")
        api.bookmark(missed + 5)
        await a_while(1)
        api.put("c")  # Also at a revision that the cache claims to have passed.
        api.catch_up()
        for _ in range(10):
            api.put("d")
        await a_while()

        same_as_a_list(api, informer, follower)
        assert informer.counters.refused > 0


async def a_delete_that_is_never_told(sim: Simulation) -> None:
    """Scenario 2: the DELETE is lost, and everything is relisted for another reason."""
    api = PretendApi()
    api.put("node-1")
    api.put("node-2")
    async with following(sim, api) as (informer, follower):
        api.break_streams()
        api.delete("node-1")
        api.delete("node-2")
        api.put("node-2")
        api.compact()
        await a_while()

        same_as_a_list(api, informer, follower)
        assert [(change, name) for change, name, _ in follower.told[2:]] == [
            ("DELETED", "node-1"), ("DELETED", "node-2"), ("ADDED", "node-2"),
        ]  # fmt: skip
        tombstone = informer.cache.tombstones.get(key("node-1"))
        assert tombstone is not None
        assert tombstone.is_inferred


async def a_state_that_breaks_off(sim: Simulation) -> None:
    """Half a state says nothing about what is not in it."""
    api = PretendApi()
    for number in range(4):
        api.put(f"a{number}")
    async with following(sim, api) as (informer, follower):
        api.break_streams()
        api.put("a-new")  # Comes first in a list.
        api.compact()
        breaking = _breaks_its_first_states(api, 3)
        await a_while()
        breaking()

        same_as_a_list(api, informer, follower)
        assert [change for change, _, _ in follower.told] == ["ADDED"] * 5


async def a_storm(sim: Simulation) -> None:
    """Scenario 23: every watch expires at once. Relists must not become all that is done."""
    api = PretendApi()
    api.put("a")
    async with following(sim, api, streams_state=False):
        api.refuses_watches = True
        api.break_streams()
        await a_while(120)

        assert api.asked.count("list") < 15


def _breaks_its_first_states(api: PretendApi, count: int) -> Callable[[], None]:
    """Let so many watches that begin with the state break off in the middle of it. Returns what undoes that."""
    honest = api.watch
    left = [count]

    @asynccontextmanager
    async def watch(*args: Any, **options: Any) -> AsyncIterator[Any]:
        async with honest(*args, **options) as stream:
            if options["initial_events"] and left[0] > 0:
                left[0] -= 1
                for _ in range(2):
                    stream.told.pop()
                asyncio.get_running_loop().call_later(1, stream.fail)
            yield stream

    api.watch = watch  # type: ignore[method-assign]
    return lambda: setattr(api, "watch", honest)


Scenario = Callable[[Simulation], Awaitable[None]]
SCENARIOS: list[Scenario] = [
    a_silent_connection,
    compaction_while_a_watch_is_broken,
    more_than_a_server_holds_for_one_client,
    repeated_events,
    a_member_that_is_behind,
    a_bookmark_before_its_time,
    a_delete_that_is_never_told,
    a_state_that_breaks_off,
    a_storm,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_cache_comes_out_right_after(sim, scenario: Scenario):
    await scenario(sim)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "scenario"),
    [
        (twins.keeps_what_is_missing_from_a_state, compaction_while_a_watch_is_broken),
        (twins.keeps_what_is_missing_from_a_state, a_delete_that_is_never_told),
        (twins.takes_a_name_for_an_object, compaction_while_a_watch_is_broken),
        (twins.takes_a_name_for_an_object, a_delete_that_is_never_told),
        (twins.goes_on_after_what_has_expired, compaction_while_a_watch_is_broken),
        (twins.comes_back_for_the_same_for_ever, more_than_a_server_holds_for_one_client),
        (twins.believes_an_older_state, a_member_that_is_behind),
        (twins.drops_whatever_is_old, a_bookmark_before_its_time),
        (twins.takes_half_a_state_for_all_of_it, a_state_that_breaks_off),
        (twins.waits_for_ever_for_a_dead_connection, a_silent_connection),
        (twins.lists_again_at_once, a_storm),
    ],
    ids=lambda each: each.__name__,
)
async def test_a_planted_bug_would_be_noticed(sim, monkeypatch, twin: twins.Twin, scenario: Scenario):
    twin(monkeypatch)

    with pytest.raises(AssertionError):
        await scenario(sim)


async def broken_by(sim: Simulation, happen: Callable[[PretendApi], object]) -> str:
    """The rule that is found broken when this happens while a collection is followed."""
    api = PretendApi()
    api.put("a")
    informer = Informer(api, sim.env("client"), Collection(PODS))
    asyncio.get_running_loop().call_later(1, happen, api)
    with pytest.raises(BrokenInvariant) as found:
        await informer._pump.run()
    return found.value.rule


async def test_an_old_event_that_is_applied_is_noticed(sim, monkeypatch):
    twins.applies_whatever_comes(monkeypatch)

    assert await broken_by(sim, lambda api: api.tell_again(1)) == "the revision of a cache grows with each change"


async def test_a_cache_that_is_not_where_its_watch_is_is_noticed(sim, monkeypatch):
    monkeypatch.setattr(Cache, "reached", lambda self, revision: None)

    assert await broken_by(sim, lambda api: api.bookmark(7)) == "a cache is where its watch is"


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


async def test_without_the_rights_it_says_so_and_goes_on_asking(sim):
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
