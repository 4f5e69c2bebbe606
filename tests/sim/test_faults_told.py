"""What programs are told, and what they are answered, goes wrong in these ways: late by kind, slowly, out of the past,
with real conflicts, and not at all for now."""

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, SECRETS
from mainstay.client.errors import Conflict, Unavailable
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import ResponseSent, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.faults.conflict_storm import ANNOTATION
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import Scene, a_configmap, a_scene, drawn, run, seconds
from tests.twins import faults as twins


def statuses(scene: Scene, who: str = "worker") -> list[int]:
    events = scene.world.history.events
    return [each.status for each in events if isinstance(each, ResponseSent) and each.who == who and each.status != 200]


def test_one_kind_is_heard_of_late_and_the_others_at_once():
    sim = drawn({"fault/reorder/duration": 4})

    async def scene() -> None:
        async with a_scene(sim) as it:
            with sim.network.host("worker").active():
                informers = Informers(it.clients[-1], sim.env("worker"))
                secrets = informers.get(SECRETS, "default")
                await informers.synced()
                TIMED["reorder"].strike(it.world)
                await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
                await it.admin.create(SECRETS, {"metadata": {"name": "two"}}, "default")
                await tasks.sleep(seconds(5))
                assert it.known() == []
                assert [entry.key.name for entry in secrets.cache.entries()] == ["two"]
                await tasks.sleep(seconds(6))
                assert it.known() == ["one"]
                assert it.informers[-1].counters.disconnects == 0

    run(sim, scene)


def test_a_kind_that_is_held_back_is_so_for_new_watches_too():
    sim = drawn({"fault/reorder/duration": 4})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            with sim.network.host("worker").active():
                informers = Informers(it.clients[-1], sim.env("worker"))
                informers.get(SECRETS, "default")
                await informers.synced()
                TIMED["reorder"].strike(it.world)
                sim.network.reset("worker", "server-0")
                await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
                await tasks.sleep(seconds(5))
                assert it.known() == []
                await it.world.heal()
                await tasks.sleep(seconds(1))
                assert it.known() == ["one"]

    run(sim, scene)


def test_who_reads_slowly_lags_behind_and_catches_up():
    sim = drawn({"fault/slow-consumer/pace": 2, "fault/slow-consumer/duration": 5})

    async def scene() -> None:
        async with a_scene(sim) as it:
            TIMED["slow-consumer"].strike(it.world)
            for number in range(20):
                await it.admin.create(CONFIG_MAPS, a_configmap(f"map-{number:02}"), "default")
                await tasks.sleep(seconds(0.1))
            await tasks.sleep(seconds(4))
            assert 0 < len(it.known()) < 10
            await tasks.sleep(seconds(20))
            assert len(it.known()) == 20
            assert it.informers[-1].counters.disconnects == 0

    run(sim, scene)


def test_who_has_too_much_to_read_is_cut_off_and_misses_nothing():
    sim = drawn({"fault/slow-consumer/pace": 2, "fault/slow-consumer/room": 2, "fault/slow-consumer/duration": 4})

    async def scene() -> None:
        async with a_scene(sim) as it:
            TIMED["slow-consumer"].strike(it.world)
            for number in range(30):
                await it.admin.create(CONFIG_MAPS, a_configmap(f"map-{number:02}", text="x" * 300), "default")
                await tasks.sleep(seconds(0.1))
            await tasks.sleep(seconds(60))
            assert it.informers[-1].counters.disconnects > 0
            assert len(it.known()) == 30

    run(sim, scene)


@pytest.mark.parametrize(("fault", "first"), [("stale-start", [["one"]]), ("stale-server", [])])
def test_a_server_in_the_past_lets_newcomers_wait_or_shows_them_what_was(fault: str, first: list[list[str]]):
    sim = drawn({f"fault/{fault}/duration": 4})

    async def scene() -> None:
        world = World(sim)
        world.add_server("server-0")
        world.know("admin")
        known: list[list[str]] = []

        async def main(env: Env) -> None:
            async with world.client_for("worker", env) as client:
                following = Informers(client, env)
                informer = following.get(CONFIG_MAPS, "default")
                await following.synced()
                for _ in range(2):
                    known.append([entry.key.name for entry in informer.cache.entries()])
                    await tasks.sleep(seconds(15))

        await world.boot()
        with sim.network.host("admin").active():
            async with world.client_for("admin", sim.env("admin")) as admin:
                await admin.create(CONFIG_MAPS, a_configmap("one"), "default")
                TIMED[fault].strike(world)
                await tasks.sleep(seconds(0.1))
                for name in ("two", "three"):
                    await admin.create(CONFIG_MAPS, a_configmap(name), "default")
                await admin.delete(CONFIG_MAPS, "one", "default")
                listed = await admin.list(CONFIG_MAPS, "default")
                world.add_program("worker", main).start()
                await tasks.sleep(seconds(16))
        assert [item["metadata"]["name"] for item in listed.items] == ["three", "two"]
        assert known == [*first, ["three", "two"]]

    run(sim, scene)


def test_a_cache_that_knows_more_than_a_server_shows_does_not_go_back():
    run_stale()


def test_a_cache_that_believes_whatever_it_is_shown_goes_back(monkeypatch: pytest.MonkeyPatch):
    twins.believes_whatever_state_it_is_shown(monkeypatch)
    with pytest.raises(AssertionError, match="one"):
        run_stale()


def run_stale() -> None:
    """A server shows an old state to all who watch it. What the worker knows must stay."""
    sim = drawn(
        {
            "fault/stale-server/duration": 4,
            "fault/stale-server/revisions-back": 1,
            "fault/stale-server/forgets": 1,
        }
    )

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            for name in ("one", "two", "three"):
                await it.admin.create(CONFIG_MAPS, a_configmap(name), "default")
            await tasks.sleep(seconds(1))
            TIMED["stale-server"].strike(it.world)
            for _ in range(25):
                await tasks.sleep(seconds(1))
                assert it.known() == ["one", "three", "two"]
            assert it.informers[-1].counters.refused > 0

    run(sim, scene)


def test_a_write_that_names_a_version_meets_a_real_conflict():
    sim = Simulation(tape=Tape([Choice("fault/conflict-storm/worker", turn, 2, 1) for turn in range(100)]))

    async def scene() -> None:
        async with a_scene(sim) as it:
            made = await it.write("one")
            TIMED["conflict-storm"].strike(it.world)
            with sim.network.host("worker").active():
                client = it.clients[-1]
                with pytest.raises(Conflict):
                    await client.replace(CONFIG_MAPS, made | {"data": {"a": "b"}})
                now = await it.admin.get(CONFIG_MAPS, "one", "default")
                assert now["metadata"]["annotations"] == {ANNOTATION: "1"}
                assert "data" not in now
                await tasks.sleep(seconds(1))
                await client.replace(CONFIG_MAPS, now | {"data": {"a": "b"}})
            assert statuses(it) == [201, 409]
            touches = [
                each for each in it.world.history.events if isinstance(each, RevisionCommitted) and "maps" in each.key
            ]
            assert [each.request is None for each in touches] == [False, True, False]

    run(sim, scene)


def test_a_write_that_names_no_version_goes_through_when_others_let_it():
    sim = Simulation(tape=Tape([Choice("fault/conflict-storm/worker", 0, 2, 1)]))

    async def scene() -> None:
        async with a_scene(sim) as it:
            await it.write("one")
            TIMED["conflict-storm"].strike(it.world)
            with sim.network.host("worker").active():
                await it.clients[-1].patch(CONFIG_MAPS, "one", "default", {"data": {"a": "b"}})
            now = await it.admin.get(CONFIG_MAPS, "one", "default")
            assert (now["metadata"]["annotations"], now["data"]) == ({ANNOTATION: "1"}, {"a": "b"})

    run(sim, scene)


def test_a_server_that_has_too_much_to_do_turns_requests_away_and_clients_come_back():
    sim = drawn({"fault/overloaded/server-0/worker": 1})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["overloaded"].strike(it.world)
            began = sim.loop.time()
            await it.write("one")
            assert statuses(it) == [429, 201]
            assert sim.loop.time() - began >= 1
            await tasks.sleep(seconds(1))
            assert it.world.faults.refusing == []

    run(sim, scene)


def test_a_server_that_says_only_that_it_cannot_has_not_done_it():
    sim = drawn({"fault/overloaded/answer": 1, "fault/overloaded/server-0/worker": 1})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["overloaded"].strike(it.world)
            with pytest.raises(Unavailable):
                await it.write("one")
            assert not await it.exists("one")
            await it.write("two")

    run(sim, scene)
