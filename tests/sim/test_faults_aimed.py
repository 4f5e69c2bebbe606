"""An aimed fault hits its target if it can, and otherwise whom it would have hit anyway."""

import asyncio
from collections.abc import Callable

import pytest

from mainstay.api.kind_names import LEASES
from mainstay.client.client import Client
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import FaultInjected
from mainstay.sim.cluster.world import World
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.simulation import Simulation
from mainstay.sim.strategies.near_writes import NearWrites
from tests.sim.fault_scene import a_scene, run, seconds

pytestmark = pytest.mark.slow

PROGRAMS = ("user", "first", "second", "third", "node", "fourth", "fifth")


@pytest.fixture(params=[range(1, 2), pytest.param(range(2, 6), marks=pytest.mark.deep)], ids=["one seed", "more seeds"])
def seeds(request: pytest.FixtureRequest) -> range:
    return request.param  # type: ignore[no-any-return]


async def a_world(sim: Simulation) -> World:
    """Of several programs, of which `user` is spared, `first` does not run, and `second` has another version."""
    world = World(sim)
    world.add_server("server-0")
    world.add_server("server-1")

    for name in PROGRAMS:
        if name == "node":
            world.add_node(name)
        else:
            world.add_program(
                name, _wait, is_spared=name == "user", versions={"old": _wait} if name == "second" else None
            )
    await world.boot()
    await world.programs["first"].stop()
    return world


def hit(seed: int, *strikes: Callable[[World], None]) -> list[str]:
    """What the last of these did."""
    sim = Simulation(seed)
    told: list[str] = []

    async def scene() -> None:
        world = await a_world(sim)
        for strike in strikes:
            told.clear()
            before = len(world.history.events)
            strike(world)
            await tasks.sleep(seconds(0.1))
            told.extend(event.what for event in world.history.events[before:] if isinstance(event, FaultInjected))

    run(sim, scene)
    return told


@pytest.mark.parametrize("who", ["second", "node", "fifth"])
@pytest.mark.parametrize("fault", ["clock-skew", "restart", "cut", "pause", "latency", "conflict-storm"])
def test_it_hits_whom_it_is_aimed_at_among_those_that_it_can_hit(fault: str, who: str, seeds: range):
    for seed in seeds:
        (told,) = hit(seed, lambda world: world.faults.strike(fault, who))
        assert who in told.split()


@pytest.mark.parametrize(("fault", "who"), [("node-death", "node"), ("version-skew", "second")])
def test_so_does_one_that_can_hit_few(fault: str, who: str, seeds: range):
    for seed in seeds:
        assert who in hit(seed, lambda world: world.faults.strike(fault, who))[0].split()


@pytest.mark.parametrize(
    ("fault", "who"),
    [("clock-skew", "user"), ("restart", "first"), ("server-crash", "fourth"), ("version-skew", "third")],
)
def test_aimed_at_whom_it_cannot_hit_it_hits_whom_it_would_have_hit(fault: str, who: str, seeds: range):
    for seed in seeds:
        aimed = hit(seed, lambda world: world.faults.strike(fault, who))
        assert aimed == hit(seed, TIMED[fault].strike)


def test_an_aim_that_came_to_nothing_does_not_bend_what_comes_later(seeds: range):
    def aimed_in_vain(world: World) -> None:
        world.spared |= dict.fromkeys(world.programs)
        world.faults.strike("pause", "fifth")
        world.spared = {"user": None}

    for seed in seeds:
        assert hit(seed, aimed_in_vain) == []
        assert hit(seed, aimed_in_vain, TIMED["pause"].strike) == hit(seed, TIMED["pause"].strike)


@pytest.mark.parametrize("who", ["one", "two", "three"])
def test_a_leader_is_aimed_at_although_it_is_found_later(who: str, seeds: range):
    for seed in seeds:
        sim = Simulation(seed)

        async def scene(sim: Simulation = sim) -> None:
            async with a_scene(sim) as it:
                for name in ("one", "two", "three"):
                    it.world.add_program(name, _wait).start()
                    await _lead(it.admin, name)
                it.world.faults.strike("leader-loss", who)
                await tasks.sleep(seconds(1))
                assert [what.split()[2] for what in it.faults()] == [who]

        run(sim, scene)


def test_near_writes_the_writer_is_hit():
    told: list[str] = []
    for seed in range(1, 9):
        sim = Simulation(seed)

        async def scene(sim: Simulation = sim) -> None:
            async with a_scene(sim) as it:
                for name in ("one", "two", "three"):
                    it.world.add_program(name, _wait).start()
                NearWrites().disturb(it.world, ("clock-skew",))
                for number in range(40):
                    await it.write(f"map-{number}")
                    await tasks.sleep(seconds(0.1))
                told.extend(what for what in it.faults() if not what.startswith("over: "))

        run(sim, scene)

    assert told
    assert [what.split()[3] for what in told] == ["worker"] * len(told)


async def _wait(env: Env) -> None:
    await asyncio.Event().wait()


async def _lead(admin: Client, name: str) -> None:
    spec = {"holderIdentity": f"{name}_1234", "leaseDurationSeconds": 15}
    await admin.create(LEASES, {"metadata": {"name": f"lease-{name}", "namespace": "default"}, "spec": spec}, "default")
