"""Small situations, one for each family of controllers: few enough writes to crash at each of them (sweep.py).

There is one process of controllers, so that whoever starts after a crash is the one that must find its own earlier work.
The user does a few things at fixed times, and what nodes do is always the same: with or without a crash, the end is.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from mainstay.api.kind import Object, Propagation
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, NotFound
from mainstay.controllers import pod_state, slots
from mainstay.controllers.deployment import Deployments
from mainstay.controllers.disruption_budget import DisruptionBudgets
from mainstay.controllers.endpoint_slice import EndpointSlices
from mainstay.controllers.endpoints import Endpoints
from mainstay.controllers.job import Jobs
from mainstay.controllers.kinds import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    PODS,
    REPLICASETS,
    SERVICES,
)
from mainstay.controllers.namespace import NamespaceDeletion
from mainstay.controllers.own_loop import OwnLoop
from mainstay.controllers.owner_cleanup.cleaning import OwnerCleanup
from mainstay.controllers.progress import DeploymentProgress, JobProgress, ReplicaSetProgress
from mainstay.controllers.replicaset import ReplicaSets
from mainstay.controllers.service_account import ServiceAccounts
from mainstay.controllers.serving import Serving
from mainstay.env import tasks
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.job_counts import JobCounts
from mainstay.sim.final_state import Ending
from mainstay.sim.scenario import Scenario, Stage
from mainstay.sim.scenarios._health import WATCHERS
from mainstay.sim.scenarios._stages import NAMESPACE
from mainstay.sim.scenarios._workloads import WorkloadStage, a_workload, removed, told, with_image
from mainstay.sim.scenarios.fraud_batch import FraudBatch, OneReplacement
from mainstay.sim.world import World

CONTROLLERS: Final = "controllers-1"
TEAM: Final = "team"
_LEAVING_S: Final = 2

Step = Callable[[Client], Awaitable[object]]


class CompactStage(Ending, WorkloadStage):
    programs = (CONTROLLERS,)
    turn_every = timedelta(seconds=2)
    steps: Sequence[Step] = ()

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._done = 0

    def choose(self, what: str, options: int) -> int:
        return 0  # Nothing is left to chance.

    async def turn(self, client: Client) -> None:
        if self._done < len(self.steps):
            self._done += 1
            with suppress(AlreadyExists, NotFound):
                await self.steps[self._done - 1](client)

    async def go_on(self, client: Client, pod: Object) -> None:
        """Each pod gets the address of its slot; those of jobs end well."""
        if pod_state.is_leaving(pod):
            await removed(client, pod)
        elif pod_state.is_over(pod):
            return
        elif pod["spec"].get("restartPolicy") == "Never":
            await told(client, pod, {"phase": "Succeeded"})
        elif not pod_state.is_ready(pod):
            address = f"10.0.0.{1 + (slots.slot_of(pod) or 0)}"
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
            await told(client, pod, status)


class Rollout(CompactStage):
    controllers = (Deployments(), ReplicaSets(), DeploymentProgress(), ReplicaSetProgress())
    steps = (
        lambda client: client.create(DEPLOYMENTS, a_workload("web", 2, revisionHistoryLimit=1)),
        lambda client: client.patch(DEPLOYMENTS, "web", NAMESPACE, with_image("x:2")),
        lambda client: client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 1}}),
    )


class OneJob(CompactStage):
    controllers = (Jobs(), JobProgress())
    steps = (
        lambda client: client.create(JOBS, _a_job("once", completions=2, parallelism=1)),
        lambda client: client.create(JOBS, _a_job("both", completions=2, parallelism=2, completionMode="Indexed")),
    )


class NamespaceWithAll(CompactStage):
    controllers = (ReplicaSets(), ServiceAccounts())
    own_loops = (OwnLoop("namespace", NamespaceDeletion),)

    async def _fill(self, client: Client) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": TEAM}})
        await client.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": TEAM}})
        await client.create(REPLICASETS, a_workload("web", 2, namespace=TEAM))

    async def turn(self, client: Client) -> None:
        self._done += 1
        with suppress(AlreadyExists, NotFound):
            if self._done == 1:
                await self._fill(client)
            elif self._done == 2:
                await client.delete(NAMESPACES, TEAM)


class OwnersGo(CompactStage):
    controllers = (Deployments(), ReplicaSets())
    own_loops = (OwnLoop("owner-cleanup", OwnerCleanup),)

    async def turn(self, client: Client) -> None:
        self._done += 1
        with suppress(AlreadyExists, NotFound):
            if self._done == 1:
                for name in ("web", "api", "db"):
                    await client.create(DEPLOYMENTS, a_workload(name, 1))
            elif self._done == 2:
                for name, way in (("web", Propagation.FOREGROUND), ("api", Propagation.BACKGROUND)):
                    await client.delete(DEPLOYMENTS, name, NAMESPACE, propagation=way)
                await client.delete(DEPLOYMENTS, "db", NAMESPACE, propagation=Propagation.ORPHAN)


class ServiceLeads(CompactStage):
    controllers = (ReplicaSets(), EndpointSlices(), Endpoints(), Serving(), DisruptionBudgets())
    steps = (
        lambda client: client.create(SERVICES, _a_service("web")),
        lambda client: client.create(REPLICASETS, a_workload("web", 2)),
        lambda client: client.create(DISRUPTION_BUDGETS, _a_budget("web")),
        lambda client: client.patch(REPLICASETS, "web", NAMESPACE, {"spec": {"replicas": 1}}),
    )


class NodeLost(Ending, FraudBatch):
    """The node of one replica goes silent and stays so until all is healed."""

    zones: Mapping[str, str] = MappingProxyType({"node-gpu-6": "a", "node-gpu-7": "b", "node-gpu-8": "b"})
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.programs.pop(WATCHERS[1])
        self._is_cut = False

    def choose(self, what: str, options: int) -> int:
        return 0

    async def turn(self, client: Client) -> None:
        if not self._is_cut:
            self._is_cut = True
            self.cut(["node-gpu-7"], timedelta(minutes=5))


def _a_job(name: str, **shape: Any) -> Object:
    pod_spec = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**shape, "template": {"spec": pod_spec}}}


def _a_service(name: str) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"selector": {"app": name}, "ports": ports}}


def _a_budget(name: str) -> Object:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _scenario(name: str, make: Callable[[World], Stage], lasts_s: int, *checkers: Callable[[], Checker]) -> Scenario:
    return Scenario(
        name=name,
        about=(make.__doc__ or "").strip(),
        make=make,
        checkers=lambda: [AcknowledgedWrites(), *(each() for each in checkers)],
        lasts=timedelta(seconds=lasts_s),
        calm=timedelta(minutes=10),
        silence=timedelta(seconds=30),
    )


COMPACT: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        _scenario("compact-rollout", Rollout, 9),
        _scenario("compact-job", OneJob, 9, JobCounts),
        _scenario("compact-namespace", NamespaceWithAll, 10),
        _scenario("compact-owners", OwnersGo, 9),
        _scenario("compact-service", ServiceLeads, 11),
        _scenario("compact-node-lost", NodeLost, 40, OneReplacement),
    )
}
WHO: Final = (CONTROLLERS, WATCHERS[0])
"""The programs of controllers."""
HEARTBEATS: Final = ("/leases/", "/componentstates")
"""Writes that are made all the time, and of which each is like the last."""
