"""Work that ends with other work, and work that does not end with its waiter."""

import asyncio
from datetime import timedelta

import pytest

from mainstay.env import tasks

SECOND = timedelta(seconds=1)


async def test_the_first_that_ends_ends_the_others():
    ended: list[str] = []

    async def work(name: str, seconds: int) -> None:
        try:
            await tasks.sleep(SECOND * seconds)
        finally:
            ended.append(name)

    await tasks.until_one_ends((work("slow", 1000), work("quick", 1)), name="race")

    assert ended == ["quick", "slow"]


async def test_what_the_first_raises_is_raised_when_the_others_have_ended():
    ended = asyncio.Event()

    async def fail() -> None:
        raise ValueError("no")

    async def wait() -> None:
        try:
            await tasks.sleep(SECOND * 1000)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="no"):
        await tasks.until_one_ends((wait(), fail()), name="race")
    assert ended.is_set()


async def test_a_cancelled_waiter_cancels_all_its_work():
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await tasks.sleep(SECOND * 1000)
        finally:
            ended.set()

    waiting = tasks.spawn(tasks.until_one_ends((wait(),), name="race"), name="waiting")
    await tasks.sleep(SECOND)
    await tasks.stop(waiting)
    assert ended.is_set()


async def test_shielded_work_continues_when_its_waiter_is_cancelled():
    done = asyncio.Event()

    async def work() -> None:
        await tasks.sleep(SECOND * 10)
        done.set()

    waiting = tasks.spawn(tasks.shielded(work(), name="work"), name="waiting")
    await tasks.sleep(SECOND)
    await tasks.stop(waiting)
    assert not done.is_set()
    await tasks.sleep(SECOND * 10)
    assert done.is_set()
