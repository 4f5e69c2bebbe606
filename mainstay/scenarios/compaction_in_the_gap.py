"""Watches are broken while the store forgets what they missed. (etcd #18089, #19179; kubernetes #72187)

A client that comes back learns that its revision is gone, and reads everything again; what was deleted in the gap is
told as deleted, to those who listen too. No client may list over and over."""

from datetime import timedelta
from typing import Final

from mainstay.scenarios._followers import FollowerStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

SCENARIO: Final = Scenario(
    name="compaction-in-the-gap",
    about="The store is compacted while watches are broken: deletions are still delivered, without a list storm.",
    make=FollowerStage,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=(
        "history-lost",
        "compaction",
        "compaction-missed",
        "watch-disconnect",
        "watch-delay",
        "cut",
        "server-crash",
    ),
    lasts=timedelta(minutes=2),
    silence=timedelta(seconds=45),
    ids=("23", "F8"),
)
