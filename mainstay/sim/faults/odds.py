"""How likely each fault is, where it can happen: what tells one strategy from another.

Whether a fault happens is a choice of the run, and a strategy only says how likely it is. So a tape makes the same run
again without knowing why something was likely once. 1 is for sure, which is how a plan lets one thing happen at one
place (sim/run/plans.py).
"""

from typing import Final

from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import WatchProxy

PER_BEAT: Final = 0.04  # Of each timed fault: once or so in a minute.
PER_WRITE: Final = 0.03
PER_EVENT: Final = 0.02


class Odds:
    """Those of a run without aimed faults. Others differ in some."""

    def in_run(self, fault: str) -> float | None:
        """That it may happen at all in this run. None: as well as not, which is drawn in the way it ever was."""
        return None

    def at_beat(self, fault: str) -> float:
        return PER_BEAT

    def at_write(self, fault: str, asked: RequestReceived) -> float:
        return PER_WRITE

    def at_event(self, fault: str, tap: WatchProxy) -> float:
        return PER_EVENT


USUAL: Final = Odds()
