"""The scenario of caches that follow a store through an unreliable network, from a server that is not always itself.

A run writes at random into the store of a real API server, while three informers follow it over the simulated network:
one that streams the state, one that lists by pages, one that selects. Meanwhile connections break, are cut and delayed,
the server forgets its history, events come twice and out of order, and watches are refused. Now and then, and in the
end when all is healed, each cache must be exactly what there was at the revision it claims to have reached; in the end
also what a fresh list gives. `run(seed)` raises `Broken` if a promise was broken, and says which."""

import asyncio
import bisect
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client, RawPage
from mainstay.client.errors import Expired, Unavailable
from mainstay.client.indexes import NAMESPACE, label
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection, PumpEvent, PumpWatch
from mainstay.server.storage.stored import stored
from mainstay.server.watch import feed
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Committed, DeleteEntry, Put, Store
from tests.client.follower import Follower
from tests.client.world import a_client
from tests.server.world import a_server

NAMES = 60
WINDOW = 150  # Changes that the server keeps. A client that is away for longer has to list again.
SELECTED = "tier=gold"
SETTLING = timedelta(minutes=10)


class Broken(AssertionError):
    """A promise of a cache was broken."""


@dataclass
class Happened:
    """What was written, as it must be found: for each key when it became what."""

    revisions: dict[ObjectKey, list[int]] = field(default_factory=dict)
    states: dict[ObjectKey, list[tuple[str, str] | None]] = field(default_factory=dict)
    """Uid and tier; None when it was deleted."""
    made: int = 0
    written: int = 0

    def note(self, key: ObjectKey, revision: int, state: tuple[str, str] | None) -> None:
        self.revisions.setdefault(key, []).append(revision)
        self.states.setdefault(key, []).append(state)

    def latest(self, key: ObjectKey) -> tuple[str, str] | None:
        return self.states[key][-1] if key in self.states else None

    def at(self, revision: int, *, tier: str = "") -> dict[ObjectKey, tuple[str, int]]:
        """Uid and revision of everything that was there, of one tier or of all."""
        found = {}
        for key in sorted(self.revisions):
            number = bisect.bisect_right(self.revisions[key], revision) - 1
            state = self.states[key][number] if number >= 0 else None
            if state is not None and tier in ("", state[1]):
                found[key] = (state[0], self.revisions[key][number])
        return found


def run(seed: int, writes: int = 10_000) -> str:
    """One run. Raises `Broken` if a promise was broken. Returns the digest of all that happened."""
    before, feed.WINDOW_CHANGES_MAX = feed.WINDOW_CHANGES_MAX, WINDOW  # type: ignore[misc]
    try:
        with Simulation(seed) as simulation:
            simulation.run(_run(simulation, random.Random(seed), writes))
            return simulation.digest
    finally:
        feed.WINDOW_CHANGES_MAX = before  # type: ignore[misc]


async def _run(simulation: Simulation, chance: random.Random, writes: int) -> None:
    store = await open_memory()
    happened = Happened()
    async with a_server(simulation, "server", store), a_client(simulation) as client:
        unruly = Unruly(client, chance)
        informers = [
            Informer(unruly, simulation.env("one"), Collection(CONFIG_MAPS), [NAMESPACE, label("tier")]),
            Informer(unruly, simulation.env("two"), Collection(CONFIG_MAPS), streams_state=False, page_limit=7),
            Informer(unruly, simulation.env("three"), Collection(CONFIG_MAPS, labels=SELECTED)),
        ]
        followers = [Follower(informer) for informer in informers]
        for informer in informers:
            informer.start()
        for _ in range(writes):
            await _write(store, happened, chance)
            if chance.random() < 0.1:
                await asyncio.sleep(chance.choice([0.0001, 0.001, 0.01, 0.1, 0.5]))
            if chance.random() < 0.01:
                await _misfortune(simulation, store, unruly, chance)
            if chance.random() < 0.02:
                _compare(informers, followers, happened)
        simulation.network.heal_all()
        simulation.network.set_latency("client", "server", timedelta(milliseconds=1))
        unruly.is_calm = True
        # One last change that all clients get: no bookmark tells one that has just come back that it is up to date.
        await _put(store, happened, ObjectKey("red", "last"), "gold")
        latest = await store.revision()
        try:
            async with asyncio.timeout(SETTLING.total_seconds()):
                for informer in informers:
                    await informer.cache.wait_until(latest)
        except TimeoutError:
            stuck = [(str(each.collection), each.cache.revision, each.counters, each.last_error) for each in informers]
            raise Broken(f"not at {latest} after {SETTLING}: {stuck}") from None
        _compare(informers, followers, happened)
        for informer in informers:
            await _compare_with_a_list(informer, client)
            await informer.stop()


async def _write(store: Store, happened: Happened, chance: random.Random) -> None:
    key = ObjectKey(chance.choice(["blue", "red"]), f"c{chance.randrange(NAMES)}")
    if happened.latest(key) is None or chance.random() < 0.7:
        await _put(store, happened, key, chance.choice(["gold", "tin"]))
    else:
        answer = await store.commit([], [DeleteEntry(_place(key))])
        assert isinstance(answer, Committed)
        happened.note(key, answer.revision, None)


async def _put(store: Store, happened: Happened, key: ObjectKey, tier: str) -> None:
    there = happened.latest(key)
    happened.made += there is None
    uid = there[0] if there is not None else f"{happened.made:036}"
    metadata = {"name": key.name, "namespace": key.namespace, "uid": uid, "labels": {"tier": tier}}
    happened.written += 1
    value = stored({"metadata": metadata, "data": {"n": str(happened.written)}})
    answer = await store.commit([], [Put(_place(key), value)])
    assert isinstance(answer, Committed)
    happened.note(key, answer.revision, (uid, tier))


def _place(key: ObjectKey) -> str:
    return f"core/configmaps/{key.namespace}/{key.name}"


async def _misfortune(simulation: Simulation, store: Store, unruly: "Unruly", chance: random.Random) -> None:
    network = simulation.network
    match chance.randrange(7):
        case 0:
            network.reset("client", "server")
        case 1:
            network.cut("client", "server")
            simulation.loop.call_later(chance.choice([0.1, 1.0, 20.0]), network.heal, "client", "server")
        case 2:
            network.cut("server", "client", one_way=True)
            simulation.loop.call_later(chance.choice([0.1, 1.0, 20.0]), network.heal, "client", "server")
        case 3:
            latency, jitter = chance.choice([(0.0002, 0), (0.05, 0.05), (0.5, 2.0)])
            network.set_latency("client", "server", timedelta(seconds=latency), jitter=timedelta(seconds=jitter))
        case 4:
            await store.compact(await store.revision())
        case 5:
            unruly.refused = chance.choice([1, 2, 6])
        case 6:
            await asyncio.sleep(chance.choice([1, 5, 30]))


def _compare(informers: Sequence[Informer], followers: Sequence[Follower], happened: Happened) -> None:
    for informer, follower in zip(informers, followers, strict=True):
        cache = informer.cache
        expected = happened.at(cache.revision, tier="gold" if informer.collection.labels else "")
        found = {entry.key: (entry.uid, entry.revision) for entry in cache.entries()}
        if cache.is_synced and found != expected:
            raise Broken(f"{informer.collection} at {cache.revision}: {_difference(found, expected)}")
        if follower.problems or follower.objects() != found:
            raise Broken(f"{informer.collection}: subscribers were told {follower.problems or 'something else'}")
        for index in cache.indexes:
            _compare_index(informer, index.name)


def _compare_index(informer: Informer, index: str) -> None:
    cache = informer.cache
    number = [each.name for each in cache.indexes].index(index)
    expected: dict[str, list[ObjectKey]] = {}
    for entry in cache.entries():
        for value in entry.values[number]:
            expected.setdefault(value, []).append(entry.key)
    found = {value: list(cache.by(index, value)) for value in cache.values(index)}
    if found != expected:
        raise Broken(f"{informer.collection} by {index}: {found} instead of {expected}")


async def _compare_with_a_list(informer: Informer, client: Client) -> None:
    where = informer.collection
    page = await client.list(where.kind, labels=where.labels)
    listed = [{"kind": where.kind.kind, "apiVersion": where.kind.group_version, **item} for item in page.items]
    cached = [entry.object() for entry in informer.cache.entries()]
    # The server lists by key in the store, where `/` comes between namespace and name; caches sort by the two.
    listed.sort(key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))
    if cached != listed:
        raise Broken(f"{where}: {len(cached)} objects, and a list gives {len(listed)}, or others")


def _difference(found: dict[ObjectKey, Any], expected: dict[ObjectKey, Any]) -> str:
    wrong = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    return "; ".join(f"{key} is {found.get(key)}, was {expected.get(key)}" for key in wrong[:5])


class Unruly:
    """A client through which events come twice, late and out of order. Implements `PumpSource` (pump.py)."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self._client = client
        self._chance = chance
        self.is_calm = False
        self.refused = 0
        """So many watches are refused as expired."""

    async def list_raw(self, *args: Any, **options: Any) -> RawPage:
        page = await self._client.list_raw(*args, **options)
        if not self.is_calm and self._chance.random() < 0.05:
            raise Unavailable("the answer was lost")
        return page

    @asynccontextmanager
    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[PumpWatch]:
        if self.refused > 0 and not options["initial_events"] and not self.is_calm:
            self.refused -= 1
            raise Expired("too old resource version")
        async with self._client.watch(*args, **options) as stream:
            yield _UnrulyStream(self, stream, self._chance, is_state=options["initial_events"])


class _UnrulyStream:
    def __init__(self, unruly: Unruly, stream: PumpWatch, chance: random.Random, *, is_state: bool) -> None:
        self._unruly = unruly
        self._stream = stream
        self._chance = chance
        self._is_state = is_state
        self._is_broken = False
        self._past: deque[PumpEvent] = deque(maxlen=30)

    async def fetch(self, count_max: int) -> Sequence[PumpEvent]:
        if self._is_broken:
            raise Unavailable("the connection broke")
        events = await self._stream.fetch(count_max)
        if self._unruly.is_calm:
            return events
        disorder = self._chance.random()
        if self._is_state and disorder < 0.3:
            self._is_broken = True
            return events[: self._chance.randrange(1, 1 + len(events))]
        told: list[PumpEvent] = []
        for event in events:
            told.append(event)
            # Up to the end of the state an old event would be a lie, not a repeat.
            if self._is_state:
                self._is_state = event.type != "BOOKMARK"
                continue
            if event.type != "BOOKMARK":
                self._past.append(event)
            if disorder < 0.1 and self._past:
                told += self._chance.choices(self._past, k=3)
        if disorder > 0.97:
            await asyncio.sleep(self._chance.choice([0.01, 1, 10]))
        if disorder > 0.99:
            raise Unavailable("the connection broke")
        return told
