"""The order of sets: inside a run it is that of the run, and a hash is for life."""

import asyncio
import threading

import pytest

from mainstay.sim.simulation import Simulation


class Roomy(asyncio.Protocol):
    pass


class Slotted(asyncio.Protocol):
    """Leaves no room for a number."""

    __slots__ = ("name",)


class Delegating(asyncio.Protocol):
    """Has no attribute of its own that it would admit to."""

    def __getattr__(self, name: str) -> object:
        raise LookupError(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(name)


async def writer() -> asyncio.StreamWriter:
    _, stream = await asyncio.open_connection("127.0.0.1", 80)
    return stream


@pytest.mark.parametrize(
    "make",
    [asyncio.Protocol, Roomy, Slotted, Delegating, asyncio.StreamReader, asyncio.Queue, asyncio.Lock],
)
def test_sets_of_what_asyncio_programs_put_into_sets_are_in_one_order_in_all_runs(make):
    kept = []  # So that the second run has other addresses.

    async def order() -> list[int]:
        numbers = {make(): number for number in range(100)}
        kept.append(numbers)
        return [numbers[one] for one in {*list(numbers)[::-1]}]

    with Simulation() as first, Simulation() as second:
        orders = [first.run(order()), second.run(order())]

    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(100))


async def test_streams_are_in_a_set_in_the_order_they_were_put_there(sim):
    async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 80):
        streams = [await writer() for _ in range(8)]

        assert list({*streams}) == streams
        for stream in streams:
            stream.close()
            await stream.wait_closed()


@pytest.mark.parametrize("make", [Roomy, Slotted, Delegating, asyncio.Queue])
def test_a_set_made_in_a_run_is_whole_after_it_and_in_the_next(make):
    made: list[object] = []

    async def main() -> set[object]:
        made.extend(make() for _ in range(50))
        return set(made)

    async def look(kept: set[object]) -> None:
        assert all(one in kept for one in made)

    with Simulation() as first:
        kept = first.run(main())
        assert all(one in kept for one in made)
        first.run(look(kept))
    with Simulation() as second:
        second.run(look(kept))
    for one in made:
        kept.remove(one)
    assert kept == set()


@pytest.mark.parametrize("make", [Roomy, Delegating, asyncio.Queue])
def test_a_set_made_between_runs_is_whole_in_the_next_one(sim, make):
    sim.run(asyncio.sleep(0))
    made = [make() for _ in range(50)]
    kept = set(made)

    async def look() -> None:
        assert all(one in kept for one in made)

    sim.run(look())


def test_a_set_of_another_thread_stays_whole_through_a_run():
    sim = Simulation()
    made = [kind() for kind in (Roomy, Slotted) for _ in range(50)]
    asked, answered = threading.Event(), threading.Event()
    whole: list[bool] = []

    def look() -> None:
        kept = set(made)
        asked.wait()
        whole.append(all(one in kept for one in made))
        answered.set()

    thread = threading.Thread(target=look)
    thread.start()

    async def main() -> None:
        asked.set()
        while not answered.is_set():
            await asyncio.sleep(0)

    with sim:
        sim.run(main())
    thread.join()

    assert whole == [True]


def test_what_no_run_has_met_hashes_by_address(sim):
    sim.run(asyncio.sleep(0))

    met_by_none: list[object] = [Roomy(), Delegating(), asyncio.Queue()]
    for one in met_by_none:
        assert hash(one) == object.__hash__(one)
