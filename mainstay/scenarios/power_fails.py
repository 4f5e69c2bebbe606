"""The store's machine loses power, its disk is full or fails; what was acknowledged is there, and all goes on.

Three programs write and follow a few objects, as in cache-follows, over a store that is on a disk. Whatever a client
was told has happened is there when the store is back, what was refused is not, and each cache finds what is.
"""

from datetime import timedelta
from typing import Final

from mainstay.scenarios.cache_follows import CacheFollows
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario


class PowerFails(CacheFollows):
    def __init__(self, world: World) -> None:
        world.store_on_disk()
        super().__init__(world)


SCENARIO: Final = Scenario(
    name="power-fails",
    about="The store loses power, its disk is full or fails: acknowledged writes stay, and all caches recover.",
    make=PowerFails,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=(
        "power-cut",
        "disk-full",
        "disk-error",
        "server-crash",
        "crash-after",
        "answer-lost",
        "compaction",
        "compaction-missed",
        "stale-server",
        "half-open",
    ),
    lasts=timedelta(minutes=2),
    silence=timedelta(minutes=1),
)
