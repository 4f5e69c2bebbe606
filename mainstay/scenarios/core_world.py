"""The core of a cluster, with everything that can go wrong: servers, schedulers, ReplicaSets, node health and repair.

Small and quick, for many runs. Two of each process, five nodes in three zones, a user who wants replicas and single
pods, and an operator who drains, resizes and loses machines, and changes policies. Of the processes any one of each
sort is enough: in the end the others may be gone for good. (SPEC T1: all that must hold in every run)
"""

from collections.abc import Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.api.kind_names import DISRUPTION_BUDGETS, PRIORITY_CLASSES, REPLICASETS
from mainstay.client.client import Client
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.scenarios import _operators as operators
from mainstay.scenarios import _policy_changes as policies
from mainstay.scenarios import _users as users
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._swarm import UserAction
from mainstay.scenarios._users import HIGH, SETS, a_pod_spec, a_workload, ensure_singles
from mainstay.scenarios._worlds import SILENCE, WITHIN, WorldStage
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.checkers.bound_in_time import BoundInTime
from mainstay.sim.checkers.bounded import BoundedAmplification
from mainstay.sim.checkers.budgets import BudgetChecker
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.observed_generations import ObservedGenerations
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.orphans import Orphans
from mainstay.sim.checkers.quotas import QuotaChecker
from mainstay.sim.checkers.released import Released
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

USER: Final = "user"
OPERATOR: Final = "operator"
OBSERVED: Final = ("apps/replicasets/", "policy/poddisruptionbudgets/")


class CoreWorld(WorldStage):
    controllers = (ReplicaSets(), DisruptionBudgets())
    loops = (NODE_HEALTH, REPAIR)
    observed = OBSERVED
    users = MappingProxyType(
        {
            USER: (
                UserAction("scale", 3, users.scale_set),
                UserAction("submit", 2, users.submit_task),
                UserAction("single", 2, users.submit_single),
                UserAction("delete-pod", 1, users.delete_pod),
                UserAction("plan", 2, users.plan_ahead),
                UserAction("give-up-plan", 1, users.give_up_plan),
            ),
            OPERATOR: (*operators.USUAL, *policies.CHANGES),
        }
    )

    async def prepare(self, client: Client) -> None:
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": HIGH}, "value": 1000})
        for name in SETS:
            await client.create(REPLICASETS, a_workload(name, 2, a_pod_spec()))
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": SETS[0]}}}
        metadata = {"name": SETS[0], "namespace": NAMESPACE}
        await client.create(DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})

    async def put_in_order(self, user: str, client: Client) -> None:
        if user == OPERATOR:
            await operators.open_all(self, client)
            await policies.lift_policies(self, client)
        else:
            await ensure_singles(client, list(self.singles))


def checkers() -> Sequence[Checker]:
    return [
        AcknowledgedWrites(),
        AtMostOne(),
        BoundInTime(),
        BoundedAmplification(),
        BudgetChecker(),
        CapacityChecker(),
        ObservedGenerations(OBSERVED),
        OneActingLeader(),
        Orphans(),
        QuotaChecker(),
        Released(),
        Reserved(),
        WatchContract(),
    ]


SCENARIO: Final = Scenario(
    name="core-world",
    about="Servers, schedulers, ReplicaSets, node health and repair under users, operators and all faults.",
    make=CoreWorld,
    checkers=checkers,
    lasts=timedelta(seconds=60),
    calm=WITHIN,
    silence=SILENCE,
    ids=("O3", "R2", "T1", "T2", "T6"),
)
