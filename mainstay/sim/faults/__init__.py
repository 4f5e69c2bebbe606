"""What can go wrong in a simulated cluster: one file for each fault.

There are three sorts, by when they are decided upon. Each asks the run's choices, where 0 is that nothing happens:

    Timed     now and then: a cut, a crash, a pause. `strike` does it, and sees to its end
    AtWrite   at each write that a program sends: the request or its answer is lost, the program crashes there
    AtEvent   at each change that a watch delivers: it is late, or the watch ends

A fault has a name, under which scenarios allow it (table.py has the list), and names its choices `fault/NAME/…`. It is
done to the outside of programs, never inside them, and undone by `World.heal` if not before. One that does not fit
every world says with `lacks` what it wants for: where there are no nodes, none dies.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate, WatchProxy

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

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

    def fate(self, world: "World", asked: RequestReceived) -> Fate:
        """What becomes of this write, now that it was chosen."""


class AtEvent(Protocol):
    """A fault that happens to what a watch is about to deliver."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...

    def touch(self, world: "World", tap: WatchProxy) -> None:
        """Do it to this watch."""


def lacks(fault: Timed | AtWrite | AtEvent, world: "World") -> str:
    """What this world does not have, and must for it to happen. Nothing, if it can."""
    asked: Callable[[World], str] | None = getattr(fault, "lacks", None)
    return "" if asked is None else asked(world)


def fits(fault: Timed | AtWrite | AtEvent, world: "World") -> bool:
    """Whether it can happen in this world at all."""
    return not lacks(fault, world)


def lacks_disk(world: "World") -> str:
    return "" if world.has_disk else "its store has no disk (call `World.store_on_disk` before it boots)"


def choose_one(world: "World", label: str, options: Sequence[T]) -> T:
    """Choose one of these, of which the first is the mildest."""
    return options[world.sim.choices.choose(label, len(options))]


def victim(world: "World", fault: str, names: Sequence[str], aimed_at: str = "") -> str:
    """Choose whom a fault hits: if it is aimed (`Faults.strike`) at a program that it can hit, that one, unless a tape
    decides. A fault that chooses later than it strikes has to say whom it was aimed at."""
    label, aim = f"fault/{fault}/who", aimed_at or world.faults.aimed_at
    if aim in names:
        # Right before the choice: a wish that waits would bend another one.
        world.sim.choices.wish(label, len(names), names.index(aim))
    return choose_one(world, label, names)


def some_duration(world: "World", fault: str) -> timedelta:
    return choose_one(world, f"fault/{fault}/duration", DURATIONS)
