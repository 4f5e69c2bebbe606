"""Caches that come out right after everything that can happen on the way, and the bugs that would be noticed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, NODES, PODS
from mainstay.client.cache import Cache
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.env.invariants import BrokenInvariant
from mainstay.server.watch import feed
from mainstay.sim.simulation import Simulation
from tests.client.informing import (
    a_while,
    bookmarks,
    following,
    make,
    same_as_a_list,
    same_as_a_real_list,
)
from tests.client.objects import a_pod, key
from tests.client.pretend_api import PretendApi
from tests.client.world import GATE_PORT, a_client, a_gate, a_world
from tests.server.world import a_configmap
from tests.twins import caches as twins


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
        await a_while(60)  # The server forgets large changes after 75 s, which would end any repetition.

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
