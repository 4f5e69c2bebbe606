"""Loss makes things late, and a connection that something on the way has forgotten is dead without a word."""

import pytest

from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.client.errors import Unavailable
from mainstay.env import tasks
from mainstay.sim.faults.schedule import TIMED
from mainstay.sim.run.choices import Choice, Tape
from mainstay.sim.simulation import Simulation
from tests.sim.fault_scene import a_configmap, a_scene, drawn, run, seconds
from tests.twins import faults as twins


def lossy(*lost: int) -> Simulation:
    """What the worker sends is lost at these turns, counting from the first after the loss began."""
    return Simulation(
        tape=Tape(
            [
                Choice("fault/loss/duration", 0, 7, 6),
                *(Choice("net/worker>server-0/loss", turn, 2, 1) for turn in lost),
            ]
        )
    )


@pytest.mark.parametrize(("lost", "late"), [((), 0), ((0,), 0.2), ((0, 1), 0.6), ((0, 1, 2), 1.4)])
def test_a_segment_that_is_lost_comes_as_late_as_tcp_repeats_it(lost: tuple[int, ...], late: float):
    sim = lossy(*lost)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            await it.write("before")  # So that there is a connection.
            TIMED["loss"].strike(it.world)
            began = sim.loop.time()
            await it.write("one")
            assert sim.loop.time() - began == pytest.approx(late, abs=0.01)

    run(sim, scene)


def test_the_first_packet_of_a_connection_is_repeated_after_a_second():
    sim = lossy(0)

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["loss"].strike(it.world)
            began = sim.loop.time()
            await it.write("one")
            assert sim.loop.time() - began == pytest.approx(1, abs=0.01)

    run(sim, scene)


def test_loss_is_over_after_a_while():
    sim = drawn()

    async def scene() -> None:
        async with a_scene(sim, servers=1) as it:
            TIMED["loss"].strike(it.world)
            link = sim.network.link("worker", "server-0")
            assert link.loss > 0
            await tasks.sleep(seconds(1))
            assert link.loss == 0
            TIMED["loss"].strike(it.world)
            await it.world.heal()
            assert link.loss == 0

    run(sim, scene)


@pytest.mark.parametrize("told", [0, 1, 2])
def test_a_dead_watch_is_noticed_and_nothing_is_missed(told: int):
    sim = drawn({"fault/half-open/told": told})

    async def scene() -> None:
        async with a_scene(sim) as it:
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            await tasks.sleep(seconds(1))
            TIMED["half-open"].strike(it.world)
            await it.admin.create(CONFIG_MAPS, a_configmap("two"), "default")
            await tasks.sleep(seconds(3))
            assert it.known() == (["one"] if told else ["one", "two"])
            await tasks.sleep(seconds(120))
            assert it.known() == ["one", "two"]
            assert len(it.faults()) == 1

    run(sim, scene)


def test_a_write_on_a_dead_connection_is_given_up_and_the_next_one_works():
    sim = drawn({"fault/half-open/told": 1})

    async def scene() -> None:
        async with a_scene(sim) as it:
            await it.write("before")
            TIMED["half-open"].strike(it.world)
            began = sim.loop.time()
            with pytest.raises(Unavailable) as raised:
                await it.write("one")
            assert sim.loop.time() - began == pytest.approx(20, abs=1)
            assert raised.value.may_have_happened
            assert not await it.exists("one")
            await it.write("two")

    run(sim, scene)


def test_a_client_that_takes_no_watch_for_dead_waits_until_tcp_gives_up(monkeypatch: pytest.MonkeyPatch):
    twins.takes_no_silent_watch_for_dead(monkeypatch)
    sim = drawn({"fault/half-open/told": 1})

    async def scene() -> None:
        async with a_scene(sim) as it:
            TIMED["half-open"].strike(it.world)
            await it.admin.create(CONFIG_MAPS, a_configmap("one"), "default")
            await tasks.sleep(seconds(600))
            assert it.known() == []

    run(sim, scene)
