"""What foreign code finds during a run, and that nothing of it is left after."""

import asyncio
import contextlib
import datetime as datetime_module
import gc
import importlib
import os
import random
import secrets
import select
import socket
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from os import urandom
from pathlib import Path
from random import randint
from time import monotonic
from time import time as wall
from typing import TypeVar
from uuid import uuid1, uuid4

import pytest

from mainstay.env import SystemClock
from mainstay.sim.errors import Deadlock, TooLong, Unhandled
from mainstay.sim.foreign import patches
from mainstay.sim.loop.clock import EPOCH
from mainstay.sim.net.sockets import SimSocket
from mainstay.sim.simulation import Simulation

T = TypeVar("T")
T0 = EPOCH.timestamp()


async def test_every_clock_shows_virtual_time(sim):
    await asyncio.sleep(90.25)

    assert time.time() == wall() == T0 + 90.25
    assert time.time_ns() == int(T0) * 1_000_000_000 + 90_250_000_000
    assert time.clock_gettime(time.CLOCK_REALTIME) == T0 + 90.25
    for clock in (time.monotonic, time.perf_counter, time.process_time, time.thread_time, monotonic):
        assert clock() == 90.25
    for clock_ns in (time.monotonic_ns, time.perf_counter_ns, time.process_time_ns, time.thread_time_ns):
        assert clock_ns() == 90_250_000_000
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) == 90_250_000_000
    assert sim.loop.time() == 90.25


async def test_dates_are_virtual_and_in_utc(sim):
    await asyncio.sleep(90.25)
    now = EPOCH + timedelta(seconds=90.25)

    assert datetime.now(UTC) == datetime_module.datetime.now(tz=UTC) == now
    assert datetime.now() == datetime.today() == datetime.utcnow() == now.replace(tzinfo=None)
    assert datetime.now(timezone(timedelta(hours=2))).hour == 2
    assert date.today() == date(2026, 1, 1)
    assert time.gmtime()[:6] == time.localtime()[:6] == (2026, 1, 1, 0, 1, 30)
    assert time.strftime("%H:%M:%S") == "00:01:30"
    assert time.strftime("%Y", time.gmtime(0)) == "1970"
    assert time.ctime() == time.asctime() == "Thu Jan  1 00:01:30 2026"
    assert time.ctime(0) == time.asctime(time.gmtime(0)) == "Thu Jan  1 00:00:00 1970"
    assert datetime.fromtimestamp(T0).hour == 0
    assert time.tzname == ("UTC", "UTC")
    assert SystemClock().wall() == now


async def test_the_class_datetime_stays_the_class_it_was(sim):
    class Moment(datetime):
        pass

    assert type(datetime.now()) is datetime
    assert type(Moment.now()) is Moment
    assert isinstance(datetime.now(), datetime)
    assert isinstance(Moment.utcnow(), date)


async def test_a_microsecond_is_not_lost_to_rounding(sim):
    await asyncio.sleep(0.000001)

    assert datetime.now(UTC) == EPOCH + timedelta(microseconds=1)


async def test_foreign_code_follows_a_jump_of_the_clock(sim):
    sim.clock.jump(timedelta(hours=-1))

    assert datetime.now(UTC) == sim.clock.wall() == EPOCH - timedelta(hours=1)
    assert time.time() == T0 - 3600
    assert time.monotonic() == 0


def draw() -> list[object]:
    drawn: list[object] = [
        random.random(),
        randint(0, 1 << 60),
        random.Random().random(),
        random.SystemRandom().random(),
        secrets.token_hex(),
        secrets.randbelow(1 << 60),
        uuid.uuid4(),
        uuid4(),
        uuid1(),
        uuid.uuid1(clock_seq=5),
        os.urandom(16),
        urandom(16),
        os.getrandom(16) if hasattr(os, "getrandom") else urandom(16),
        random.sample(range(1000), 10),
    ]
    random.seed()
    return [*drawn, random.random()]


async def draw_in_run() -> list[object]:
    return draw()


def test_all_chance_comes_from_the_seed():
    with Simulation(1) as one, Simulation(1) as same, Simulation(2) as other:
        drawn = one.run(draw_in_run())
        assert same.run(draw_in_run()) == drawn
        differs = [a != b for a, b in zip(drawn, other.run(draw_in_run()), strict=True)]

    # The second uuid1 is made from time, a node and a sequence that was given: there is no chance in it.
    assert differs == [True] * 9 + [False] + [True] * 5


def test_chance_goes_on_from_one_run_to_the_next():
    async def once() -> tuple[float, bytes]:
        return random.random(), os.urandom(8)

    async def twice() -> list[tuple[float, bytes]]:
        return [(random.random(), os.urandom(8)) for _ in range(2)]

    with Simulation(1) as split, Simulation(1) as whole:
        assert [split.run(once()), split.run(once())] == whole.run(twice())


async def test_uuid1_never_repeats_and_does_not_know_the_machine(sim):
    made = [uuid1() for _ in range(100)]

    assert len(set(made)) == 100
    assert made[0].node == uuid.getnode() == 0x020000000001
    assert made[0].version == 1
    assert made[0].time == (int(T0) * 10_000_000) + 0x01B21DD213814000


async def test_a_seeded_generator_is_left_as_it_is(sim):
    assert random.Random(5).random() == 0.6229016948897019
    random.seed(5)
    assert random.random() == 0.6229016948897019


def snapshot() -> dict[str, object]:
    """Everything a run may touch."""
    modules = [name for name in sys.modules if not name.startswith(("mainstay.sim.", "mainstay.scenarios."))]
    watched = (time, os, random, secrets, uuid, threading, socket, select, asyncio, sys.modules[__name__])
    return {
        **{f"{module.__name__}.{name}": value for module in watched for name, value in vars(module).items()},
        "modules": modules,
        "datetime": dict(vars(datetime)),
        "Random": dict(vars(random.Random)),
        "Condition": dict(vars(threading.Condition)),
        "state": random.getstate(),
        "zone": (os.environ.get("TZ"), time.tzname, time.timezone),
        "gc": gc.isenabled(),
    }


def test_nothing_is_left_behind_by_a_run(sim):
    before = snapshot()

    async def main() -> list[object]:
        assert not gc.isenabled()
        return draw()

    sim.run(main())

    assert snapshot() == before


async def fail_after_a_while() -> None:
    await asyncio.sleep(1)
    draw()
    raise ValueError


async def fail_in_a_callback() -> None:
    asyncio.get_running_loop().call_later(1, int, "no number")
    await asyncio.sleep(60)


async def be_interrupted() -> None:
    asyncio.get_running_loop().call_later(1, interrupt)
    await asyncio.sleep(60)


def interrupt() -> None:
    raise KeyboardInterrupt


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def wait_too_long() -> None:
    await asyncio.sleep(3601)


@pytest.mark.parametrize(
    ("main", "error"),
    [
        (fail_after_a_while, ValueError),
        (fail_in_a_callback, Unhandled),
        (be_interrupted, KeyboardInterrupt),
        (wait_for_ever, Deadlock),
        (wait_too_long, TooLong),
    ],
)
def test_nothing_is_left_behind_by_a_run_that_fails(main, error):
    before = snapshot()

    sim = Simulation()
    with pytest.raises(error):
        sim.run(main(), limit=timedelta(hours=1))

    assert snapshot() == before
    with contextlib.suppress(Unhandled):
        sim.close()
    assert snapshot() == before


def test_nothing_is_left_behind_by_a_run_that_could_not_begin(sim, monkeypatch):
    class Locked(type):
        def __setattr__(cls, name: str, value: object) -> None:
            if value is not vars(cls)[name]:
                raise TypeError("locked")

    class Owner(metaclass=Locked):
        def method(self) -> None: ...

    monkeypatch.setitem(patches._METHODS, (Owner, "method"), print)
    before = snapshot()

    work = asyncio.sleep(0)
    with pytest.raises(TypeError, match="locked"):
        sim.run(work)
    work.close()

    assert snapshot() == before
    monkeypatch.undo()
    sim.run(asyncio.sleep(0))


def test_real_time_and_chance_are_back_between_runs(sim):
    async def main() -> None:
        await asyncio.sleep(1)

    sim.run(main())

    assert abs(time.time() - datetime.now(UTC).timestamp()) < 1
    assert abs(time.time() - T0) > 3600
    assert uuid4() != uuid4()
    sim.run(main())
    assert sim.loop.time() == 2


def meanwhile(elsewhere: Callable[[], T], inside: Callable[[], object] = lambda: None) -> tuple[T, list[object]]:
    """What a thread that was started before a run gets during it, and what the run gets before and after that."""
    asked, answered = threading.Event(), threading.Event()
    results: list[T] = []

    def look() -> None:
        asked.wait()
        try:
            results.append(elsewhere())
        finally:
            answered.set()

    thread = threading.Thread(target=look)
    thread.start()

    async def main() -> list[object]:
        before = inside()
        asked.set()
        while not answered.is_set():
            await asyncio.sleep(0)
        return [before, inside()]

    with Simulation(1) as sim:
        seen = sim.run(main())
    thread.join()
    return results[0], seen


def test_other_threads_keep_the_real_world():
    """Those of a test runner, for instance, that were started before the run."""
    seen, inside = meanwhile(lambda: [time.time(), datetime.now(UTC).timestamp()], lambda: time.time())

    assert inside == [T0, T0]
    assert all(abs(moment - time.time()) < 60 for moment in seen)


def test_other_threads_keep_real_sockets():
    def talk() -> tuple[bool, bytes]:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
            server.accept()[0] as accepted,
        ):
            client.sendall(b"hello")
            return isinstance(accepted, socket.socket), accepted.recv(5)

    def look() -> list[bool]:
        with socket.socket() as inside:
            return [
                isinstance(inside, SimSocket),
                isinstance(inside, socket.socket),
                issubclass(type(inside), socket.socket),
            ]

    talked, inside = meanwhile(talk, look)

    assert talked == (True, b"hello")
    assert inside == [[True, True, True]] * 2


def test_other_threads_neither_see_nor_move_the_chance_of_a_run():
    real = random.Random(42)
    random.seed(42)

    drawn, inside = meanwhile(lambda: [random.random(), randint(0, 1000)], lambda: [random.random(), randint(0, 1000)])

    assert drawn == [real.random(), real.randint(0, 1000)]
    assert random.random() == real.random()  # And it goes on from there.
    assert inside == meanwhile(lambda: None, lambda: [random.random(), randint(0, 1000)])[1]


def test_a_kept_function_of_random_is_the_runs_as_well(sim):
    async def main(kept: Callable[[], float]) -> list[float]:
        return [kept(), random.random()]

    with Simulation(sim.seed) as same:
        assert sim.run(main(random.random)) == same.run(main(lambda: random.random()))


def test_a_module_that_is_imported_during_a_run_is_put_right_after_it(sim, tmp_path: Path, monkeypatch):
    (tmp_path / "late_module.py").write_text(
        "import time\nfrom os import urandom\nfrom time import time as now\nclass Timer:\n    clock = time.monotonic\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    async def main() -> types.ModuleType:
        late_module = importlib.import_module("late_module")
        await asyncio.sleep(5)
        assert late_module.now() == T0 + 5
        assert late_module.Timer().clock() == 5
        return late_module

    module = sim.run(main())

    assert module.now is time.time
    assert module.urandom is os.urandom
    # Out of reach, and harmless: it passes on to the real clock.
    assert abs(module.Timer().clock() - time.monotonic()) < 60

    async def again() -> None:
        assert module.now() == T0 + 5

    sim.run(again())


def test_what_a_program_puts_in_place_itself_stays(sim, monkeypatch):
    def fixed() -> float:
        return 42.0

    async def main() -> None:
        monkeypatch.setattr(time, "time", fixed)

    sim.run(main())

    assert time.time is fixed


def test_two_runs_cannot_be_on_at_once(sim):
    async def inner() -> None: ...

    async def main() -> None:
        work = inner()
        try:
            with Simulation() as other, pytest.raises(RuntimeError, match="is already active"):
                other.run(work)
        finally:
            work.close()

    with pytest.raises(RuntimeError, match="is already active"):
        sim.run(main())  # Closing the other one is a run as well.
