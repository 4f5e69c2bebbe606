"""How a run is made to go wrong: one file for each way of choosing among the faults that a scenario allows.

A strategy is asked once, when the work of a run begins. From then on it lets faults happen (faults/schedule.py), by
choices of the run, so that a tape makes the same run again whatever strategy once drew it. The list is in table.py.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World


class Strategy(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...

    def disturb(self, world: "World", allowed: tuple[str, ...]) -> None:
        """Set up what goes wrong in this run, with these faults and no others."""
