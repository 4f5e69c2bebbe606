"""Watches go over to a server that is behind, and are told again what they know. (etcd #15271, #15220, #20221)

A cache must not go back, nor may it take for news what it has seen; and when the server has caught up, it goes on.
"""

from datetime import timedelta
from typing import Final

from mainstay.scenarios._followers import FollowerStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

SCENARIO: Final = Scenario(
    name="back-in-time",
    about="Servers lag and watches repeat changes: no cache goes back in time or stops.",
    make=FollowerStage,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("server-behind", "stale-server", "watch-repeat", "watch-disconnect", "server-crash", "cut"),
    lasts=timedelta(minutes=2),
    silence=timedelta(seconds=45),
    ids=("24",),
)
