"""All that Mainstay asks of the outside: clock, chance, disk, tasks and network. The only place that may ask.

`Clock`, `Chance` and `Disk` are values that a component is given, because two components of one simulated run
may have different ones: a skewed clock, another seed, a disk of their own. Tasks and network are functions over the
running event loop: that loop *is* their seam, and the simulator brings its own (sim/loop/loop.py).
"""

from dataclasses import dataclass

from mainstay.env.chance import Chance
from mainstay.env.clock import Clock, SystemClock
from mainstay.env.disk import Disk, SystemDisk

__all__ = ["Chance", "Clock", "Disk", "Env", "SystemClock", "SystemDisk"]


@dataclass(frozen=True, slots=True)
class Env:
    """What one component is given of the outside."""

    clock: Clock
    chance: Chance
    disk: Disk
