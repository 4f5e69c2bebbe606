"""What holds in every run of every scenario, whatever it is about. (SPEC T1)

A scenario may have one of these with settings of its own; then it is that one which watches. What else must hold only
where a component sees to it, such as that orphans go in the end where repair runs, a scenario names itself.
"""

from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.checkers.autoscaled import AutoscaledWithinProgress
from mainstay.sim.checkers.bounded import BoundedAmplification
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.component_rights import ComponentRights
from mainstay.sim.checkers.failure_domains import FailureDomains
from mainstay.sim.checkers.observed_generations import ObservedGenerations
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.recovery import Recovery
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.checkers.watch_contract import WatchContract


def always() -> list[Checker]:
    """New ones for a run."""
    return [
        WatchContract(),
        AcknowledgedWrites(),
        OneActingLeader(),
        CapacityChecker(),
        Reserved(),
        AtMostOne(may_fail=True),
        BoundedAmplification(),
        AutoscaledWithinProgress(),
        Recovery(),
        FailureDomains(),
        ObservedGenerations(()),
        ComponentRights(),
    ]
