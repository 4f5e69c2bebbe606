"""The store is put back to a backup, perhaps again and again, while three programs write and follow a few objects.

What was written since the backup was never written, and its revisions are given to other writes. Each cache finds out,
keeps nothing that is not there, and in the end holds exactly what a fresh list says. (As catalogue 22, for any client)
"""

from datetime import timedelta
from typing import Final

from mainstay.scenarios.cache_follows import CacheFollows
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

SCENARIO: Final = Scenario(
    name="put-back-again",
    about="The store is restored from backups while caches follow it: at the end each cache equals a fresh list.",
    make=CacheFollows,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("restore", "crash", "server-crash", "watch-disconnect", "watch-delay", "cut", "half-open", "compaction"),
    lasts=timedelta(minutes=2),
    calm=timedelta(minutes=10),
    silence=timedelta(minutes=2),
    ids=("22",),
)
