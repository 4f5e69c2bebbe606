"""A registry that is slow for a node, or does not answer it."""

from datetime import timedelta

import pytest

from mainstay.agent.runners.pretend_images import PullOutcome
from mainstay.env import tasks
from mainstay.sim.cluster.world import World
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import drawn, run, seconds

pytestmark = pytest.mark.slow


def a_world(sim: Simulation) -> World:
    world = World(sim)
    world.add_server("server-0")
    for name in ("node-0", "node-1"):
        world.add_node(name)
        world.machines[name].images.registry = lambda image: PullOutcome(seconds(1))
    return world


def outcome(world: World, node: str = "node-0") -> PullOutcome | None:
    registry = world.machines[node].images.registry
    assert registry is not None
    return registry("x:1")


def test_pulls_of_one_node_are_slow_for_a_while():
    sim = drawn({"fault/slow-pull/how-long": 1, "fault/slow-pull/duration": 4})

    async def scene() -> None:
        world = a_world(sim)
        await world.boot()
        TIMED["slow-pull"].strike(world)
        assert (outcome(world), outcome(world, "node-1")) == (PullOutcome(seconds(21)), PullOutcome(seconds(1)))
        await tasks.sleep(seconds(11))
        assert outcome(world) == PullOutcome(seconds(1))

    run(sim, scene)


def test_pulls_that_fail_and_are_slow_at_once_do_both_until_each_is_over():
    durations = {"fault/failed-pull/duration": 3, "fault/slow-pull/duration": 4}
    sim = drawn({"fault/slow-pull/how-long": 0, **durations})

    async def scene() -> None:
        world = a_world(sim)
        await world.boot()
        TIMED["failed-pull"].strike(world)
        TIMED["slow-pull"].strike(world)
        both = outcome(world)
        await tasks.sleep(seconds(6))
        slow = outcome(world)
        await world.faults.stop()

        assert both is not None
        assert (both.takes, bool(both.problem)) == (timedelta(seconds=6), True)
        assert slow == PullOutcome(timedelta(seconds=6))
        assert outcome(world) == PullOutcome(seconds(1))

    run(sim, scene)


def test_where_no_node_pulls_images_no_pull_fails():
    sim = Simulation(seed=1)

    async def scene() -> None:
        world = World(sim)
        world.add_server("server-0")
        world.add_node("node-0")
        await world.boot()
        world.faults.start(each_by_chance=False)
        assert not {"slow-pull", "failed-pull"} & set(world.faults.on)
        await world.faults.stop()

    run(sim, scene)
