"""Clocks that are wrong, machines that die with all that runs on them, programs of other versions, and all at once."""

import asyncio
from datetime import timedelta

import pytest

from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.scenarios import SCENARIOS
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted, ProgramCrashed
from mainstay.sim.cluster.program_lifecycle import Main, ProgramStep
from mainstay.sim.cluster.world import World
from mainstay.sim.faults import fits
from mainstay.sim.faults.odds import Odds
from mainstay.sim.faults.schedule import ALL, NAMES, TIMED
from mainstay.sim.loop.clock import EPOCH
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.run.run import Booted, RunVerdict
from mainstay.sim.run.scenario import Scenario, Stage
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import a_scene, drawn, run, seconds

pytestmark = pytest.mark.slow


def test_a_clock_jumps_and_comes_back_and_measured_time_goes_on():
    sim = drawn({"fault/clock-skew/how-far": 7, "fault/clock-skew/duration": 3})

    async def scene() -> None:
        async with a_scene(sim) as it:
            clock = sim.get_clock("worker")
            before, measured = clock.wall(), clock.monotonic_ns()
            TIMED["clock-skew"].strike(it.world)
            assert clock.wall() == before - timedelta(hours=1)
            await it.write("one")
            assert sim.get_clock("server-0").wall() > EPOCH
            await tasks.sleep(seconds(6))
            assert clock.wall() - before == timedelta(microseconds=(clock.monotonic_ns() - measured) // 1000)

    run(sim, scene)


@pytest.mark.parametrize("is_empty", [0, 1])
def test_a_machine_dies_with_all_that_runs_on_it_and_comes_back_under_its_name(is_empty: int):
    sim = drawn({"fault/node-death/duration": 4, "fault/node-death/comes-back-empty": is_empty})

    async def scene() -> None:
        world = World(sim)
        world.add_server("server-0")
        world.know("admin")
        world.add_node("node-0")
        await world.boot()
        await tasks.sleep(seconds(5))
        with sim.network.host("admin").active():
            async with world.client_for("admin", sim.env("admin")) as admin:
                spec = {"nodeName": "node-0", "containers": [{"name": "main", "image": "web"}]}
                await admin.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, "default")
                await tasks.sleep(seconds(10))
                sim.env("node-0").disk.append("state", b"what the agent knew")
                sim.env("node-0").disk.sync("state")
                TIMED["node-death"].strike(world)
                events = world.history.events
                assert [each.machine for each in events if isinstance(each, ContainerEnded)] == ["node-0"]
                assert world.programs["node-0"].ended is ProgramStep.CRASHED
                await tasks.sleep(seconds(60))
                assert world.programs["node-0"].incarnation == 1
                assert sim.get_disk("node-0").names().count("state") == 1 - is_empty
                assert len([each for each in events if isinstance(each, ContainerStarted)]) == 2
                pod = await admin.get(PODS, "web", "default")
                assert pod["status"]["phase"] == "Running"

    run(sim, scene)


def test_where_there_are_no_nodes_none_dies():
    sim = Simulation(seed=1)

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.start(each_by_chance=False)
            assert "node-death" not in it.world.faults.on
            assert "power-cut" not in it.world.faults.on
            assert "version-skew" not in it.world.faults.on
            await it.world.faults.stop()

    run(sim, scene)


@pytest.mark.parametrize("ends_by", ["itself", "healing"])
def test_a_program_runs_as_another_version_for_a_while(ends_by: str):
    sim = drawn({"fault/version-skew/duration": 4})
    ran: list[str] = []

    def version(name: str) -> Main:
        async def main(env: Env) -> None:
            ran.append(name)
            await asyncio.Event().wait()

        return main

    async def scene() -> None:
        world = World(sim)
        world.add_server("server-0")
        world.add_program("controller", version("new"), versions={"old": version("old")})
        world.add_program("other", version("other"))
        await world.boot()
        await tasks.sleep(seconds(1))
        TIMED["version-skew"].strike(world)
        await tasks.sleep(seconds(1))
        assert ran == ["new", "other", "old"]
        if ends_by == "itself":
            world.programs["controller"].crash()
            world.programs["controller"].start()
            await tasks.sleep(seconds(12))
            assert ran == ["new", "other", "old", "old", "new"]
        else:
            await world.heal()
            await tasks.sleep(seconds(1))
            assert ran == ["new", "other", "old", "new"]
        assert len([each for each in world.history.events if isinstance(each, ProgramCrashed)]) == (ends_by == "itself")

    run(sim, scene)


def test_a_controller_of_ones_own_may_have_versions():
    sim = drawn({"fault/version-skew/duration": 4})
    ran: list[str] = []

    async def new(client: Client) -> None:
        ran.append("new")
        await asyncio.Event().wait()

    async def old(client: Client) -> None:
        ran.append("old")
        await asyncio.Event().wait()

    async def scene() -> None:
        async with whole_cluster(sim, nodes=0, schedulers=0, controllers=0) as cluster:
            cluster.run(new, name="mine", versions={"old": old})
            await tasks.sleep(seconds(1))
            TIMED["version-skew"].strike(cluster.world)
            await tasks.sleep(seconds(12))
            assert ran == ["new", "old", "new"]

    run(sim, scene)


def test_a_tape_need_not_say_that_a_fault_is_on():
    tape = Tape([Choice("fault/cut", 1, 2, 1), Choice("fault/answer-lost/worker", 0, 2, 1)])
    sim = Simulation(tape=tape)

    async def scene() -> None:
        async with a_scene(sim) as it:
            it.world.faults.start()
            assert it.world.faults.on == ("cut", "answer-lost")
            with pytest.raises(ApiError):
                await it.write("one")
            await tasks.sleep(seconds(5))
            assert len(it.faults()) == 3  # Both, and the end of the cut.

    run(sim, scene)


class Often(Odds):
    def at_beat(self, fault: str) -> float:
        return 0.12


def test_all_faults_at_once_are_survived_and_leave_nothing_behind():
    """Each strikes several times: far worse than any run that chance would make."""
    usual = SCENARIOS["cache-follows"]

    def make(world: World) -> Stage:
        world.store_on_disk()
        return usual.make(world)

    def disturb(world: World) -> None:
        world.faults.start(each_by_chance=False, odds=Often())

    scenario = Scenario("all-at-once", "All faults at once.", make, usual.checkers, lasts=timedelta(seconds=40))
    struck: set[str] = set()
    possible: list[str] = []
    for seed in (1, 2):
        with Booted(scenario) as booted:
            world = booted.world
            result = booted.go(seed, disturb=disturb)
            assert (result.verdict, result.problem) == (RunVerdict.PASSED, "")
            labels = [choice.label for choice in booted.tape if choice.chosen and choice.label.startswith("fault/")]
            possible = [name for name in NAMES if fits(ALL[name], world)]
            struck |= {label.split("/")[1] for label in labels}
            assert (world.faults.refusing, [each for each in world.faults.meddling.values() if each]) == ([], [])
    assert struck <= {*NAMES}
    assert len([name for name in possible if name not in struck]) <= 3
