"""A number that only grows, and those who wait for it to get somewhere."""

import asyncio


class Watermark:
    def __init__(self, value: int = 0) -> None:
        self.value = value
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def reach(self, wanted: int) -> None:
        """Wait until it is there. Raises what `fail` is given."""
        if self.value < wanted:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((wanted, waiter))
            await waiter

    def advance(self, value: int) -> None:
        self.value = value
        waiting, self._waiting = self._waiting, []
        for wanted, waiter in waiting:
            if wanted > value:
                self._waiting.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """It will not get any further."""
        waiting, self._waiting = self._waiting, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
