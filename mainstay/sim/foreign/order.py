"""In which order foreign code does several things at once, where it leaves that to the addresses of objects.

`asyncio.as_completed` makes a set of what it is given, and begins with whatever comes first in that: coroutines have
the order of their addresses. In a run they are begun as they were given. If they were given as a set, they are sorted
by what they are: the name of their function, and the plain values that they were called with. Those that are equal in
that do the same, in any order.

Tasks and futures in sets have numbers (sim/loop/tasks.py). Sets of texts have the order of their hashes, which differs
from process to process: only the program itself can sort those, or the user by setting PYTHONHASHSEED.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Set
from typing import Any

from mainstay.sim.foreign.context import AnyReplacement, Replacement, RunContext

_PLAIN = (str, int, float, bytes, type(None))


def replacements() -> dict[tuple[str, str], AnyReplacement]:
    """By module and name, what stands there during a run."""
    return {("asyncio", "as_completed"): Replacement(asyncio.as_completed, _as_completed)}


_real_as_completed = asyncio.as_completed


def _as_completed(
    run: RunContext, fs: Iterable[Awaitable[Any]], *, timeout: float | None = None
) -> Iterator["asyncio.Future[Any]"]:
    if isinstance(fs, Awaitable):
        return _real_as_completed(fs, timeout=timeout)  # A mistake, which it knows to tell.
    # It makes a set of whatever it is given. So it is given tasks, whose hashes are numbers.
    return _real_as_completed([asyncio.ensure_future(each) for each in in_order(fs)], timeout=timeout)


def in_order(awaitables: Iterable[Awaitable[Any]]) -> list[Awaitable[Any]]:
    """The same, each once, in an order that does not depend on addresses: as they come, if not from a set."""
    if not isinstance(awaitables, Set):
        return list(dict.fromkeys(awaitables))
    coroutines = [each for each in awaitables if isinstance(each, Coroutine)]
    others = [each for each in awaitables if not isinstance(each, Coroutine)]  # Those have numbers for hashes.
    return [*others, *sorted(coroutines, key=_what)]


def _what(coroutine: Coroutine[Any, Any, Any]) -> tuple[str, str]:
    frame = getattr(coroutine, "cr_frame", None)
    called_with = {} if frame is None else frame.f_locals
    plain = [(name, value) for name, value in sorted(called_with.items()) if isinstance(value, _PLAIN)]
    return getattr(coroutine, "__qualname__", ""), repr(plain)
