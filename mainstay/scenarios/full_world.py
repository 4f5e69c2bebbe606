"""A whole cluster, with everything that can go wrong: all controllers, users who roll out and back, and lost machines.

As in core-world, and besides: Deployments with images that cannot work, Jobs, Services, namespaces that come and go,
Holds, policies, and an autoscaler whose load changes. Of servers, schedulers and controllers any one is enough; and of
the nodes at most two of five stay dead, no two of one zone: their pods have to be moved, and of what may run once never
two do. (SPEC T1, T2)
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    AUTOSCALERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    ENDPOINT_SLICES,
    JOBS,
    PODS,
    PRIORITY_CLASSES,
    REPLICASETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from mainstay.client.client import Client
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.scenarios import _operators as operators
from mainstay.scenarios import _policy_changes as policies
from mainstay.scenarios import _users as users
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._swarm import UserAction
from mainstay.scenarios._users import APPS, HIGH, SETS, a_pod_spec, a_workload
from mainstay.scenarios._worlds import CONTROLLERS as CONTROLLER_PROCESSES
from mainstay.scenarios._worlds import SILENCE, WITHIN, WorldStage
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.at_most_one import AtMostOne
from mainstay.sim.checkers.bound_in_time import BoundInTime
from mainstay.sim.checkers.bounded import BoundedAmplification
from mainstay.sim.checkers.budgets import BudgetChecker
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.job_counts import JobCounts
from mainstay.sim.checkers.namespaces import Namespaces
from mainstay.sim.checkers.observed_generations import ObservedGenerations
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.orphans import Orphans
from mainstay.sim.checkers.owned import OwnershipChecker
from mainstay.sim.checkers.quotas import QuotaChecker
from mainstay.sim.checkers.recovery import Recovery
from mainstay.sim.checkers.released import Released
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

USER: Final = "user"
OPERATOR: Final = "operator"
OBSERVED: Final = ("apps/replicasets/", "apps/deployments/", "policy/poddisruptionbudgets/")
OWNED: Final[Mapping[str, KindName]] = {
    "core/pods/": PODS,
    "core/serviceaccounts/": SERVICE_ACCOUNTS,
    "core/configmaps/": CONFIG_MAPS,
    "apps/replicasets/": REPLICASETS,
    "apps/deployments/": DEPLOYMENTS,
    "batch/jobs/": JOBS,
    "core/services/": SERVICES,
    "discovery.k8s.io/endpointslices/": ENDPOINT_SLICES,
}
"""What has an owner, or may have one, by how its keys begin in the store."""


class FullWorld(WorldStage):
    controllers = CONTROLLERS
    loops = LOOPS
    observed = OBSERVED
    has_usage = True
    users = MappingProxyType(
        {
            USER: (
                UserAction("scale", 2, users.scale_app),
                UserAction("roll", 3, users.roll),
                UserAction("roll-back", 1, users.roll_back),
                UserAction("submit-app", 1, users.submit_app),
                UserAction("submit-set", 1, users.submit_set),
                UserAction("scale-set", 1, users.scale_set),
                UserAction("submit-job", 2, users.submit_job),
                UserAction("submit", 1, users.submit_task),
                UserAction("single", 2, users.submit_single),
                UserAction("delete-pod", 1, users.delete_pod),
                UserAction("delete-workload", 1, users.delete_workload),
                UserAction("plan", 2, users.plan_ahead),
                UserAction("give-up-plan", 1, users.give_up_plan),
                UserAction("namespace", 2, users.come_and_go),
            ),
            OPERATOR: (
                *operators.USUAL,
                *policies.CHANGES,
                UserAction("policies", 1, operators.set_policies),
                UserAction("hold", 1, operators.hold_something),
                UserAction("load", 2, policies.change_load),
            ),
        }
    )

    async def prepare(self, client: Client) -> None:
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": HIGH}, "value": 1000})
        app, labels = APPS[0], {"app": APPS[0]}
        await client.create(DEPLOYMENTS, a_workload(app, 2, a_pod_spec()))
        await client.create(REPLICASETS, a_workload(SETS[0], 1, a_pod_spec()))
        metadata = {"name": app, "namespace": NAMESPACE}
        budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        await client.create(DISRUPTION_BUDGETS, {"metadata": metadata, "spec": budget})
        await client.create(AUTOSCALERS, users.an_autoscaler(app))
        await client.create(SERVICES, {"metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}})

    async def put_in_order(self, user: str, client: Client) -> None:
        if user == OPERATOR:
            await operators.open_all(self, client)
            await policies.lift_policies(self, client)
            return
        await users.mend(client)
        await users.ensure_singles(client, list(self.singles))

    def spares(self) -> Sequence[Sequence[str]]:
        return (*super().spares(), ("node-1", "node-3"), ("node-2", "node-4"))


def checkers() -> Sequence[Checker]:
    return [
        AcknowledgedWrites(),
        AtMostOne(may_fail=True),
        BoundInTime(),
        BoundedAmplification(),
        BudgetChecker(),
        CapacityChecker(),
        JobCounts(),
        Namespaces(tuple(OWNED), CONTROLLER_PROCESSES, "namespace-"),
        ObservedGenerations(OBSERVED),
        OneActingLeader(),
        Orphans(),
        OwnershipChecker(OWNED, CONTROLLER_PROCESSES, "owner-cleanup-"),
        QuotaChecker(),
        Recovery(),
        Released(),
        Reserved(),
        WatchContract(),
    ]


SCENARIO: Final = Scenario(
    name="full-world",
    about="All controllers, under users and operators, with lost machines and all faults.",
    make=FullWorld,
    checkers=checkers,
    lasts=timedelta(seconds=60),
    calm=WITHIN,
    silence=SILENCE,
    ids=("T1", "T2"),
)
