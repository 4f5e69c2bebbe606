"""A situation worth running: a cluster, what is done to it, what may go wrong, and what must hold all the same.

    def make(world: World) -> Stage: ...   # adds servers and programs, starts nothing

    SCENARIO = Scenario("cache-follows", "Caches follow …", make, checkers=lambda: [WatchContract(), …])

A stage has three moments. It is *ready* when everything runs and has caught up; that far a scenario is the same for all
its runs, which begin there (forks.py). Between `begin` and `finish` users want things: objects are written, and
faults happen. Then all is healed, comes to rest, and `check` looks at what became of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.sim.checkers import Checker
from mainstay.sim.cluster.expected_state import ExpectedState

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World
    from mainstay.sim.narration.steps import Narration

BOOT_SEED: Final = 0
"""Of the part that all runs of a scenario share."""


class Stage:
    """What is played in one run. Each method may be left as it is."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.told = ""
        """What is to be said about the run besides its verdict."""

    async def ready(self) -> None:
        """Wait until all that runs from the start has caught up. All programs have been started."""

    async def begin(self) -> None:
        """From now on users want something. Must not wait for it: faults may hold it up for long."""

    async def finish(self) -> None:
        """Users want nothing new from now on. Called before the faults are healed."""

    async def check(self) -> None:
        """All is healed and quiet: is everything as it should be? Raises `Violated`."""

    def spares(self) -> Sequence[Sequence[str]]:
        """Groups of programs, servers too, of which any one is enough: when the faults are over, of each group a part
        drawn from the seed is healed, the *core*, and the rest stays dead. By default all are needed."""
        return ()


@dataclass(frozen=True)
class Scenario:
    name: str
    """For the command line: small letters and dashes."""
    about: str
    """One sentence."""
    make: "Callable[[World], Stage]"
    checkers: Callable[[], Sequence[Checker]]
    """New ones for each run: what it is about. What holds in every run is checked besides (checkers/always.py), and so
    is that all comes to rest."""
    faults: tuple[str, ...] | None = None
    """Names of those that may happen (faults/). None: all of them. What does happen is drawn from the seed."""
    lasts: timedelta = timedelta(seconds=60)
    """How long things are wanted, and go wrong."""
    calm: timedelta = timedelta(minutes=5)
    """How long it may take after healing to come to rest."""
    silence: timedelta = timedelta(seconds=30)
    """How long nothing is written before that counts as rest. Longer than any component waits before it looks again."""
    expected: ExpectedState | None = None
    """What each run has to end with, if that is given (sim/cluster/final_state.py)."""
    ids: tuple[str, ...] = ()
    """What it is about: ids of the specification, and numbers of the catalogue (docs/scenarios.md)."""
    unchecked: tuple[str, ...] = ()
    """Names of checkers that are always on, and not here: the scenario itself does what they forbid."""
    narration: "Narration | None" = None
    """Of a worked example: the timeline of its text, and the weak design that it warns of."""
