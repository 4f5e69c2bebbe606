"""What a server checks of itself while it works. Each check is broken here once."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import msgspec
import pytest

from mainstay.env import Chance, tasks
from mainstay.env.invariants import BrokenInvariant, find_broken
from mainstay.http.messages import Headers, Peer, Request
from mainstay.http.streams import StreamMemory
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.decisions.feed import DecisionFeed
from mainstay.server.decisions.objects import rendered
from mainstay.server.placement.ledger.ledger import build_write, ledger_in, ledger_key
from mainstay.server.quota import zone_quota
from mainstay.server.request.app import Api
from mainstay.server.request.audit import Audit
from mainstay.server.request.context import ApiCall
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.served_kinds import build_registry
from mainstay.server.storage.shared_writes import SharedWrite, SharedWrites
from mainstay.server.storage.sums import AddedUp, Sum, SumChecks
from mainstay.server.watch.feed import Feed, ListenerGroup, Window
from mainstay.server.watch.websocket import _Messages
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Committed, DeleteEntry, Entry, KeyChange, Store, WatchBatch
from mainstay.store.local import LocalStore
from mainstay.store.local_watch import LocalWatch
from tests.api.definitions import a_crd
from tests.server.crd.test_definitions import CRDS, World, a_world, put
from tests.server.placement.reservation_cases import RESERVATIONS, a_node, a_reservation, name_of, needing, to
from tests.server.quota.quota_cases import QUOTAS, a_quota
from tests.server.quota.zone_quota_cases import ZONE_QUOTAS, a_zone_quota
from tests.server.world import CONFIGMAPS, PODS, Client, a_configmap, a_server
from tests.store.fake_etcd import FakeEtcd

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def collect_failures() -> list[BaseException]:
    """What ends tasks of the simulation from now on. A test that asks for it looks at it."""
    found: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: found.append(context["exception"]))
    return found


async def require_unready(client: Client, rule: str, *, is_live: bool = True) -> None:
    """A server is live unless what has ended with the invariant is a vital task."""
    ready, alive = [await client.ask("GET", path, Authorization="") for path in ("/readyz", "/livez")]
    assert (ready.status, alive.status) == (500, 200 if is_live else 500)
    assert "[-]invariants failed: reason withheld" in str(ready.body)
    assert rule in str((await client.ask("GET", "/readyz/invariants")).body)


@pytest.fixture
def apis(monkeypatch: pytest.MonkeyPatch) -> list[Api]:
    """The servers that a test starts."""
    found: list[Api] = []
    honest = Api.__init__

    def init(self: Api, *args: Any, **kwargs: Any) -> None:
        honest(self, *args, **kwargs)
        found.append(self)

    monkeypatch.setattr(Api, "__init__", init)
    return found


# What a broken invariant leads to.


async def test_a_request_that_meets_a_broken_invariant_is_answered_500_and_the_server_is_unready(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    async with a_server(sim) as client:
        collect_failures()
        await client.create(CONFIGMAPS, a_configmap("one"))
        honest = LocalStore.commit

        async def commit(self: LocalStore, checks: Any, writes: Any) -> Any:
            await honest(self, checks, writes)
            return Committed(checks[0].revision)

        monkeypatch.setattr(LocalStore, "commit", commit)
        answer = await client.ask("PUT", f"{CONFIGMAPS}/one", a_configmap("one", a="b"))

        assert answer.status == 500
        await require_unready(client, "a write is later than what it was decided from")


async def test_a_store_that_has_lost_track_takes_no_writes_and_the_server_is_unready(sim: Simulation):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        collect_failures()
        store._index.revision += 5

        answers = [await client.ask("POST", CONFIGMAPS, a_configmap("one")) for _ in range(2)]

        # The first may have happened. The server's process ends, and reads the log again (`LocalStore.broken`).
        assert [answer.status for answer in answers] == [504, 503]
        await require_unready(client, "what is durable is published in order")
        assert "what is durable is published in order" in await store.broken()


# Sums.


async def use_everything(client: Client) -> None:
    """Pods, ghosts, reservations and quotas, in a zone and in none."""
    await a_node(client, "n1", "a")
    await a_node(client, "n2")
    await client.create(QUOTAS, a_quota("team", pods="9", requests__cpu="9"))
    await client.create(ZONE_QUOTAS, a_zone_quota("team", cpu="9"))
    for number in range(4):
        await client.create(PODS, needing(f"p-{number}"))
    await client.create(RESERVATIONS, a_reservation("one"))
    await client.create(RESERVATIONS, a_reservation("two", cpu="1"))
    for number, node in enumerate(("n1", "n1", "n2")):
        assert (await client.ask("POST", f"{PODS}/p-{number}/binding", to(node))).status == 201
    await client.patch(f"{PODS}/p-0/status", {"status": {"phase": "Succeeded"}})
    await client.delete(f"{PODS}/p-1", {"gracePeriodSeconds": 0})
    await client.delete(f"{RESERVATIONS}/{name_of('one')}")
    await client.ask("PUT", "/api/v1/nodes/n1/ghosts", {"gone": []})


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sums are checked with every commit, however large they are: their keys."""
    found: list[str] = []
    honest = SumChecks._check_key

    async def check_key(self: SumChecks, each: Sum, key: str, revision: int) -> int:
        found.append(key)
        await honest(self, each, key, revision)
        return 0

    monkeypatch.setattr("mainstay.server.storage.sums.CHECKED_ONE_IN", 1)
    monkeypatch.setattr(SumChecks, "_check_key", check_key)
    return found


async def test_sound_sums_pass_every_check(sim: Simulation, checked: list[str]):
    async with a_server(sim) as client:
        await use_everything(client)

    assert {key: checked.count(key) > 4 for key in sorted(checked)} == {
        "~ledger/n1": True,
        "~ledger/n2": False,
        "~quota/default": True,
        "~zone-quota/default/a": True,
    }
    assert find_broken() is None


async def bind_without_a_charge(client: Client, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.server.placement.charges.charged", lambda ledger, charge: ledger)
    await client.ask("POST", f"{PODS}/one/binding", to("n1"))


async def hold_nothing(client: Client, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.server.placement.reservations.held", lambda ledger, amounts, ports: ledger)
    await client.create(RESERVATIONS, a_reservation("one"))


async def create_what_is_not_counted(client: Client, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("mainstay.server.quota.resource_quota.changed", lambda tally, resource, new, old: tally)
    await client.create(PODS, needing("two"))


async def bind_what_is_not_counted(client: Client, patch: pytest.MonkeyPatch) -> None:
    honest = zone_quota.moved
    # Not where the charges are counted, which begins with nothing.
    patch.setattr(zone_quota, "moved", lambda use, before, after: use if use.quotas else honest(use, before, after))
    await client.ask("POST", f"{PODS}/one/binding", to("n1"))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (bind_without_a_charge, "the ledger of a node is the sum of its charges"),
        (hold_nothing, "the ledger of a node is the sum of its charges"),
        (create_what_is_not_counted, "what is used of a quota is the sum of the objects it counts"),
        (bind_what_is_not_counted, "what is used of a zone quota is the sum of the charges there"),
    ],
)
async def test_a_commit_that_makes_a_sum_wrong_makes_the_server_unready(
    sim: Simulation,
    monkeypatch: pytest.MonkeyPatch,
    checked: list[str],
    damage: Callable[[Client, pytest.MonkeyPatch], Awaitable[None]],
    rule: str,
):
    async with a_server(sim) as client:
        failures = collect_failures()
        await a_node(client, "n1", "a")
        await client.create(QUOTAS, a_quota("team", pods="9"))
        await client.create(ZONE_QUOTAS, a_zone_quota("team", cpu="9"))
        await client.create(PODS, needing("one"))
        await damage(client, monkeypatch)

        assert [type(each) for each in failures] == [BrokenInvariant]
        assert rule in str(failures[0])
        await require_unready(client, rule)


async def test_a_sum_that_was_wrong_before_is_reported_and_breaks_nothing(
    sim: Simulation, checked: list[str], caplog: pytest.LogCaptureFixture
):
    store = await open_memory()
    async with a_server(sim, store=store) as client:
        await a_node(client, "n1")
        await client.create(PODS, needing("one"))
        ledger = ledger_in(await store.get(ledger_key("n1")))
        spoiled = msgspec.structs.replace(ledger, used={"cpu": 7, "pods": 7})
        await store.commit([], [build_write(ledger_key("n1"), spoiled, None)])

        assert (await client.ask("POST", f"{PODS}/one/binding", to("n1"))).status == 201

        assert "~ledger/n1 is not the sum of what it counts" in caplog.text
        assert find_broken() is None


async def test_a_large_sum_is_checked_more_seldom(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.server.storage.sums.CHECKED_ONE_IN", 1)
    store = await open_memory()
    read: list[int] = []

    async def add_up(store: Store, key: str, at: int) -> AddedUp:
        read.append(at)
        return AddedUp(None, None, 3)

    checks = SumChecks(store, {"~count": Sum("it adds up", add_up)})
    for revision in range(100):
        checks.committed([SharedWrite("~count/a", lambda entry: ()), SharedWrite("~other", lambda entry: ())], revision)
        await tasks.turns(3)

    assert read == [0, 30, 60, 90]


# The feed, its windows, and watches.


def a_change(key: str, revision: int, before: int = 0) -> KeyChange:
    previous = Entry(key, b"", 1, before, 1) if before else None
    return KeyChange(revision, key, Entry(key, b"", revision, revision, 1), previous)


class Ear:
    """A listener that only hears."""

    def tell(self, data: bytes) -> None: ...

    def end(self, reason: bytes) -> None: ...

    def lost(self) -> None: ...

    def fail(self, change: KeyChange) -> None: ...


@pytest.mark.parametrize("revision", [4, 5])
def test_a_window_takes_only_later_changes(revision: int):
    window = Window(3)
    window.add([a_change("a", 5)])

    with pytest.raises(BrokenInvariant, match="the revisions of a feed strictly grow: key b: window=5"):
        window.add([a_change("b", revision)])


def test_a_window_takes_nothing_from_before_it_is_complete():
    with pytest.raises(BrokenInvariant, match="the revisions of a feed strictly grow: key a: window=3, change=3"):
        Window(3).add([a_change("a", 3)])


def test_a_window_that_begins_earlier_than_it_says_is_not_read():
    window = Window(3)
    window.add([a_change("a", 5)])
    window.complete_after = 6

    with pytest.raises(BrokenInvariant, match="a window begins where it says: key a: complete_after=6, oldest=5"):
        window.since(7)


def sound_changes() -> list[KeyChange]:
    """One key from before the window, one that is new, and one that goes and comes back."""
    gone = KeyChange(7, "c", None, Entry("c", b"", 6, 6, 1))
    return [a_change("a", 4, 2), a_change("b", 5), a_change("c", 6), gone, a_change("c", 8), a_change("a", 9, 4)]


@pytest.mark.parametrize("missing", [None, 0, 2, 3])
def test_a_window_with_a_gap_is_noticed(monkeypatch: pytest.MonkeyPatch, missing: int | None):
    monkeypatch.setattr("mainstay.server.watch.feed._CHECKED_ONE_IN", 7)
    window = Window(3)
    for change in sound_changes():
        window.add([change])
    if missing is not None:
        del window.changes[missing]
        with pytest.raises(BrokenInvariant, match=r"a window has no gap: key [ac]"):
            window.add([a_change("d", 10)])
    else:
        window.add([a_change("d", 10)])


def test_a_group_is_told_of_a_revision_once():
    window = Window(3)
    window.join("all", lambda change: b"", Ear())
    window.add([a_change("a", 4)])
    [group] = window.groups.values()
    assert isinstance(group, ListenerGroup)

    for again in ([a_change("a", 4)], [a_change("b", 3)]):
        with pytest.raises(BrokenInvariant, match="a watch is told of each revision once, in order"):
            window.tell(again)


async def test_a_feed_that_is_told_of_the_same_revision_twice_stops(monkeypatch: pytest.MonkeyPatch):
    store = await open_memory()
    feed = Feed(store, 3)

    async def again(self: LocalWatch) -> WatchBatch:
        return WatchBatch(3, [a_change("core/pods/default/a", 3)])

    monkeypatch.setattr(LocalWatch, "__anext__", again)
    with pytest.raises(BrokenInvariant, match="the revisions of a feed strictly grow: the store's watch"):
        await feed._follow()


async def test_a_feed_that_stops_lets_its_watches_go_and_takes_no_more(sim: Simulation, apis: list[Api]):
    async with a_server(sim) as client:
        failures = collect_failures()
        made = await client.create(CONFIGMAPS, a_configmap("one"))
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}"
        async with client.watch(path) as events:
            waiting = tasks.begin(apis[0].feed.reach(1000), name="wait")
            apis[0].feed.window("core/configmaps/").complete_after = 1000
            apis[0].feed.window("core/configmaps/").changes.clear()
            await client.create(CONFIGMAPS, a_configmap("two"))

            error = await events.next()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
        with pytest.raises(BrokenInvariant, match="the revisions of a feed strictly grow"):
            await waiting
        for again in (path, f"{CONFIGMAPS}?watch=1"):
            async with client.watch(again) as events:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await events.next()
        assert {type(each) for each in failures} == {BrokenInvariant}
        await require_unready(client, "the revisions of a feed strictly grow", is_live=False)


async def test_a_watch_of_a_window_that_is_ahead_of_its_feed_is_cut_off(sim: Simulation, apis: list[Api]):
    async with a_server(sim) as client:
        collect_failures()
        made = await client.create(CONFIGMAPS, a_configmap("one"))
        revision = int(made["metadata"]["resourceVersion"])
        feed = apis[0].feed
        feed.window("core/configmaps/").changes.append(a_change("core/configmaps/default/two", feed.revision + 1))

        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={revision}") as events:
            with pytest.raises(aiohttp.ClientPayloadError):
                await events.next()
        await require_unready(client, "a window is not ahead of its feed")


def test_decisions_get_growing_numbers(sim: Simulation):
    feed = DecisionFeed(sim.env("server").clock, rendered)
    feed.add([b"one", b"two", b"three"])
    feed.revision -= 1

    with pytest.raises(BrokenInvariant, match="the numbers of decisions strictly grow"):
        feed.add([b"four"])


async def test_the_bytes_that_wait_for_a_websocket_are_those_of_its_lines():
    class Socket:
        memory, waiting_bytes = StreamMemory(1000), 0

        async def send_text(self, text: str) -> bool:
            return True

    messages = _Messages(Socket())  # type: ignore[arg-type]
    messages.write(b"one\ntwo\n")
    messages._waiting_bytes -= 5
    with pytest.raises(BrokenInvariant, match="the bytes that wait are those of the lines that wait"):
        await messages.send_to(Socket())  # type: ignore[arg-type]


# Requests.


async def test_a_stream_that_ends_twice_is_noticed(sim: Simulation):
    metrics = Metrics(sim.env("server").clock)
    metrics.begun("GET")
    metrics.stream_begun("GET", "/logs", None)
    metrics.stream_ended("GET", "/logs", None, 200)

    with pytest.raises(BrokenInvariant, match="a stream ends once, after it began: GET /logs: streams=-1"):
        metrics.stream_ended("GET", "/logs", None, 200)
    metrics.answered("GET", "/logs", None, 200, 0)
    with pytest.raises(BrokenInvariant, match="a request is answered once, after it began: readOnly requests"):
        metrics.render()


async def test_the_bytes_that_wait_for_the_audit_log_are_those_of_its_events(sim: Simulation):
    audit = await Audit.start(sim.env("server").disk, "audit.log", Authenticator({}))
    request = Request("GET", "/version", "/version", "", Headers(()), b"", Peer("10.0.0.1", 4711))
    audit.record(ApiCall(request, "id"), 200, NOON, NOON)
    audit._waiting_bytes += 1

    with pytest.raises(BrokenInvariant, match="the bytes that wait are those of the events that wait"):
        await audit.close()


# Kinds.


def test_a_registry_counts_its_kinds():
    registry = build_registry()
    kind = next(iter(registry))
    registry._counts[kind.group, kind.version] += 1

    with pytest.raises(BrokenInvariant, match="each version of a group counts its kinds"):
        registry.remove(kind)


def find_no_version(world: World) -> None:
    world.definitions._versions.clear()


def serve_another_kind(world: World) -> None:
    [kind] = [each for each in world.registry if each.is_custom]
    world.registry.add(replace(kind, kind="Other"))


@pytest.mark.parametrize("damage", [find_no_version, serve_another_kind])
async def test_a_kind_that_is_not_served_as_it_is_defined_stops_the_definitions(
    sim: Simulation, damage: Callable[[World], None]
):
    world = await a_world(sim)
    failures = collect_failures()
    await put(world.store, a_crd())
    await tasks.sleep(timedelta(seconds=1))
    damage(world)
    await world.store.commit([], [DeleteEntry(f"{CRDS}foos.example.com")])
    await tasks.sleep(timedelta(seconds=1))

    assert [type(each) for each in failures] == [BrokenInvariant]
    assert "a custom kind is served as its definition says" in str(failures[0])


# Writes.


async def test_a_reservation_that_is_over_does_not_begin_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    async with a_server(sim) as client:
        collect_failures()
        await a_node(client, "n1")
        await client.create(RESERVATIONS, a_reservation("one"))
        path = f"{RESERVATIONS}/{name_of('one')}/status"
        await client.patch(path, {"status": {"phase": "Released"}})
        # As if validation let it pass.
        monkeypatch.setattr("mainstay.server.storage.strategies.require_valid", lambda kind, new, old: None)
        answer = await client.ask(
            "PATCH", path, {"status": {"phase": "Active"}}, content_type="application/merge-patch+json"
        )

        assert answer.status == 500
        await require_unready(client, "a reservation that is over stays over")


async def test_a_shared_key_has_one_lane(sim: Simulation):
    shared = SharedWrites(EtcdStore(FakeEtcd().client(), chance=Chance(b"test")))
    lane = shared._lane("~count")
    await lane.__aenter__()
    shared._lanes.clear()

    with pytest.raises(BrokenInvariant, match="a shared key has one lane while there are writers in it: key ~count"):
        await lane.__aexit__()
