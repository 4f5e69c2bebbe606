"""Turns at something that does one thing at a time, fair to owners: one who asks often waits behind its own.

The owners who wait take turns, in the order in which they began to wait; those of one owner are served in their order.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairTurns:
    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the block takes."""
        if self._is_taken:
            await self._wait(owner)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, owner: str) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._pass_on()  # It was given a turn that it no longer needs.
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            owner = next(iter(self._waiting))
            waiters = self._waiting.pop(owner)
            waiter = waiters.popleft()
            while waiter.done() and waiters:  # Its client is gone.
                waiter = waiters.popleft()
            if waiters:
                self._waiting[owner] = waiters  # At the end.
            if not waiter.done():
                waiter.set_result(None)
                return
        self._is_taken = False
