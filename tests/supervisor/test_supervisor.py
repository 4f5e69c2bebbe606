"""A supervisor at work, in virtual time, on a machine whose processes end when they like.

Each promise is a story that is also told with the bug planted that would break it (tests/twins/supervising.py).
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from mainstay.env import tasks
from mainstay.env.commands import Identity
from mainstay.sim.disk import SimDisk
from mainstay.sim.simulation import Simulation
from mainstay.supervisor import records
from mainstay.supervisor.decide import PAUSE_MAX, ProcessSpec
from mainstay.supervisor.supervisor import (
    FAILED_PROBES_MAX,
    KILLED_AFTER_PROBES,
    PROBED_EVERY,
    ComponentFailure,
    Supervised,
    Supervisor,
)
from tests.supervisor.processes import FakeMachine
from tests.twins import supervising as twins

SERVER = ProcessSpec("server", ("python", "server"), 2)
AGENT = ProcessSpec("agent", ("python", "agent"), 1)
BOTH = [SERVER, AGENT]


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


class Machine:
    """One machine, on which one supervisor after the other works."""

    def __init__(self, sim: Simulation) -> None:
        self.clock = sim.clock
        self.disk = SimDisk(sim.choices, "run")
        self.processes = FakeMachine(sim.clock, sim.loop)
        self.failures: list[ComponentFailure] = []
        self._supervisor: Supervisor | None = None
        self._running: asyncio.Task[None] | None = None

    def a_supervisor(self) -> Supervisor:
        self.processes.another_supervisor()
        own = Identity(1, self.clock.monotonic_ns(), self.processes.boot)
        supervisor = Supervisor(self.processes, self.disk, self.clock, own=own)
        supervisor.on_failure = self.failures.append
        return supervisor

    async def up(self, components: list[ProcessSpec]) -> list[str]:
        self._supervisor = self.a_supervisor()
        await self._supervisor.lock()
        adopted = await self._supervisor.begin(components)
        self._running = tasks.spawn(self._supervisor.run(), name="supervise")
        return list(adopted)

    async def kill(self) -> None:
        """The supervisor is killed: nothing of it goes on, and its locks are free."""
        assert self._running is not None
        await tasks.stop(self._running)
        self.disk.close()

    async def stop(self, through: int = 9) -> None:
        assert self._supervisor is not None
        assert self._running is not None
        self._supervisor.leave_off()
        await self._running
        await self._supervisor.stop(through)

    async def close(self) -> None:
        assert self._supervisor is not None
        await self._supervisor.close()


@pytest.fixture
def machine(sim: Simulation) -> Machine:
    return Machine(sim)


# The stories.


async def what_is_killed_comes_back(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    machine.processes.kill("server")
    await tasks.sleep(seconds(0.1))
    assert machine.processes.running() == ["agent"]
    await tasks.sleep(seconds(0.2))
    assert machine.processes.running() == ["agent", "server"]
    assert [(failure.name, failure.exit_code, failure.failures) for failure in machine.failures] == [("server", -9, 1)]


async def one_that_always_fails_is_tried_less_and_less(machine: Machine) -> None:
    machine.processes.lifetimes["server"] = [seconds(0.01)] * 1000
    await machine.up([SERVER])
    await tasks.sleep(seconds(300))
    # 0.2 + 0.4 + … + 25.6 is about 51 s, in 9 starts. From then on one in 30 s.
    assert 15 <= machine.processes.starts("server") <= 20
    assert max(failure.pause for failure in machine.failures) == PAUSE_MAX


async def one_that_ran_well_is_forgiven(machine: Machine) -> None:
    machine.processes.lifetimes["server"] = [seconds(0.01)] * 8 + [seconds(90)]
    await machine.up([SERVER])
    while machine.processes.starts("server") < 9:
        await tasks.sleep(seconds(1))
    await tasks.sleep(seconds(91.5))
    assert machine.processes.starts("server") == 10
    assert machine.failures[-1].failures == 1


async def the_next_supervisor_takes_over_what_lives(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    before = {name: machine.processes.named(name).identity for name in ("server", "agent")}
    await machine.kill()
    await tasks.sleep(seconds(100))

    assert await machine.up(BOTH) == ["agent", "server"]
    await tasks.sleep(seconds(10))
    assert {name: machine.processes.named(name).identity for name in ("server", "agent")} == before
    machine.processes.kill("agent")
    await tasks.sleep(seconds(1))
    assert machine.processes.running() == ["agent", "server"]


async def a_reused_process_id_is_not_recognised(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    await machine.kill()
    pid = machine.processes.named("server").identity.pid
    machine.processes.kill("server")
    await tasks.sleep(seconds(1))
    machine.processes.a_stranger(pid)

    assert await machine.up(BOTH) == ["agent"]
    await tasks.sleep(seconds(5))
    assert machine.processes.running() == ["agent", "server"]
    await machine.stop()
    assert machine.processes.signalled_strangers == []
    assert machine.processes.running() == []


async def what_was_started_and_not_written_down_is_found(machine: Machine) -> None:
    await machine.up([AGENT])
    await tasks.sleep(seconds(1))
    await machine.kill()
    records.remove(machine.disk, "agent")

    assert await machine.up([AGENT]) == ["agent"]
    await tasks.sleep(seconds(5))
    assert machine.processes.starts("agent") == 1
    assert records.read_all(machine.disk)["agent"].identity == machine.processes.named("agent").identity


async def what_is_wanted_otherwise_is_replaced(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    await machine.kill()
    other = ProcessSpec("server", ("python", "server", "--port", "2"), 2)

    assert await machine.up([other, AGENT]) == ["agent"]
    await tasks.sleep(seconds(5))
    assert machine.processes.named("server").component == other
    assert machine.processes.starts("agent") == 1


async def two_supervisors_are_one_too_many(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    with pytest.raises(Supervised) as other:
        await machine.a_supervisor().lock()
    assert other.value.pid == 1


async def agents_end_before_the_server(machine: Machine) -> None:
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    await machine.stop(through=1)
    assert machine.processes.running() == ["server"]
    await machine.stop(through=2)
    assert machine.processes.running() == []


async def who_does_not_listen_is_killed_in_the_end(machine: Machine) -> None:
    machine.processes.deaf = {"agent"}
    await machine.up([AGENT])
    await tasks.sleep(seconds(1))
    agent = machine.processes.named("agent")
    async with tasks.timeout(seconds(20)):
        await machine.stop()
    assert agent.signals == [signal.SIGTERM, signal.SIGKILL]


async def one_that_is_not_alive_is_restarted_with_backoff(machine: Machine) -> None:
    machine.processes.deaf = {"server"}
    await machine.up(BOTH)
    await tasks.sleep(seconds(60))
    first = machine.processes.named("server")
    machine.processes.failures["server"] = "task/feed: planted"
    await tasks.sleep(PROBED_EVERY * (FAILED_PROBES_MAX - 1))
    assert first.signals == []  # A short failure is no reason.
    await tasks.sleep(PROBED_EVERY * (KILLED_AFTER_PROBES + 2))
    assert first.signals[:2] == [signal.SIGTERM, signal.SIGKILL]
    machine.processes.failures.clear()
    await tasks.sleep(seconds(1))
    assert machine.processes.named("server").identity != first.identity
    assert [(failure.name, failure.failures) for failure in machine.failures] == [("server", 1)]
    assert machine.processes.starts("agent") == 1


async def one_that_recovers_is_left_alone(machine: Machine) -> None:
    await machine.up([SERVER])
    for _ in range(5):
        machine.processes.failures["server"] = "no answer within 15s"
        await tasks.sleep(PROBED_EVERY * (FAILED_PROBES_MAX - 2))
        machine.processes.failures.clear()
        await tasks.sleep(PROBED_EVERY * 2)
    assert machine.processes.starts("server") == 1


STORIES: list[tuple[Callable[[Machine], Awaitable[None]], list[twins.Twin]]] = [
    (what_is_killed_comes_back, [twins.restarts_at_once]),
    (one_that_always_fails_is_tried_less_and_less, [twins.restarts_at_once]),
    (one_that_ran_well_is_forgiven, [twins.never_forgives]),
    (the_next_supervisor_takes_over_what_lives, []),
    (a_reused_process_id_is_not_recognised, [twins.knows_processes_by_number_alone]),
    (what_was_started_and_not_written_down_is_found, [twins.starts_again_what_has_no_record]),
    (what_is_wanted_otherwise_is_replaced, [twins.adopts_whatever_it_runs]),
    (two_supervisors_are_one_too_many, [twins.takes_no_lock]),
    (agents_end_before_the_server, [twins.minds_no_turns]),
    (who_does_not_listen_is_killed_in_the_end, [twins.never_kills]),
    (one_that_is_not_alive_is_restarted_with_backoff, [twins.never_probes]),
    (one_that_recovers_is_left_alone, [twins.forgets_no_failure]),
]


@pytest.mark.parametrize("story", [story for story, _ in STORIES], ids=lambda story: story.__name__)
async def test_a_supervisor_keeps_its_promise(sim, machine, story):
    await story(machine)


@pytest.mark.parametrize(
    ("story", "twin"),
    [(story, twin) for story, planted in STORIES for twin in planted],
    ids=lambda each: each.__name__,
)
async def test_a_planted_bug_is_found(sim, machine, monkeypatch, story, twin):
    twin(monkeypatch, machine.processes)
    with pytest.raises((AssertionError, TimeoutError, pytest.fail.Exception)):
        await story(machine)


@pytest.mark.parametrize("steps", range(30))
async def test_killed_at_any_moment_it_leaves_nothing_that_the_next_one_would_start_twice(sim, machine, steps):
    # That nothing is started while it runs is seen to by the machine.
    rising = tasks.spawn(machine.up(BOTH), name="up")
    for _ in range(steps):
        await asyncio.sleep(0)
    await tasks.stop(rising)
    if machine._running is not None:
        await tasks.stop(machine._running)
    machine.disk.close()

    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    assert machine.processes.running() == ["agent", "server"]
    assert {name: record.identity for name, record in records.read_all(machine.disk).items()} == {
        name: machine.processes.named(name).identity for name in ("server", "agent")
    }


@pytest.mark.parametrize("steps", range(30))
async def test_told_to_stop_at_any_moment_it_leaves_nothing_running(sim, machine, steps):
    await machine.up(BOTH)
    for _ in range(steps):
        await asyncio.sleep(0)

    await machine.stop()
    await machine.close()

    assert machine.processes.running() == []
    assert machine.disk.names() == []


# What else there is.


async def test_what_cannot_be_started_is_told_and_tried_again(sim, machine):
    machine.processes.broken = "No such file or directory"
    await machine.up([SERVER])
    await tasks.sleep(seconds(1))
    machine.processes.broken = ""
    await tasks.sleep(seconds(2))

    assert machine.failures[0].why == "python: No such file or directory"
    assert machine.processes.running() == ["server"]


async def test_how_often_it_was_restarted_is_known_to_the_next_supervisor(sim, machine):
    await machine.up([SERVER])
    for _ in range(2):
        await tasks.sleep(seconds(2))
        machine.processes.kill("server")
    await tasks.sleep(seconds(2))
    await machine.kill()
    await machine.up([SERVER])
    await tasks.sleep(seconds(1))
    machine.processes.kill("server")
    await tasks.sleep(seconds(5))

    assert records.read_all(machine.disk)["server"].restarts == 3


async def test_while_one_waits_to_be_started_again_its_record_says_when(sim, machine):
    machine.processes.lifetimes["server"] = [seconds(1)]
    await machine.up([SERVER])
    await tasks.sleep(seconds(1.1))

    record = records.read_all(machine.disk)["server"]

    assert record.ended is not None
    assert record.retry_at is not None
    assert record.retry_at - record.ended == timedelta(milliseconds=200)


async def test_after_the_machine_was_rebooted_all_is_started(sim, machine):
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    await machine.kill()
    machine.processes.reboot()

    assert await machine.up(BOTH) == []
    await tasks.sleep(seconds(1))
    assert machine.processes.running() == ["agent", "server"]


async def test_one_whose_credentials_are_new_is_restarted_and_has_not_failed(sim, machine):
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    before = machine.processes.named("agent").identity

    machine._supervisor.renew("agent")
    await tasks.sleep(seconds(3))

    assert machine.processes.named("agent").identity != before
    assert machine.processes.starts("server") == 1
    assert machine.failures == []


async def test_a_forced_stop_does_not_wait_for_unresponsive_processes(sim, machine):
    machine.processes.deaf = {"agent", "server"}
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    stopping = tasks.spawn(machine.stop(), name="stop")
    await tasks.sleep(seconds(1))

    machine._supervisor.hurry()

    async with tasks.timeout(seconds(1)):
        await asyncio.wait([stopping])
    assert machine.processes.running() == []


async def test_a_supervisor_that_leaves_leaves_no_records_of_what_has_ended(sim, machine):
    await machine.up(BOTH)
    await tasks.sleep(seconds(1))
    await machine.stop()
    await machine.close()

    assert machine.disk.names() == []


async def test_a_record_that_cannot_be_read_counts_as_none(sim, machine):
    machine.disk.append("server.json", b'{"name": "server", "pid"')

    assert records.read_all(machine.disk) == {}
