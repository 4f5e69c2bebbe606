"""Scenarios that are not the same run in each process, for tests/sim/test_determinism_guard.py. Each leaks in one
marked line.
"""

import itertools
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from mainstay.env import Env, tasks
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

NAMES = ("anna", "berta", "carla", "dora", "emma", "frieda", "greta", "hanna")
_COUNTED = itertools.count()


def count() -> int:
    return next(_COUNTED)


class Leaky(Stage):
    """A program that looks after some people, one after the other."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program("leaky", self.main)

    async def main(self, env: Env) -> None:
        for _ in range(300):  # So that it is not in the first batch of events.
            await tasks.sleep(timedelta(seconds=0.01))
        await self.leak(env)

    async def leak(self, env: Env) -> None:
        for name in NAMES:
            await self.greet(name)

    async def greet(self, name: str) -> None:
        await tasks.stop(tasks.spawn(tasks.sleep(timedelta(seconds=1)), name=name))


class SetOrder(Leaky):
    async def leak(self, env: Env) -> None:
        for name in set(NAMES):
            await self.greet(name)  # LEAK


class AddressOrder(Leaky):
    async def leak(self, env: Env) -> None:
        people = [(object(), name) for name in NAMES]
        for _, name in sorted(people, key=lambda pair: hash(id(pair[0]) * 2654435761 >> 12 & 1023)):
            await self.greet(name)  # LEAK


class RealTime(Leaky):
    async def leak(self, env: Env, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        await tasks.sleep(timedelta(microseconds=1 + now_ns() % 1_000_000))  # LEAK


class Counter(Leaky):
    async def leak(self, env: Env) -> None:
        await self.greet(f"guest-{count()}")  # LEAK


def _scenario(stage: type[Leaky]) -> Scenario:
    lasts, silence = timedelta(seconds=10), timedelta(seconds=5)
    return Scenario("leaky", "It leaks.", stage, checkers=list, faults=(), lasts=lasts, silence=silence)


TIGHT = _scenario(Leaky)
SET_ORDER = _scenario(SetOrder)
ADDRESS_ORDER = _scenario(AddressOrder)
REAL_TIME = _scenario(RealTime)
COUNTER = _scenario(Counter)


def greets_a_set_of_people(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leaky, "leak", SetOrder.leak)
