"""What can go wrong in a simulated cluster: one file for each fault.

There are three sorts, by when they are decided upon. Each asks the run's choices, where 0 is that nothing happens:

    Timed     now and then: a cut, a crash, a pause. `strike` does it, and sees to its end
    AtWrite   at each write that a program sends: the request or its answer is lost, the program crashes there
    AtEvent   at each change that a watch delivers: it is late, or the watch ends

A fault has a name, under which scenarios allow it (all.py has the list), and names its choices `fault/NAME/…`. It is
done to the outside of programs, never inside them, and undone by `World.heal` if not before. One that does not fit
every world says so with `fits`: where there are no nodes, none dies.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from mainstay.sim.gate import Fate, Tap
from mainstay.sim.history import Asked

if TYPE_CHECKING:
    from mainstay.sim.world import World

T = TypeVar("T")

# How long something lasts. The first is the mildest. The long ones outlast leases and the patience of clients.
DURATIONS: Final = tuple(timedelta(seconds=seconds) for seconds in (0.5, 1, 2, 5, 10, 20, 40))


class Timed(Protocol):
    """A fault that happens at some moment, whatever goes on."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...

    def strike(self, world: "World") -> None:
        """Do it, once."""


class AtWrite(Protocol):
    """A fault that happens to a write."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...

    def fate(self, world: "World", asked: Asked) -> Fate:
        """What becomes of this write, now that it was chosen."""


class AtEvent(Protocol):
    """A fault that happens to what a watch is about to deliver."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...

    def touch(self, world: "World", tap: Tap) -> None:
        """Do it to this watch."""


def fits(fault: Timed | AtWrite | AtEvent, world: "World") -> bool:
    """Whether it can happen in this world at all."""
    asked: Callable[[World], bool] | None = getattr(fault, "fits", None)
    return asked is None or asked(world)


def one_of(world: "World", label: str, options: "list[T] | tuple[T, ...]") -> T:
    """Choose one of these, of which the first is the mildest."""
    return options[world.sim.choices.choose(label, len(options))]


def some_duration(world: "World", fault: str) -> timedelta:
    return one_of(world, f"fault/{fault}/duration", DURATIONS)
