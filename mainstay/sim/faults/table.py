"""All faults there are, by name and by sort; and which of them happen where a scenario does not say."""

from typing import Final

from mainstay.sim.faults import AtEvent, AtWrite, Timed
from mainstay.sim.faults.answer_lost import AnswerLost
from mainstay.sim.faults.at_delivery import CrashAtDelivery, PauseAtDelivery
from mainstay.sim.faults.clock_skew import ClockSkew
from mainstay.sim.faults.compaction import Compaction, CompactionMissed
from mainstay.sim.faults.conflict_storm import ConflictStorm
from mainstay.sim.faults.crash import Crash, ServerCrash
from mainstay.sim.faults.crash_at_write import CrashAfter, CrashBefore
from mainstay.sim.faults.cut import Cut, OneWayCut
from mainstay.sim.faults.disk_damage import DiskDamage
from mainstay.sim.faults.disk_error import DiskError
from mainstay.sim.faults.disk_full import StoreDiskFull
from mainstay.sim.faults.half_open import HalfOpen
from mainstay.sim.faults.history_lost import HistoryLost
from mainstay.sim.faults.latency import Latency
from mainstay.sim.faults.leader_loss import LeaderLoss
from mainstay.sim.faults.loss import Loss
from mainstay.sim.faults.lost_sync import LostSync
from mainstay.sim.faults.node_death import NodeDeath
from mainstay.sim.faults.old_state import OldState
from mainstay.sim.faults.overloaded import Overloaded
from mainstay.sim.faults.pause import Pause, ServerPause
from mainstay.sim.faults.power_cut import PowerCut
from mainstay.sim.faults.pulls import FailedPull, SlowPull
from mainstay.sim.faults.reorder import Reorder
from mainstay.sim.faults.request_lost import RequestLost
from mainstay.sim.faults.restart import Restart
from mainstay.sim.faults.restore import Restore
from mainstay.sim.faults.server_behind import ServerBehind
from mainstay.sim.faults.slow_consumer import SlowConsumer
from mainstay.sim.faults.slow_store import SlowStore
from mainstay.sim.faults.stale_server import StaleServer, StaleStart
from mainstay.sim.faults.unseen import UnseenState
from mainstay.sim.faults.version_skew import VersionSkew
from mainstay.sim.faults.watch_delay import WatchDelay
from mainstay.sim.faults.watch_disconnect import WatchDisconnect
from mainstay.sim.faults.watch_repeat import WatchRepeat

TIMED: Final[dict[str, Timed]] = {
    fault.name: fault
    for fault in (
        # The network.
        Latency(),
        Loss(),
        Cut(),
        OneWayCut(),
        HalfOpen(),
        # Programs, machines and servers.
        Crash(),
        ServerCrash(),
        Restart(),
        VersionSkew(),
        Pause(),
        ServerPause(),
        LeaderLoss(),
        ClockSkew(),
        NodeDeath(),
        SlowPull(),
        FailedPull(),
        # What is told, and when.
        ServerBehind(),
        StaleServer(),
        StaleStart(),
        Reorder(),
        SlowConsumer(),
        # What is answered.
        ConflictStorm(),
        Overloaded(),
        # The store.
        SlowStore(),
        Compaction(),
        CompactionMissed(),
        HistoryLost(),
        PowerCut(),
        StoreDiskFull(),
        DiskError(),
        DiskDamage(),
        LostSync(),
        Restore(),
    )
}
AT_WRITE: Final[dict[str, AtWrite]] = {
    fault.name: fault for fault in (RequestLost(), AnswerLost(), CrashBefore(), CrashAfter())
}
PLANNED: Final[dict[str, AtEvent]] = {
    fault.name: fault for fault in (CrashAtDelivery(), PauseAtDelivery(), UnseenState(), OldState())
}
"""Only for plans (sim/run/plans.py): what happens at exactly one delivery."""
AT_EVENT: Final[dict[str, AtEvent]] = {
    **{fault.name: fault for fault in (WatchDelay(), WatchDisconnect(), WatchRepeat())},
    **PLANNED,
}

ALL: Final[dict[str, Timed | AtWrite | AtEvent]] = {**TIMED, **AT_WRITE, **AT_EVENT}

BY_NAME_ONLY: Final = ("disk-damage", "lost-sync", "restore", "stale-start", *PLANNED)
"""Those that break promises by what they are, or need an operator, and those for plans. A scenario that wants one
has to say so."""

NAMES: Final = tuple(name for name in ALL if name not in BY_NAME_ONLY)
"""All others: what a scenario that does not say has to survive."""
