"""Callbacks that keep the loop busy are noticed, by CPU time, and named. Real loops: what is watched is a thread."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from mainstay.env.loop_watch import LoopWatch


def burn(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


async def until(is_true: Callable[[], bool]) -> None:
    """Bounded by turns of this process: on a busy machine those take long, and the watcher has as many."""
    for _ in range(5000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not become true")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_long_callback_is_noticed_and_its_stack_logged(
    run: Callable[[Coroutine[Any, Any, None]], None], caplog: pytest.LogCaptureFixture
):
    async def program() -> None:
        watch = LoopWatch()
        watch.start()
        asyncio.get_running_loop().call_soon(burn, 1.0)  # Long enough for a few looks, also on a busy machine.
        await until(lambda: watch.slow > 0)
        watch.stop()
        assert 0.1 < watch.longest_s < 1.2

    run(program())
    assert "kept the event loop busy for at least" in caplog.text
    assert "in burn" in caplog.text


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_many_short_callbacks_are_not_taken_for_a_long_one(run: Callable[[Coroutine[Any, Any, None]], None]):
    async def program() -> None:
        watch = LoopWatch()
        watch.start()
        for _ in range(400):
            burn(0.0005)
            await asyncio.sleep(0)
        watch.stop()
        assert watch.slow == 0

    run(program())
