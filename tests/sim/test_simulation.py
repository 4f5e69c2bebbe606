"""A simulation from making it to closing it."""

import asyncio
from datetime import timedelta

import pytest

from mainstay.sim.disk import PowerLost
from mainstay.sim.errors import Deadlock, TooLong, Unhandled
from mainstay.sim.loop.clock import EPOCH
from mainstay.sim.simulation import Simulation


async def draw(sim: Simulation) -> list[int]:
    return [sim.choices.choose("number", 1000) for _ in range(5)]


def test_run_returns_the_result_and_the_digest_tells_seeds_apart():
    with Simulation(1) as one, Simulation(1) as same, Simulation(2) as other:
        assert one.run(draw(one)) == same.run(draw(same)) != other.run(draw(other))
        assert one.digest == same.digest != other.digest


def test_a_tape_makes_the_same_run_again_whatever_the_seed():
    with Simulation(1) as recorded, Simulation(2, tape=recorded.tape) as empty:
        first = recorded.run(draw(recorded))
        assert empty.run(draw(empty)) == [0, 0, 0, 0, 0]  # The tape was empty when it was handed over.

    with Simulation(2, tape=recorded.tape) as replayed:
        assert replayed.run(draw(replayed)) == first


def test_an_error_says_how_to_see_it_again():
    async def fail() -> None:
        await asyncio.sleep(3)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong") as caught, Simulation(7) as sim:
        sim.run(fail())

    assert caught.value.__notes__[0].startswith("simulated with seed 7, at 3.0 s; 0 choices made, digest ")


def test_closing_cancels_what_is_left_and_waits_for_its_end():
    ended: list[float] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(10)
            ended.append(asyncio.get_running_loop().time())

    async def main() -> None:
        await asyncio.wait([asyncio.create_task(linger(), name="linger")], timeout=1)

    with Simulation() as sim:
        sim.run(main())
        assert ended == []

    assert ended == [11]
    assert sim.loop.is_closed()
    sim.close()  # Once more is nothing.


def test_what_fails_when_it_is_cancelled_fails_the_closing():
    async def fail() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("too late")

    async def main() -> None:
        await asyncio.wait(
            [asyncio.create_task(fail(), name="late"), asyncio.create_task(fail(), name="later")], timeout=1
        )

    sim = Simulation(3)
    sim.run(main())

    with pytest.raises(Unhandled, match="'late' failed when cancelled") as caught:
        sim.close()
    assert isinstance(caught.value.__cause__, KeyError)
    assert "'later' failed when cancelled" in caught.value.__notes__[0]
    assert "seed 3" in caught.value.__notes__[1]
    assert sim.loop.is_closed()


def test_a_task_that_will_not_end_is_named_when_closing():
    async def refuse() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        await asyncio.wait([asyncio.create_task(refuse(), name="stubborn")], timeout=1)

    sim = Simulation()
    sim.run(main())

    with pytest.raises(Deadlock, match="stubborn"):
        sim.close()


def test_the_first_error_is_the_one_that_leaves_the_block():
    async def fail_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("second")

    async def main() -> None:
        await asyncio.wait([asyncio.create_task(fail_late(), name="fail-late")], timeout=1)
        raise ValueError("first")

    with pytest.raises(ValueError, match="first") as caught, Simulation() as sim:
        sim.run(main())

    assert any("closing the simulation failed as well" in note for note in caught.value.__notes__)


def test_a_stream_server_may_still_have_a_connection_when_the_simulation_ends():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def main() -> object:
        server = await asyncio.start_server(answer, "127.0.0.1", 80)
        streams = await asyncio.open_connection("127.0.0.1", 80)
        await asyncio.sleep(1)
        return server, streams

    with Simulation() as sim:
        still_open = sim.run(main())
    del still_open


def test_a_report_of_a_cancelled_task_during_the_run_is_a_failure():
    async def main() -> None:
        task = asyncio.create_task(asyncio.sleep(10))
        task.add_done_callback(asyncio.Task.exception)
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)

    with pytest.raises(Unhandled) as caught, Simulation() as sim:
        sim.run(main())
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def beat() -> None:
    while True:
        await asyncio.sleep(1)


def test_a_limit_finds_who_waits_for_ever_beside_a_task_that_never_rests():
    async def main() -> None:
        heart = asyncio.create_task(beat(), name="heart")
        await asyncio.Event().wait()
        heart.cancel()

    with pytest.raises(TooLong) as caught, Simulation(5) as sim:
        sim.run(main(), limit=timedelta(minutes=1))

    lines = str(caught.value).splitlines()
    assert lines[0] == "at 60.0 s of virtual time the run has not ended; the limit is 60.0 s. Waiting tasks:"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["main", "heart"]
    assert "locks.py" in lines[1]
    assert "seed 5" in caught.value.__notes__[0]


def test_a_limit_counts_from_the_beginning_of_its_run_and_only_for_that():
    with Simulation() as sim:
        sim.run(asyncio.sleep(100))
        sim.run(asyncio.sleep(60), limit=timedelta(minutes=1))  # To the very end.
        with pytest.raises(TooLong, match=r"at 160\.0 s .* limit is 220\.0 s"):
            sim.run(asyncio.sleep(60.000001), limit=timedelta(minutes=1))
        sim.run(asyncio.sleep(1_000_000))


def test_an_unhandled_failure_comes_before_a_limit():
    async def main(sim: Simulation) -> None:
        sim.loop.stops_at_failure = False
        sim.loop.call_later(1, int, "no number")
        await beat()

    with pytest.raises(Unhandled), Simulation() as sim:
        sim.run(main(sim), limit=timedelta(minutes=1))


def test_a_task_that_beats_on_when_cancelled_is_named_when_closing():
    async def refuse() -> None:
        while True:
            try:
                await beat()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        await asyncio.wait([asyncio.create_task(refuse(), name="stubborn")], timeout=1)

    sim = Simulation()
    sim.run(main())

    with pytest.raises(TooLong, match="stubborn"):
        sim.close()


def test_a_simulation_that_was_never_run_can_be_closed():
    with Simulation():
        pass


async def test_a_component_is_given_its_clock_its_chance_and_its_disk(sim):
    store, scheduler = sim.env("store"), sim.env("scheduler")
    await asyncio.sleep(5)

    assert store.clock.wall() == scheduler.clock.wall() == EPOCH + timedelta(seconds=5)
    assert store.clock.monotonic_ns() == 5_000_000_000
    assert store.chance.uid("pod", 0) == sim.env("store").chance.uid("pod", 0)
    assert store.chance.uid("pod", 0) != scheduler.chance.uid("pod", 0)
    store.disk.append("log", b"entry")
    assert scheduler.disk.names() == []


async def test_clocks_of_components_go_wrong_each_by_itself(sim):
    store, scheduler = sim.env("store"), sim.env("scheduler")
    sim.get_clock("store").jump(timedelta(minutes=-5))
    sim.get_clock("store").skew += timedelta(minutes=1)

    assert store.clock.wall() == EPOCH - timedelta(minutes=4)
    assert scheduler.clock.wall() == EPOCH
    assert store.clock.monotonic_ns() == 0


async def test_the_next_incarnation_has_other_chance_and_the_same_disk(sim):
    first = sim.env("store")
    first.disk.append("log", b"synced")
    first.disk.sync("log")
    first.disk.append("log", b" and lost")
    second = sim.env("store", incarnation=1)

    assert second.chance.uid("pod", 0) != first.chance.uid("pod", 0)
    assert second.disk.read("log") == b"synced and lost"
    sim.get_disk("store").cut_power()
    third = sim.env("store", incarnation=2)
    with pytest.raises(PowerLost):
        second.disk.names()
    assert third.disk.read("log").startswith(b"synced")
    assert third.clock is first.clock


async def test_the_simulation_and_its_loop_share_one_network(sim):
    assert sim.network is sim.loop.network
