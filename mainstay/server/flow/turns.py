"""Turns: whose long answer makes its next piece.

A list of 20,000 objects is made in pieces, as its client takes them. With a hundred of them the loop would make a
hundred pieces before it looks at its connections again. So pieces wait for a turn: one is made per turn of the loop,
of the flow that is next by fair queuing, weighted by the seats of its level. Exempt flows take turns as well, with the
weight of all seats: their lists must not hold up leases either.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

FLOWS_KEPT_MAX: Final = 1_000


class TurnFlow:
    """The answers of one flow, which share its turns."""

    __slots__ = ("tag", "waiters", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.tag = 0.0
        self.waiters: deque[asyncio.Future[None]] = deque()


class TurnQueue:
    """One for each server."""

    def __init__(self) -> None:
        self._flows: dict[int, TurnFlow] = {}
        self._waiting: dict[TurnFlow, None] = {}
        self._now = 0.0
        self._is_pumping = False

    def begin(self, flow: int, weight: int, on_end: Callable[[], None]) -> "AnswerTurns":
        """For one answer of a flow, given as its hash. `on_end` is called once, when the answer is over."""
        known = self._flows.get(flow)
        if known is None:
            if len(self._flows) >= FLOWS_KEPT_MAX:
                self._flows = {each: kept for each, kept in self._flows.items() if kept in self._waiting}
            known = self._flows[flow] = TurnFlow(weight)
        known.weight = max(1, weight)
        return AnswerTurns(self, known, on_end)

    async def wait(self, flow: TurnFlow) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        flow.waiters.append(waiter)
        self._waiting[flow] = None
        if not self._is_pumping:
            self._is_pumping = True
            loop.call_soon(self._pump)
        await waiter

    def _pump(self) -> None:
        """Give one turn, and come back in the next turn of the loop if others wait."""
        while self._waiting:
            flow = min(self._waiting, key=lambda each: max(each.tag, self._now))  # The first of those that are equal.
            waiter = flow.waiters.popleft()
            # To the end of the line: flows of the same tag take turns.
            del self._waiting[flow]
            if flow.waiters:
                self._waiting[flow] = None
            if waiter.done():
                continue  # Its client is gone.
            self._now = max(flow.tag, self._now)
            flow.tag = self._now + 1 / flow.weight
            waiter.set_result(None)
            break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._pump)
        else:
            self._is_pumping = False


class AnswerTurns:
    """Implements `PieceTurns` (http/messages.py)."""

    __slots__ = ("_flow", "_on_end", "_queue")

    def __init__(self, queue: TurnQueue, flow: TurnFlow, on_end: Callable[[], None]) -> None:
        self._queue = queue
        self._flow = flow
        self._on_end: Callable[[], None] | None = on_end

    async def wait(self) -> None:
        await self._queue.wait(self._flow)

    def end(self) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end()
