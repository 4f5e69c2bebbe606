"""Faults that overlap do not end each other: what two of them want holds until the second has let go of it."""

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, LEASES
from mainstay.env import tasks
from mainstay.sim.cluster.store_proxy import STALE_READER, StaleReader
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from mainstay.sim.strategies.priorities import STEPS, PriorityStrategy
from tests.sim.fault_scene import Scene, a_configmap, a_scene, drawn, run, seconds

LONG = 6  # Of the durations: forty seconds. The first, which all others have, is half a second.


@pytest.mark.parametrize("is_inward", [0, 1])
def test_a_cut_outlasts_a_shorter_one_way_cut_between_the_same_two(is_inward: int):
    sim = drawn({"fault/cut/duration": LONG, "fault/one-way-cut/direction": is_inward})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            ways = sim.network.link("worker", "server-0"), sim.network.link("server-0", "worker")
            TIMED["cut"].strike(it.world)
            TIMED["one-way-cut"].strike(it.world)
            await tasks.sleep(seconds(39))
            assert [link.is_open for link in ways] == [False, False]
            await tasks.sleep(seconds(2))
            assert [link.is_open for link in ways] == [True, True]

    run(sim, scene)


def test_a_leader_that_is_cut_off_stays_so_when_a_shorter_cut_is_over():
    sim = drawn({"fault/leader-loss/cut": 1})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            spec = {"holderIdentity": "worker_1234", "leaseDurationSeconds": 15}
            lease = {"metadata": {"name": "lease", "namespace": "default"}, "spec": spec}
            await it.admin.create(LEASES, lease, "default")
            TIMED["leader-loss"].strike(it.world)
            await tasks.sleep(seconds(0.1))
            TIMED["cut"].strike(it.world)
            await tasks.sleep(seconds(17))
            assert not sim.network.link("worker", "server-0").is_open

    run(sim, scene)


async def test_healing_ends_all_cuts_and_who_lets_go_later_ends_no_other(sim: Simulation):
    network = sim.network
    link = network.link("a", "b")
    first, second = network.cut("a", "b"), network.cut("a", "b", one_way=True)
    seen = [link.is_open]
    network.heal("a", "b")
    seen.append(link.is_open)
    network.cut("a", "b")
    first()
    second()
    seen.append(link.is_open)
    network.heal_all()
    seen.append(link.is_open)
    assert seen == [False, True, False, True]


def test_of_two_delays_the_longer_counts_until_it_is_over():
    sim = drawn({"fault/latency/how-long": 3, "fault/latency/duration": LONG})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            link = sim.network.link("worker", "server-0")
            TIMED["latency"].strike(it.world)
            TIMED["latency"].strike(it.world)  # By five milliseconds, for half a second.
            assert link.transit_ns() == 2_000_000_000
            await tasks.sleep(seconds(39))
            assert link.transit_ns() == 2_000_000_000
            await tasks.sleep(seconds(2))
            assert link.transit_ns() == 200_000

    run(sim, scene)


def test_the_rank_of_a_program_outlasts_a_delay_of_its_network():
    sim = drawn({"strategy/priorities/rank/worker": 2})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            link = sim.network.link("worker", "server-0")
            PriorityStrategy().disturb(it.world, ("latency",))
            TIMED["latency"].strike(it.world)
            await tasks.sleep(seconds(1))
            assert link.transit_ns() == STEPS[1].total_seconds() * 1e9
            await it.world.heal()
            assert link.transit_ns() == 200_000

    run(sim, scene)


def test_a_link_that_is_slow_by_itself_stays_so_whatever_delays_it_besides():
    sim = drawn()

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            link = sim.network.link("worker", "server-0")
            sim.network.set_latency("worker", "server-0", seconds(0.05))
            TIMED["latency"].strike(it.world)  # By less than that.
            assert link.transit_ns() == 50_000_000
            await tasks.sleep(seconds(1))
            assert link.transit_ns() == 50_000_000

    run(sim, scene)


def test_of_two_losses_the_worse_counts_until_it_is_over():
    sim = drawn({"fault/loss/how-many": 2, "fault/loss/duration": LONG})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            link = sim.network.link("worker", "server-0")
            TIMED["loss"].strike(it.world)
            TIMED["loss"].strike(it.world)
            assert link.loss == 0.5
            await tasks.sleep(seconds(39))
            assert link.loss == 0.5
            await tasks.sleep(seconds(2))
            assert link.loss == 0

    run(sim, scene)


@pytest.mark.parametrize("shorter", ["server-behind", "stale-server"])
def test_a_server_hears_of_nothing_until_the_last_is_over_that_keeps_it_behind(shorter: str):
    sim = drawn({"fault/server-behind/duration": 4})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["server-behind"].strike(it.world)
            TIMED[shorter].strike(it.world)
            await tasks.sleep(seconds(1))
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            await tasks.sleep(seconds(8))
            assert it.known() == []
            await tasks.sleep(seconds(2))
            assert it.known() == ["one"]

    run(sim, scene)


def test_a_server_in_the_past_stays_there_when_it_is_behind_for_a_shorter_time():
    sim = drawn({"fault/stale-start/duration": 4})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            TIMED["stale-start"].strike(it.world)
            await tasks.sleep(seconds(0.1))
            await it.admin.create(CONFIG_MAPS, a_configmap("two"), "default")
            TIMED["server-behind"].strike(it.world)
            await tasks.sleep(seconds(1))
            it.world.faults.crash(it.world.programs["worker"], seconds(1))
            await tasks.sleep(seconds(3))
            assert it.known() == ["one"]
            await tasks.sleep(seconds(7))
            assert it.known() == ["one", "two"]

    run(sim, scene)


async def test_of_two_pasts_the_older_is_shown(sim: Simulation):
    async with a_scene(sim, servers=1) as it:
        port = it.world.ports["server-0"]
        let_go = []
        for name in ("one", "two", "three"):
            await it.admin.create(CONFIG_MAPS, a_configmap(name), "default")
            let_go.append(port.hold_back(states_at=await it.world.store.revision()))

        async def seen() -> list[str]:
            STALE_READER.set(StaleReader(0))
            return [entry.key.rpartition("/")[2] for entry in (await port.range("core/configmaps/default/")).entries]

        assert await seen() == ["one"]
        let_go[0]()
        assert await seen() == ["one", "two"]
        let_go[2]()
        assert await seen() == ["one", "two"]
        let_go[1]()
        assert await seen() == ["one", "three", "two"]


async def test_a_watch_stays_in_the_past_until_the_last_has_let_go_that_keeps_it_there(sim: Simulation):
    async with a_scene(sim, servers=1) as it:
        (tap,) = it.world.gates["server-0"].find_taps("worker")
        revision = await it.world.store.revision()
        longer, shorter = tap.stay_at(revision), tap.stay_at(revision)
        await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
        await tasks.sleep(seconds(1))
        shorter()
        await tasks.sleep(seconds(1))
        assert it.known() == []
        longer()
        await tasks.sleep(seconds(1))
        assert it.known() == ["one"]


def test_who_reads_slowly_goes_on_to_when_a_shorter_slowness_is_over():
    sim = drawn({"fault/slow-consumer/pace": 2, "fault/slow-consumer/duration": 5})

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["slow-consumer"].strike(it.world)  # One in two seconds, for twenty.
            TIMED["slow-consumer"].strike(it.world)  # Ten in a second, for half of one.
            await tasks.sleep(seconds(1))
            for number in range(20):
                await it.admin.create(CONFIG_MAPS, a_configmap(f"map-{number:02}"), "default")
            await tasks.sleep(seconds(10))
            assert 0 < len(it.known()) < 10
            await tasks.sleep(seconds(10))
            assert len(it.known()) == 20

    run(sim, scene)


def test_of_two_slownesses_the_worse_counts_whichever_came_first():
    pace = Choice("fault/slow-consumer/pace", 1, 3, 2)
    sim = Simulation(tape=Tape([*(Choice("fault/slow-consumer/duration", nth, 7, 5) for nth in (0, 1)), pace]))

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            for _ in range(2):
                TIMED["slow-consumer"].strike(it.world)  # Ten in a second; then one in two seconds.
            for number in range(20):
                await it.admin.create(CONFIG_MAPS, a_configmap(f"map-{number:02}"), "default")
            await tasks.sleep(seconds(10))
            assert 0 < len(it.known()) < 10

    run(sim, scene)


def test_of_two_reasons_for_a_slow_store_the_longer_wait_counts_until_it_is_over():
    chosen = {"how-long": (2, 0), "duration": (3, 4), "server-0/commit": (3, 3, 3, 3)}
    choices = [
        Choice(f"fault/slow-store/{label}", turn, 99, to)
        for label, all_ in chosen.items()
        for turn, to in enumerate(all_)
    ]
    sim = Simulation(tape=Tape(choices))

    async def time_a_write(it: Scene, name: str) -> int:
        began_ns = sim.loop.time_ns()
        await it.admin.create(CONFIG_MAPS, a_configmap(name), "default")
        return (sim.loop.time_ns() - began_ns) // 10_000_000

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["slow-store"].strike(it.world)  # A second, for five seconds,
            TIMED["slow-store"].strike(it.world)  # and twenty milliseconds, for ten.
            assert await time_a_write(it, "one") == 100
            await tasks.sleep(seconds(5))
            assert await time_a_write(it, "two") == 2
            await tasks.sleep(seconds(5))
            assert await time_a_write(it, "three") == 0

    run(sim, scene)
