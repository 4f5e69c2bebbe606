"""The asynchronous generators of a loop: which are under way, and closing those that are no longer iterated.

As in asyncio, but in the order in which they began. asyncio keeps them in a set, whose order is that of addresses.
"""

import asyncio
import itertools
import sys
import warnings
import weakref
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mainstay.sim.process_table import SimProcess, current_process

if TYPE_CHECKING:
    from mainstay.sim.loop.loop import SimLoop

Generator = AsyncGenerator[Any, Any]


class AsyncGenerators:
    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop
        self._numbers = itertools.count()
        self._under_way: dict[int, tuple[weakref.ref[Generator], SimProcess | None]] = {}
        self._is_shut_down = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take note of generators that begin inside the block."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._began, finalizer=self._was_dropped)
        try:
            yield
        finally:
            sys.set_asyncgen_hooks(*hooks)

    async def shut_down(self) -> None:
        """Close all that are under way, except those of dead processes. A failure goes to the exception handler."""
        self._is_shut_down = True
        living = [ref for ref, process in self._under_way.values() if process is None or not process.is_dead]
        generators = [generator for ref in living if (generator := ref()) is not None]
        self._under_way.clear()
        results = await asyncio.gather(*(generator.aclose() for generator in generators), return_exceptions=True)
        for result, generator in zip(results, generators, strict=True):
            if isinstance(result, Exception):
                self._loop.call_exception_handler(
                    {
                        "message": f"an error occurred during closing of asynchronous generator {generator!r}",
                        "exception": result,
                        "asyncgen": generator,
                    }
                )

    def _began(self, generator: Generator) -> None:
        if self._is_shut_down:
            warnings.warn(
                f"asynchronous generator {generator!r} was scheduled after loop.shutdown_asyncgens() call",
                ResourceWarning,
                source=self._loop,
                stacklevel=2,
            )
        number = next(self._numbers)
        self._under_way[number] = weakref.ref(generator, partial(self._ended, number)), current_process()

    def _ended(self, number: int, ref: "weakref.ref[Generator]") -> None:
        self._under_way.pop(number, None)

    def _was_dropped(self, generator: Generator) -> None:
        """It is no longer iterated, and it is not at its end: its `finally` blocks have to be run by a task."""
        if not self._loop.is_closed():
            self._loop.call_soon(self._loop.create_task, generator.aclose())
