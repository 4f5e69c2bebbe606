"""Being told to stop.

The running event loop is the seam. The simulator sends no signals: a test stops what it started.
"""

import asyncio
import signal


class StopSignals:
    """SIGTERM and SIGINT, from the moment this is made until `close`. The first asks to stop, a second one to hurry."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first = asyncio.Event()
        self._second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        (self._second if self._first.is_set() else self._first).set()

    async def first(self) -> None:
        await self._first.wait()

    async def second(self) -> None:
        await self._second.wait()

    def close(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(number)
