"""Definitions come and go, and the kinds that are served with them."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainstay.api.custom import CLEANUP, acceptance, is_established
from mainstay.api.kind import Kind, Object
from mainstay.env import tasks
from mainstay.server.crd import definitions
from mainstay.server.crd.definitions import DefinitionPlan, Definitions, DefinitionView, ServedVerbs, decide
from mainstay.server.request.served_kinds import Registry
from mainstay.server.storage.stored import stored
from mainstay.server.watch.feed import Feed
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.errors import StoreUnavailable
from mainstay.store.interface import DeleteEntry, Put, Store
from mainstay.store.local import LocalStore
from tests.api.definitions import NOON, a_crd, a_version
from tests.twins import definitions as twins

CRDS = "apiextensions.k8s.io/customresourcedefinitions/"
BUILTIN = Kind(
    group="apps", version="v1", kind="Deployment", plural="deployments", singular="deployment", namespaced=True
)


@dataclass
class World:
    store: LocalStore
    feed: Feed
    registry: Registry
    definitions: Definitions

    def served(self) -> list[str]:
        return [f"{kind.plural}.{kind.group}/{kind.version}" for kind in self.registry if kind.is_custom]


async def a_server(sim: Simulation, store: LocalStore, name: str = "server") -> World:
    feed = await Feed.start(store)
    registry = Registry([BUILTIN])
    following = Definitions(store, feed, registry, sim.env(name).clock)
    await following.start()
    return World(store, feed, registry, following)


async def a_world(sim: Simulation) -> World:
    return await a_server(sim, await open_memory())


async def put(store: Store, crd: Object) -> None:
    await store.commit([], [Put(CRDS + crd["metadata"]["name"], stored(crd))])


async def get(store: Store, name: str = "foos.example.com") -> Object | None:
    entry = await store.get(CRDS + name)
    return None if entry is None else definitions._read(entry)


async def there(store: Store, name: str = "foos.example.com") -> Object:
    crd = await get(store, name)
    assert crd is not None
    return crd


async def begin_to_delete(store: Store, name: str = "foos.example.com") -> None:
    crd = await there(store, name)
    crd["metadata"]["deletionTimestamp"] = NOON
    await put(store, crd)


async def put_object(store: Store, name: str, **metadata: Any) -> None:
    obj = {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": {}}
    await store.commit([], [Put(f"example.com/foos/default/{name}", stored(obj))])


async def objects(store: Store) -> list[str]:
    return [entry.key.rpartition("/")[2] for entry in (await store.range("example.com/foos/")).entries]


async def a_moment(seconds: float = 0.5) -> None:
    await tasks.sleep(timedelta(seconds=seconds))


def conditions(crd: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in crd["status"]["conditions"]}


def a_view(crd: Object, *others: Object, has_objects: bool = False) -> DefinitionView:
    return DefinitionView(crd, others, (BUILTIN,), has_objects, NOON)


def an_established(crd: Object, *finalizers: str, is_deleted: bool = False) -> Object:
    established = {**crd, "status": acceptance(crd, (), (), NOON)}
    established["metadata"] = {**crd["metadata"], "finalizers": list(finalizers or (CLEANUP,))}
    if is_deleted:
        established["metadata"]["deletionTimestamp"] = NOON
    return established


# What is decided.


def test_a_new_definition_is_established_held_and_served():
    assert decide(a_view(a_crd())) == DefinitionPlan(ServedVerbs.ALL, an_established(a_crd()))


def test_a_definition_that_is_as_it_must_be_stays_as_it_is():
    crd = an_established(a_crd())

    assert decide(a_view(crd)) == DefinitionPlan(ServedVerbs.ALL, crd)


def test_a_definition_in_conflict_is_not_served():
    plan = decide(a_view(a_crd("bars", "Foo"), an_established(a_crd())))

    assert plan.service is ServedVerbs.NONE
    assert plan.wanted is not None
    assert not is_established(plan.wanted)


def test_while_there_are_objects_a_deleted_definition_takes_no_new_ones():
    plan = decide(a_view(an_established(a_crd(), is_deleted=True), has_objects=True))

    assert (plan.service, plan.clears_objects) == (ServedVerbs.WITHOUT_CREATE, True)
    assert plan.wanted is not None
    assert plan.wanted["status"]["conditions"][-1] == {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": NOON,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }


def test_without_objects_a_deleted_definition_goes():
    assert decide(a_view(an_established(a_crd(), is_deleted=True))) == DefinitionPlan(ServedVerbs.NONE, None)


def test_a_deleted_definition_that_others_hold_waits_for_them():
    plan = decide(a_view(an_established(a_crd(), CLEANUP, "example.com/other", is_deleted=True)))

    assert plan.wanted is not None
    assert plan.wanted["metadata"]["finalizers"] == ["example.com/other"]
    assert decide(a_view(plan.wanted)) == DefinitionPlan(ServedVerbs.NONE, plan.wanted)


def test_objects_of_a_kind_that_is_always_there_are_never_cleared():
    crd = an_established(a_crd("deployments", "Deployment", group="apps"), is_deleted=True)
    crd["metadata"]["name"] = "deployments.apps"

    assert decide(a_view(crd, has_objects=True)) == DefinitionPlan(ServedVerbs.NONE, None)


def test_what_is_no_definition_at_all_is_left_alone():
    broken = {"metadata": {"name": "x.example.com"}, "spec": {"names": 3}}

    assert decide(a_view(broken)) == DefinitionPlan(ServedVerbs.NONE, broken)


# What then happens.


async def test_a_definition_is_served_and_established(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()

    crd = await there(world.store)
    assert conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    assert crd["metadata"]["finalizers"] == [CLEANUP]
    assert world.served() == ["foos.example.com/v1"]


async def test_definitions_are_settled_one_per_turn_of_the_loop(sim, monkeypatch):
    world = await a_world(sim)
    for number in range(8):
        await put(world.store, a_crd(f"foo{number}s", f"Foo{number}"))
    await a_moment()
    turn, at = 0, []
    honest = definitions.decide

    def decide_and_note(view: DefinitionView) -> DefinitionPlan:
        at.append(turn)
        return honest(view)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await tasks.turns(1)

    monkeypatch.setattr(definitions, "decide", decide_and_note)
    counting = tasks.spawn(count_turns(), name="count turns")
    # Other names for one: all of its group are looked at again, which may have got theirs back.
    world.definitions._ask_for(CRDS + f"foo{number}s.example.com" for number in range(8))
    while len(at) < 8:
        await tasks.turns(1)
    await tasks.stop(counting)

    assert len(set(at)) == 8


async def test_who_sees_that_it_is_established_finds_it_served(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())

    while not is_established(await there(world.store)):
        await asyncio.sleep(0)

    assert world.served() == ["foos.example.com/v1"]


async def test_versions_that_come_and_go_are_followed(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    crd = await there(world.store)
    crd["spec"]["versions"] = [a_version("v1", storage=False, served=False), a_version("v2")]
    await put(world.store, crd)
    await a_moment()

    assert world.served() == ["foos.example.com/v2"]
    assert (await there(world.store))["status"]["storedVersions"] == ["v1", "v2"]


async def test_a_changed_schema_is_the_one_that_counts(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    crd = await there(world.store)
    crd["spec"]["versions"] = [a_version(spec={"type": "object", "properties": {"size": {"type": "string"}}})]
    await put(world.store, crd)
    await a_moment()

    kind = world.registry.find("example.com", "v1", "foos")
    assert kind is not None
    assert kind.validate({"spec": {"size": "large"}}, None) == []
    version = world.definitions.find_version(kind)
    assert version is not None
    assert version.kind is kind


async def test_served_kinds_stay_when_only_the_status_changes(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    generation = world.registry.generation
    crd = await there(world.store)
    crd["metadata"]["labels"] = {"a": "b"}
    await put(world.store, crd)
    await a_moment()

    assert world.registry.generation == generation


async def test_what_is_deleted_goes_with_all_its_objects(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    for number in range(100):
        await put_object(world.store, f"foo-{number:03}")
    await begin_to_delete(world.store)
    await a_moment()

    assert await objects(world.store) == []
    assert await get(world.store) is None
    assert world.served() == []


async def test_objects_with_finalizers_are_waited_for(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    await put_object(world.store, "held", finalizers=["example.com/hold"], generation=1)
    await put_object(world.store, "free")
    await begin_to_delete(world.store)
    await a_moment(10)

    assert await objects(world.store) == ["held"]
    assert conditions(await there(world.store))["Terminating"] == "True"
    kind = world.registry.find("example.com", "v1", "foos")
    assert kind is not None
    assert "create" not in kind.verbs
    entry = await world.store.get("example.com/foos/default/held")
    assert entry is not None
    assert definitions._read(entry)["metadata"]["deletionTimestamp"]

    await world.store.commit([], [DeleteEntry("example.com/foos/default/held")])
    await a_moment(2)

    assert await get(world.store) is None
    assert world.served() == []


async def test_objects_that_lost_their_definition_are_removed(sim):
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    await put_object(world.store, "late", finalizers=["example.com/hold"])
    await world.store.commit([], [DeleteEntry(CRDS + "foos.example.com")])
    await a_moment()

    assert (await objects(world.store), world.served()) == ([], [])


async def test_a_name_becomes_free_when_its_definition_goes(sim):
    world = await a_world(sim)
    await put(world.store, a_crd("foos", "Foo"))
    await a_moment()
    await put(world.store, a_crd("bars", "Foo"))
    await a_moment()
    assert world.served() == ["foos.example.com/v1"]

    await begin_to_delete(world.store)
    await a_moment()

    assert conditions(await there(world.store, "bars.example.com")) == {"NamesAccepted": "True", "Established": "True"}
    assert world.served() == ["bars.example.com/v1"]


async def test_a_kind_that_is_always_there_is_not_replaced(sim):
    world = await a_world(sim)
    crd = a_crd("deployments", "Deployment", group="apps.example.com")
    crd["spec"]["group"], crd["metadata"]["name"] = "apps", "deployments.apps"
    await put(world.store, crd)
    await a_moment()

    assert world.registry.find("apps", "v1", "deployments") is BUILTIN


async def test_a_restarted_server_serves_at_once_what_was_established(sim):
    store = await open_memory()
    first = await a_server(sim, store)
    await put(store, a_crd())
    await a_moment()
    await first.definitions.stop()
    await first.feed.stop()

    assert (await a_server(sim, store)).served() == ["foos.example.com/v1"]


async def test_a_restarted_server_takes_up_what_was_left_undone(sim):
    store = await open_memory()
    first = await a_server(sim, store)
    await put(store, a_crd())
    await a_moment()
    await first.definitions.stop()
    await first.feed.stop()
    await put_object(store, "one")
    await begin_to_delete(store)
    await put(store, a_crd("bars", "Bar"))

    second = await a_server(sim, store)
    await a_moment(2)

    assert (await objects(store), second.served()) == ([], ["bars.example.com/v1"])


async def test_a_store_that_fails_for_a_while_is_asked_again(sim, monkeypatch):
    world = await a_world(sim)
    honest = LocalStore.commit

    async def unavailable(self: LocalStore, checks: Any, writes: Any) -> Any:
        raise StoreUnavailable("not now")

    await put(world.store, a_crd())
    monkeypatch.setattr(LocalStore, "commit", unavailable)
    await a_moment(5)
    monkeypatch.setattr(LocalStore, "commit", honest)
    await a_moment(5)

    assert is_established(await there(world.store))


async def writes_after_rest(sim: Simulation) -> int:
    """How much is still written an hour after a definition came, by two servers."""
    store = await open_memory()
    await a_server(sim, store, "one")
    await a_server(sim, store, "two")
    await put(store, a_crd())
    await a_moment()
    revision = await store.revision()
    await a_moment(3600)
    return await store.revision() - revision


async def test_two_servers_come_to_rest(sim):
    assert await writes_after_rest(sim) == 0


async def test_a_status_that_is_written_again_and_again_would_be_noticed(sim, monkeypatch):
    twins.writes_whenever_it_looks(monkeypatch)
    world = await a_world(sim)
    await put(world.store, a_crd())
    for _ in range(1000):
        await asyncio.sleep(0)
    revision = await world.store.revision()
    for _ in range(1000):
        await asyncio.sleep(0)

    assert await world.store.revision() > revision
    await world.definitions.stop()


class SlowStore:
    """A store whose commits take a second to get there."""

    def __init__(self, store: LocalStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, checks: Any, writes: Any) -> Any:
        await tasks.sleep(timedelta(seconds=1))
        return await self._store.commit(checks, writes)


async def owners_of_one_name(sim: Simulation) -> int:
    """Two servers, each of which is about to give the same name to another definition when the other one does."""
    store = await open_memory()
    slow: Any = SlowStore(store)
    await a_server(sim, slow, "one")
    await put(store, a_crd("foos", "Foo"))
    await a_moment()
    await put(store, a_crd("bars", "Foo"))
    await a_server(sim, slow, "two")
    await a_moment(20)
    crds = [await there(store, f"{plural}.example.com") for plural in ("foos", "bars")]
    return sum(is_established(crd) for crd in crds)


async def test_one_name_is_given_once(sim):
    assert await owners_of_one_name(sim) == 1


async def test_a_name_that_is_given_twice_would_be_noticed(sim, monkeypatch):
    twins.gives_names_without_asking_who_else_does(monkeypatch)

    assert await owners_of_one_name(sim) == 2


async def test_objects_that_are_left_behind_would_be_noticed(sim, monkeypatch):
    twins.lets_go_before_the_objects_are_gone(monkeypatch)
    world = await a_world(sim)
    await put(world.store, a_crd())
    await a_moment()
    await put_object(world.store, "one")
    await begin_to_delete(world.store)
    await a_moment()

    assert await objects(world.store) == ["one"]
