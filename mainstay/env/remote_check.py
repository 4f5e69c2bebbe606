"""A health check that asks another process, such as etcd."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from mainstay.env import tasks
from mainstay.env.clock import Clock

ANSWER_WITHIN: Final = timedelta(seconds=2)
FRESH_FOR: Final = timedelta(seconds=1)  # It gives the same answer for so long, and then asks again.

AskElsewhere = Callable[[], Awaitable[str]]
"""Returns why it is unhealthy. Empty: it is healthy."""


class RemoteCheck:
    """A check that asks elsewhere: one question at a time, and it repeats the answer for a moment."""

    def __init__(self, check: AskElsewhere, clock: Clock) -> None:
        self._check = check
        self._clock = clock
        self._asking: asyncio.Task[None] | None = None
        self._asked_ns = 0
        self._answer = ""
        self._answered_ns: int | None = None

    async def find_problem(self) -> str:
        now_ns = self._clock.monotonic_ns()
        if self._answered_ns is not None and now_ns - self._answered_ns < _ns(FRESH_FOR):
            return self._answer
        asking = self._asking
        if asking is None or asking.done():
            self._asked_ns = now_ns
            asking = self._asking = tasks.spawn(self._ask(), name="health check")
        left_ns = _ns(ANSWER_WITHIN) - (now_ns - self._asked_ns)
        if left_ns > 0:
            await asyncio.wait([asking], timeout=left_ns / 1e9)
        if asking.done():
            return self._answer
        waited = timedelta(microseconds=(self._clock.monotonic_ns() - self._asked_ns) // 1000)
        return f"no answer for {waited.total_seconds():.0f}s"

    async def _ask(self) -> None:
        try:
            problem = await self._check()
        except Exception as error:  # noqa: BLE001 - it is what the check says
            problem = str(error) or repr(error)
        self._answer, self._answered_ns = problem, self._clock.monotonic_ns()


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
