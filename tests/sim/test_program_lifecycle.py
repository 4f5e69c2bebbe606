"""A program is started, crashed, paused and stopped, and nothing of a dead one ever acts again."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import Env, network, tasks
from mainstay.env.disk import Locked
from mainstay.sim.cluster.program_lifecycle import Main, Program, ProgramStep
from mainstay.sim.errors import Unhandled
from mainstay.sim.process_table import current_process
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def a_program(sim: Simulation, main: Main, name: str = "program") -> Program:
    return Program(sim, name, main)


class Diary:
    """What a program did, and when."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.lines: list[tuple[float, str]] = []

    def write(self, what: str) -> None:
        self.lines.append((round(self.sim.loop.time(), 3), what))


def ticking(diary: Diary) -> Main:
    """Says so once a second, and when it ends in any way."""

    async def main(env: Env) -> None:
        try:
            while True:
                await tasks.sleep(seconds(1))
                diary.write("tick")
        finally:
            diary.write("finally")

    return main


async def test_a_program_runs_until_it_is_stopped_in_order(sim: Simulation):
    diary = Diary(sim)
    program = a_program(sim, ticking(diary))

    program.start()
    await tasks.sleep(seconds(2.5))
    await program.stop()

    assert diary.lines == [(1, "tick"), (2, "tick"), (2.5, "finally")]
    assert (program.is_running, program.ended) == (False, ProgramStep.STOPPED)


async def test_a_crash_runs_no_finally_and_no_except(sim: Simulation):
    diary = Diary(sim)
    program = a_program(sim, ticking(diary))

    program.start()
    await tasks.sleep(seconds(1.5))
    program.crash()
    await tasks.sleep(seconds(100))

    assert diary.lines == [(1, "tick")]
    assert (program.is_running, program.ended) == (False, ProgramStep.CRASHED)


async def test_a_crash_ends_everything_the_program_has_started(sim: Simulation):
    diary = Diary(sim)

    async def child(name: str) -> None:
        try:
            await tasks.sleep(seconds(2))
        finally:
            diary.write(name)

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        _ = tasks.spawn(child("spawned"), name="spawned")
        loop.call_later(2, diary.write, "timer")
        loop.call_soon(lambda: loop.call_later(2, diary.write, "timer of a callback"))
        async with asyncio.TaskGroup() as group:
            group.create_task(child("in a group"))
            group.create_task(asyncio.to_thread(diary.write, "on a thread"))

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(1))
    program.crash()
    await tasks.sleep(seconds(10))

    assert diary.lines == [(0, "on a thread")]


async def test_what_others_do_for_a_dead_program_does_not_wake_it(sim: Simulation):
    diary = Diary(sim)
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def main(env: Env) -> None:
        answer.add_done_callback(lambda _: diary.write("called back"))
        diary.write(await answer)

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(1))
    program.crash()
    answer.set_result("answered")
    await tasks.sleep(seconds(1))

    assert diary.lines == []


async def test_a_program_may_crash_itself_and_gets_no_further(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        diary.write("before")
        program.crash()
        await tasks.sleep(seconds(0))
        diary.write("after")

    program = a_program(sim, main)
    program.start()

    assert await program.wait() is ProgramStep.CRASHED
    assert diary.lines == [(0, "before")]


async def test_a_crash_in_the_same_round_as_a_turn_of_the_program_comes_first_or_last_and_never_half(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        await tasks.sleep(seconds(1))
        diary.write("woke")

    program = a_program(sim, main)
    sim.loop.call_later(1, program.crash)  # Set first, so it is first.
    program.start()
    await tasks.sleep(seconds(2))

    assert diary.lines == []


async def test_the_next_incarnation_has_other_chance_the_same_clock_and_what_the_disk_kept(sim: Simulation):
    seen: list[tuple[str, bytes, timedelta]] = []

    async def main(env: Env) -> None:
        sim.get_clock("program").jump(seconds(60))
        kept = env.disk.read("file") if "file" in env.disk.names() else b""
        env.disk.lock("lock", "us")
        env.disk.append("file", b"synced")
        env.disk.sync("file")
        env.disk.append("file", b"not synced")
        seen.append((env.chance.uid("x", 0), kept, sim.get_clock("program").skew))
        await tasks.sleep(seconds(10))

    program = a_program(sim, main)
    for _ in range(2):
        program.start()
        await tasks.sleep(seconds(1))
        program.crash()

    (first, found, skew), (second, kept, later_skew) = seen
    assert (found, skew, later_skew) == (b"", seconds(60), seconds(120))
    assert kept.startswith(b"synced")  # What was not synced is a matter of chance.
    assert first != second
    assert program.incarnation == 1


async def test_a_program_that_ends_lets_go_of_its_locks(sim: Simulation):
    async def main(env: Env) -> None:
        try:
            env.disk.lock("lock", "us")
        except Locked:
            pytest.fail("the lock of the last incarnation is still there")

    program = a_program(sim, main)
    for _ in range(2):
        program.start()
        assert await program.wait() is ProgramStep.RETURNED


async def test_what_a_program_leaves_behind_ends_with_it(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        _ = tasks.spawn(asyncio.wait_for(ticking(diary)(env), 100), name="left behind")
        await tasks.sleep(seconds(1.5))

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(10))

    assert diary.lines == [(1, "tick")]


class Echo(asyncio.Protocol):
    def __init__(self, diary: Diary) -> None:
        self.diary = diary

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.diary.write(f"lost: {type(error).__name__}")


def echoing(diary: Diary) -> Main:
    async def main(env: Env) -> None:
        await network.listen(lambda: Echo(diary), "0.0.0.0", 80)
        await asyncio.Event().wait()

    return main


async def a_connection(sim: Simulation, diary: Diary, server: str = "program") -> asyncio.Transport:
    with sim.network.host("client").active():
        transport, _ = await network.connect(lambda: Echo(diary), server, 80)
    return transport


async def test_the_peers_of_a_crashed_program_see_a_reset_and_then_a_closed_port(sim: Simulation):
    of_client, of_server = Diary(sim), Diary(sim)
    program = a_program(sim, echoing(of_server))
    program.start()
    await tasks.sleep(seconds(1))
    await a_connection(sim, of_client)

    program.crash()
    await tasks.sleep(seconds(1))

    assert of_client.lines == [(1.001, "lost: ConnectionResetError")]
    assert of_server.lines == []
    with pytest.raises(ConnectionRefusedError):
        await a_connection(sim, of_client)


async def test_the_peers_of_a_silently_crashed_program_hear_nothing_until_it_is_back(sim: Simulation):
    of_client = Diary(sim)
    program = a_program(sim, echoing(Diary(sim)))
    program.start()
    await tasks.sleep(seconds(1))
    transport = await a_connection(sim, of_client)
    await tasks.sleep(seconds(1))

    program.crash(silently=True)
    await tasks.sleep(seconds(20))
    assert of_client.lines == []

    program.start()
    transport.write(b"are you there?")
    await tasks.sleep(seconds(1))
    assert [what for _, what in of_client.lines] == ["lost: ConnectionResetError"]
    await a_connection(sim, of_client)


async def test_a_paused_program_does_nothing_and_then_all_it_has_missed_in_order(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        for second in (1, 2, 3, 4):
            loop.call_later(second, diary.write, f"timer {second}")
        await tasks.sleep(seconds(2.5))
        diary.write(f"clock shows {env.clock.monotonic_ns() // 10**6}")
        await tasks.sleep(seconds(100))

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(1.5))
    program.pause(seconds(2))
    assert program.is_paused
    await tasks.sleep(seconds(10))

    assert diary.lines == [
        (1, "timer 1"),
        (3.5, "timer 2"),
        (3.5, "timer 3"),
        (3.5, "clock shows 3500"),
        (4, "timer 4"),
    ]


async def test_a_timer_that_is_cancelled_by_what_came_before_it_in_a_pause_does_not_run(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        later = loop.call_later(2, diary.write, "too late")
        loop.call_later(1, later.cancel)
        await tasks.sleep(seconds(100))

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(0.5))
    program.pause(seconds(5))
    await tasks.sleep(seconds(10))

    assert diary.lines == []


async def test_what_a_paused_program_waits_for_is_not_due_because_another_one_crashes(sim: Simulation):
    diary = Diary(sim)

    async def main(env: Env) -> None:
        await tasks.sleep(seconds(60))
        diary.write("slept")

    paused, other = a_program(sim, main), a_program(sim, ticking(Diary(sim)), "other")
    paused.start()
    other.start()
    await tasks.sleep(seconds(1))
    paused.pause(seconds(10))
    other.crash()
    await tasks.sleep(seconds(100))

    assert diary.lines == [(60, "slept")]


async def test_data_that_arrives_in_a_pause_is_read_after_it(sim: Simulation):
    of_client, of_server = Diary(sim), Diary(sim)
    program = a_program(sim, echoing(of_server))
    program.start()
    await tasks.sleep(seconds(1))
    transport = await a_connection(sim, of_client)
    heard: list[float] = []
    transport.get_protocol().data_received = lambda data: heard.append(sim.loop.time())  # type: ignore[attr-defined]

    program.pause(seconds(5))
    transport.write(b"hello")
    await tasks.sleep(seconds(10))

    assert [round(at) for at in heard] == [6]


async def test_a_program_that_crashes_while_it_is_paused_never_goes_on_and_its_peers_are_answered(sim: Simulation):
    diary, of_client = Diary(sim), Diary(sim)
    program = a_program(sim, echoing(diary))
    program.start()
    await tasks.sleep(seconds(1))
    transport = await a_connection(sim, of_client)

    program.pause(seconds(5))
    transport.write(b"hello")
    await tasks.sleep(seconds(1))
    program.crash(silently=True)
    program.start()
    await tasks.sleep(seconds(60))

    assert diary.lines == []
    assert [what for _, what in of_client.lines] == ["lost: ConnectionResetError"]


async def test_of_two_pauses_the_longer_counts(sim: Simulation):
    diary = Diary(sim)
    program = a_program(sim, ticking(diary))
    program.start()
    await tasks.sleep(seconds(0.5))

    program.pause(seconds(5))
    program.pause(seconds(2))
    await tasks.sleep(seconds(5.5))

    assert diary.lines == [(5.5, "tick")]


async def test_stopping_a_paused_program_lets_it_end_in_order(sim: Simulation):
    diary = Diary(sim)
    program = a_program(sim, ticking(diary))
    program.start()
    await tasks.sleep(seconds(0.5))
    program.pause()

    await program.stop()

    assert diary.lines == [(0.5, "finally")]


async def test_a_program_that_does_not_let_itself_be_stopped_is_killed(sim: Simulation):
    async def main(env: Env) -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await tasks.sleep(seconds(10))

    program = a_program(sim, main)
    program.start()
    await tasks.sleep(seconds(1))
    await program.stop(within=seconds(30))

    assert program.ended is ProgramStep.CRASHED


def test_a_program_that_fails_fails_the_run():
    async def main(env: Env) -> None:
        await tasks.sleep(seconds(1))
        raise ValueError("a bug")

    async def run(sim: Simulation) -> None:
        a_program(sim, main).start()
        await tasks.sleep(seconds(10))

    with pytest.raises(Unhandled, match="program program failed") as raised, Simulation() as sim:
        sim.run(run(sim))
    assert isinstance(raised.value.__cause__, ValueError)


def test_the_end_of_a_run_is_quiet_about_what_is_left_of_the_dead(caplog: pytest.LogCaptureFixture):
    """Warnings are errors here, also those of finalisers."""

    async def generator() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await tasks.sleep(seconds(1))
        finally:
            await tasks.sleep(seconds(1))
            raise RuntimeError("in a dead program")

    async def main(env: Env) -> None:
        async def failing() -> None:
            raise RuntimeError("not retrieved")

        held = asyncio.get_running_loop().create_task(failing())
        _ = tasks.spawn(tasks.sleep(seconds(100)), name="never looked at")
        async for _ in generator():
            await asyncio.sleep(0)
        del held

    async def run(sim: Simulation) -> None:
        program = a_program(sim, main)
        program.start()
        await tasks.sleep(seconds(3))
        program.crash()
        program.start()
        await asyncio.sleep(0)
        program.crash()

    with Simulation() as sim:
        sim.run(run(sim))
    gc.collect()
    assert caplog.records == []


def test_a_run_with_crashes_and_pauses_is_the_same_each_time():
    async def run(sim: Simulation) -> None:
        program, other = a_program(sim, echoing(Diary(sim))), a_program(sim, ticking(Diary(sim)), "other")
        program.start()
        other.start()
        for turn in range(20):
            await tasks.sleep(seconds(0.7))
            if sim.choices.choose("what", 2):
                program.crash(silently=turn % 2 == 0)
            else:
                program.pause(seconds(3))
            if not program.is_running:
                program.start()

    def digest() -> str:
        with Simulation(3) as sim:
            sim.run(run(sim))
            return sim.digest

    assert digest() == digest()


async def test_code_outside_of_programs_is_in_no_process(sim: Simulation):
    seen: list[object] = []

    async def main(env: Env) -> None:
        seen.append(current_process())

    a_program(sim, main).start()
    await tasks.sleep(seconds(1))

    assert current_process() is None
    assert repr(seen) == "[<Process program/0 dead>]"
