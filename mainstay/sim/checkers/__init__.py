"""What must hold in every run, whatever goes wrong in it: one checker for each promise.

A checker is told everything that happens (history.py), in order, and keeps only what it needs to tell whether the
promise is broken. It says so at once, with the events that show it, and the run ends there: what would happen next is
of no interest, and the last line of the story is the one to look at. What can only be told in the end, when all faults
are healed and all is quiet, is asked for then.

A commit may be told of a little later than an answer or a watch that already shows it. Checkers wait for it.

A checker is used for one run. It must not change anything, nor depend on anything but what it is told.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mainstay.sim.errors import SimulationError

if TYPE_CHECKING:
    from mainstay.sim.cluster.history import Event
    from mainstay.sim.cluster.world import World


class Violated(SimulationError):
    """A promise was broken. Says which one, how, and shows the events by which it can be seen."""

    def __init__(self, checker: str, message: str, events: "Sequence[Event]" = ()) -> None:
        shown = "".join(f"\n  {event}" for event in events)
        super().__init__(f"{checker}: {message}{shown}")
        self.checker = checker
        self.message = message
        self.events = tuple(events)


class Checker(Protocol):
    """Watches over one promise."""

    @property
    def name(self) -> str:
        """In the words of a person: it begins the message of a violation."""

    def saw(self, event: "Event") -> None:
        """Something has happened. Raises `Violated`.

        What watches deliver (`WatchDelivered`) is half of all that happens, and is told only to a checker that has an
        attribute `hears_deliveries` which is true. For `hears_restores` see run_checkers.py.
        """

    async def at_end(self, world: "World") -> None:
        """All faults are healed and all is quiet. Raises `Violated` for what should have happened, and has not."""
