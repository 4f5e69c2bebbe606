"""The disk damages what the store has written: either that is noticed, or nothing that was acknowledged is gone.

Three programs write and follow a few objects, as in cache-follows, over a store that is on a disk. Whenever the store
is down, a bit of one of its files may be another one, or the end of a file may be gone. A store that opens all the same
has every write that it ever acknowledged.
"""

from datetime import timedelta
from typing import Final

from mainstay.scenarios.power_fails import PowerFails
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

SCENARIO: Final = Scenario(
    name="damaged-log",
    about="The disk flips bits and cuts files of the store: no acknowledged write is silently gone.",
    make=PowerFails,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("disk-damage", "power-cut", "compaction"),
    lasts=timedelta(minutes=2),
    silence=timedelta(minutes=1),
)
