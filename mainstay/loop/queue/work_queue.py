"""A work queue for workers that wait: the core of core.py with a clock, a timer, and waiting.

    while (item := await queue.get()) is not None:
        queue.done(item.key, await reconcile(item))

Each `get` that finds nothing waits in line. Whatever makes a key ready wakes one of those who wait, not all of them.
One timer is set, for the time at which the next key is due, and only while a worker waits: one that does not wait
looks at the clock anyhow.

A worker must call `done` for each key it got, also when it fails. If it does not, no other worker gets that key any
more; it shows as `oldest_processing_age`.

All calls must come from the loop's own thread.
"""

import asyncio
from collections import deque
from datetime import timedelta
from typing import Generic

from mainstay.env import Env, tasks
from mainstay.loop.queue.core import Queue
from mainstay.loop.queue.items import Figures, Item, K, KeyFigures, KeyState, Outcome, Priority, QueueSettings

__all__ = ["QueueSettings", "WorkQueue"]


class WorkQueue(Generic[K]):
    """Keys to look at, and workers that wait for them. `name` tells queues of one process apart."""

    def __init__(self, env: Env, name: str, settings: QueueSettings | None = None) -> None:
        self.name = name
        self._clock = env.clock
        self._core: Queue[K] = Queue(settings or QueueSettings(), env.chance.stream("queue", name))
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Workers that were woken and have not come to look yet. Each of them takes one of the ready keys.
        self._coming = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._drained: asyncio.Event | None = None
        self._is_paused = False

    def add(self, key: K, *, tenant: str = "", priority: Priority = Priority.NORMAL, woken_by: int = 0) -> bool:
        """Something has changed: look at this key. `woken_by` is the revision of the change, if it has one.

        False: not accepted, because the queue is draining.
        """
        ready = self._core.ready
        is_accepted = self._core.add(key, self._clock.monotonic_ns(), tenant, priority, woken_by)
        if self._waiting:
            self._wake(self._core.ready - ready)
        return is_accepted

    def add_after(self, key: K, delay: timedelta, *, tenant: str = "", priority: Priority = Priority.NORMAL) -> bool:
        """Look at this key after a while, even if it is looked at before. Of several wishes the earliest counts."""
        is_accepted = self._core.add_after(key, self._clock.monotonic_ns(), delay, tenant, priority)
        if self._waiting:
            self._wake(0)
        return is_accepted

    async def get(self) -> Item[K] | None:
        """The next key; waits until there is one. None: the queue is draining, and the worker should end."""
        while not self._core.is_draining:
            item = None if self._is_paused else self._core.get(self._clock.monotonic_ns())
            if item is not None:
                if self._waiting and self._core.ready > self._coming:
                    # Several were due at once, and the first worker to look has put them all in line.
                    self._wake(1)
                return item
            await self._wait()
        return None

    def done(self, key: K, outcome: Outcome) -> KeyState:
        """The worker is done with the key: how it went. Says where the key is now; see `Queue.done`."""
        state = self._core.done(key, outcome, self._clock.monotonic_ns())
        if self._waiting:
            # Either this key is ready again, or another one of its tenant was held back until now; perhaps neither.
            self._wake(1)
        if self._drained is not None and not self._core.processing:
            self._drained.set()
        return state

    @property
    def settings(self) -> QueueSettings:
        return self._core.settings

    def change_settings(self, settings: QueueSettings) -> None:
        """Go by other settings from now on."""
        self._core.change_settings(settings, self._clock.monotonic_ns())
        self._wake(self._core.ready)

    def pause(self) -> None:
        """Hand out nothing until `resume`. What comes meanwhile waits in line, and who asks for it waits, too."""
        self._is_paused = True
        self._set_timer(None)

    def resume(self) -> None:
        self._is_paused = False
        self._core.enqueue_due(self._clock.monotonic_ns())
        self._wake(self._core.ready)

    async def drain(self, timeout: timedelta | None = None) -> tuple[K, ...]:
        """Hand out nothing more, and wait until workers are done with what they have. Those who wait are sent home.

        Returns the keys that were still being processed when the time was over: none of them if all went well. What was
        in line is left alone; the next leader will find it.
        """
        self._core.drain()
        self._set_timer(None)
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()
        if self._drained is None:
            self._drained = asyncio.Event()
        if self._core.processing:
            try:
                async with tasks.timeout(timeout):
                    await self._drained.wait()
            except TimeoutError:
                pass
        return tuple(self._core.processing)

    def look(self, key: K) -> KeyFigures | None:
        """What there is to know about one key."""
        return self._core.look(key)

    def figures(self) -> Figures:
        """The state of the queue, for metrics and for people."""
        return self._core.figures(self._clock.monotonic_ns())

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._set_timer(None if self._is_paused else self._core.due_ns())
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # It was woken for a key and cannot take it. Another worker must.
                self._coming -= 1
                self._wake(1)
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        if not self._core.is_draining:
            self._coming -= 1

    def _wake(self, count: int) -> None:
        """Wake a worker for each of so many keys that have become ready, and set the timer for those who still wait."""
        if self._is_paused:
            return
        while count > 0 and self._waiting and self._coming < self._core.ready:
            waiter = self._waiting.popleft()
            if not waiter.done():  # It may be cancelled, and not know yet.
                count -= 1
                self._coming += 1
                waiter.set_result(None)
        self._set_timer(self._core.due_ns() if self._waiting else None)

    def _set_timer(self, due_ns: int | None) -> None:
        if self._timer is not None:
            if due_ns is not None and self._timer_ns <= due_ns:
                return  # It rings early enough, and is then set again.
            self._timer.cancel()
            self._timer = None
        if due_ns is None:
            return
        # Rounded up, and never nothing: a timer that rings too early by less than the clock can show would ring again
        # and again while time stands still.
        delay_us = max(1, -(-(due_ns - self._clock.monotonic_ns()) // 1000))
        self._timer_ns = due_ns
        self._timer = asyncio.get_running_loop().call_later(delay_us / 1_000_000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._core.enqueue_due(self._clock.monotonic_ns())
        self._wake(self._core.ready)
