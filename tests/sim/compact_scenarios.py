"""Small situations, one for each family of controllers: few enough writes to crash at each of them (sweep.py).

There is one process of controllers, so that the next process must find its own earlier work. The user does
a few things, one after the other, and what nodes do is always the same: with or without a crash, the end is. (Which of
two equal pods goes when there is one too many is not: that is not asked for here.)
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_names import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    REPLICASETS,
    SERVICES,
)
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.endpoints.endpoints import Endpoints
from mainstay.controllers.endpoints.serving import Serving
from mainstay.controllers.endpoints.slices import EndpointSlices
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.controllers.job.controller import Jobs
from mainstay.controllers.namespace.loop import NamespaceDeletion
from mainstay.controllers.pods import slots
from mainstay.controllers.progress.controller import DEPLOYMENT_PROGRESS, JOB_PROGRESS, REPLICASET_PROGRESS
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.controllers.service_account.controller import ServiceAccounts
from mainstay.loop.component import Component
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._health import WATCHERS
from mainstay.scenarios._stages import NAMESPACE, USER
from mainstay.scenarios._workloads import WorkloadStage, a_workload, removed, told, with_image
from mainstay.scenarios.missing_replica import MissingReplica, OneReplacement
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.job_counts import JobCounts
from mainstay.sim.cluster.final_state import ComparedStage
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario, Stage

CONTROLLERS: Final = "controllers-1"
TEAM: Final = "team"
LOST: Final = "node-gpu-7"
SETTLED: Final = timedelta(seconds=1.5)

Step = Callable[[Client], Awaitable[object]]


class CompactStage(ComparedStage, WorkloadStage):
    programs = (CONTROLLERS,)
    turn_every = timedelta(milliseconds=500)
    steps: Sequence[Step] = ()
    """Each when all of the last one is done: what is not observed is not what this is about."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._done = 0
        self._settled_from_ns: tuple[Component, int] | None = None
        """Who is in office, and since when we know."""

    def choose(self, what: str, options: int) -> int:
        return 0  # Nothing is left to chance.

    async def turn(self, client: Client) -> None:
        if self._done < len(self.steps) and self._is_settled():
            await self._step(client)

    async def check(self) -> None:
        async with self.world.client_for(USER, self.world.sim.env("check")) as client:
            while self._done < len(self.steps):
                await self._step(client)
                await self.world.quiet(timedelta(minutes=10), SETTLED * 10)
        await super().check()

    async def _step(self, client: Client) -> None:
        with suppress(AlreadyExists, NotFound):  # It was done, and not answered.
            await self.steps[self._done](client)
        self._done += 1

    def _is_settled(self) -> bool:
        """There is a leader, and it has nothing to do."""
        if not self.world.programs[CONTROLLERS].is_running or self.leader() is None:
            return False
        now_ns = self.world.sim.loop.time_ns()
        if self._settled_from_ns is None or self._settled_from_ns[0] is not self.components[CONTROLLERS]:
            self._settled_from_ns = self.components[CONTROLLERS], now_ns
        return (
            now_ns - max(self.world.last_write_ns, self._settled_from_ns[1])
            > SETTLED / timedelta(microseconds=1) * 1000
        )

    async def go_on(self, client: Client, pod: Object) -> None:
        """Each pod gets the address of its slot; those of jobs end well."""
        if pod_state.is_leaving(pod):
            await removed(client, pod)
        elif pod_state.is_over(pod):
            return
        elif pod["spec"].get("restartPolicy") == "Never":
            await told(client, pod, {"phase": "Succeeded"})
        elif not pod_state.is_ready(pod):
            address = f"10.0.0.{1 + (slots.parse_slot(pod) or 0)}"
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
            await told(client, pod, status)


class Rollout(CompactStage):
    """A Deployment is made, gets another image, and becomes larger."""

    controllers = (Deployments(), ReplicaSets(), DEPLOYMENT_PROGRESS, REPLICASET_PROGRESS)
    steps = (
        lambda client: client.create(DEPLOYMENTS, a_workload("web", 2, revisionHistoryLimit=1)),
        lambda client: client.patch(DEPLOYMENTS, "web", NAMESPACE, with_image("x:2")),
        lambda client: client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 3}}),
    )


class OneJob(CompactStage):
    """Two jobs, of which one knows its pods by number."""

    controllers = (Jobs(), JOB_PROGRESS)
    steps = (
        lambda client: client.create(JOBS, _a_job("once", completions=2, parallelism=1)),
        lambda client: client.create(JOBS, _a_job("both", completions=2, parallelism=2, completionMode="Indexed")),
    )


async def _fill(client: Client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": TEAM}})
    await client.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": TEAM}})
    await client.create(REPLICASETS, a_workload("web", 2, namespace=TEAM))


class NamespaceWithAll(CompactStage):
    """A namespace goes with what is in it."""

    controllers = (ReplicaSets(), ServiceAccounts())
    loops = (LoopSpec("namespace", NamespaceDeletion),)
    steps = (_fill, lambda client: client.delete(NAMESPACES, TEAM))


async def _own(client: Client) -> None:
    for name in _WAYS:
        await client.create(DEPLOYMENTS, a_workload(name, 1))


async def _disown(client: Client) -> None:
    for name, way in _WAYS.items():
        await client.delete(DEPLOYMENTS, name, NAMESPACE, propagation=way)


_WAYS: Final = {"web": Propagation.FOREGROUND, "api": Propagation.BACKGROUND, "db": Propagation.ORPHAN}


class OwnersGo(CompactStage):
    """Owners go in each of the three ways."""

    controllers = (Deployments(), ReplicaSets())
    loops = (LoopSpec("owner-cleanup", OwnerCleanup),)
    steps = (_own, _disown)


class ServiceLeads(CompactStage):
    """A Service leads to pods that come and go, which a budget counts."""

    controllers = (ReplicaSets(), EndpointSlices(), Endpoints(), Serving(), DisruptionBudgets())
    steps = (
        lambda client: client.create(SERVICES, _a_service("web")),
        lambda client: client.create(REPLICASETS, a_workload("web", 2)),
        lambda client: client.create(DISRUPTION_BUDGETS, _a_budget("web")),
        lambda client: client.patch(REPLICASETS, "web", NAMESPACE, {"spec": {"replicas": 0}}),
        lambda client: client.patch(REPLICASETS, "web", NAMESPACE, {"spec": {"replicas": 1}}),
    )


class NodeLost(ComparedStage, MissingReplica):
    """The node of one replica goes silent for good."""

    zones: Mapping[str, str] = MappingProxyType({"node-gpu-6": "a", LOST: "b", "node-gpu-8": "b"})
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.programs.pop(WATCHERS[1])

    def choose(self, what: str, options: int) -> int:
        return 0

    async def turn(self, client: Client) -> None:
        if not self.killed:
            self.killed[LOST] = self.world.spared[LOST] = None
            await self.world.programs[LOST].stop()


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
        _scenario("compact-rollout", Rollout, 11),
        _scenario("compact-job", OneJob, 9, JobCounts),
        _scenario("compact-namespace", NamespaceWithAll, 9),
        _scenario("compact-owners", OwnersGo, 9),
        _scenario("compact-service", ServiceLeads, 17),
        _scenario("compact-node-lost", NodeLost, 40, OneReplacement),
    )
}
WHO: Final = (CONTROLLERS, WATCHERS[0])
"""The programs of controllers."""
CRASHES: Final = ("crash-before", "crash-after")
HEARTBEATS: Final = ("/leases/", "/componentstates")
"""Writes that are made all the time, and of which each is like the last."""
