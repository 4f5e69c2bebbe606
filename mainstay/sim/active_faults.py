"""What several want of one thing at the same time, each until they let go of it.

Faults overlap: one of half a second that happens within one of forty must not end it. So no fault sets how a link, a
watch or a server is, and none sets it back. A fault that wants something of it gets a call by which to release it, and
how it is follows from all that is wanted now. Where that differs, the worst of it counts, and not the sum: then a fault
that is alone is exactly what it says it is, and several are no worse than what one could be."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

Release = Callable[[], None]
"""To be called by the fault that wanted something, when that is over. To call it again does nothing."""


class ActiveFaults(Generic[T]):
    """All that is wanted now, in the order in which it came. Calls `changed` whenever that is not what it was."""

    __slots__ = ("_all", "_changed", "_numbers")

    def __init__(self, changed: Callable[[], None]) -> None:
        self._all: dict[int, T] = {}
        self._changed = changed
        self._numbers = 0

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[T]:
        return iter(self._all.values())

    def add(self, what: T) -> Release:
        self._numbers += 1
        number = self._numbers
        self._all[number] = what
        self._changed()

        def let_go() -> None:
            if number in self._all:
                del self._all[number]
                self._changed()

        return let_go

    def clear(self) -> None:
        """Release everything."""
        if self._all:
            self._all.clear()
            self._changed()


def release_all(each: Iterable[Release]) -> Release:
    """To let go of all of these at once."""
    all_of_them = list(each)

    def let_go() -> None:
        for one in all_of_them:
            one()

    return let_go
