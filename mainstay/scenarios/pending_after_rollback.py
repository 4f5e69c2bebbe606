"""Two replicas of `risk-api` stay pending after a rollback, and the debug view must name the cause. (SPEC O5, O8)

A placement policy was rolled out and rolled back; a reservation was left over, and repaired. Then more replicas are
wanted than one zone's quota allows. The quota controller frees capacity, and the scheduler does not hear of it: its
watch of quotas is late. What the scheduler says is *quota*, what the autoscaler sees is *low readiness*, and the truth
is that the scheduler's cache is old.

The stage knows that truth, because it can look into the scheduler. While there are replicas that a quota has stopped,
the view that is made from the journal alone must say the same: a stale cache as long as it is one, and not a moment
longer. In the end all replicas run, and the view has nothing to say.
"""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.registry import CONTROLLERS
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.env import Env, tasks
from mainstay.explain.debug.builder import debug
from mainstay.explain.debug.view import DebugFinding, DebugView
from mainstay.explain.moment import Moment
from mainstay.explain.story.timeline import NothingKnown
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.fencing import LeaseTimes
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios._agents import CALM, SILENCE
from mainstay.scenarios._stages import LEASE, USER, UserStage
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

POLICY: Final = "risk-placement"
SCOPE: Final = {"tenant": _risk.TENANT}
VERSIONS: Final = ("v4", "v5", "v4")
"""The last is the rollback."""
LATE: Final = 8
"""For how many turns the scheduler hears nothing of quotas, at most."""
SETTLED: Final = timedelta(seconds=1)
"""How long everybody has to hear of a commit, before the view is held to it."""
_DAY: Final = timedelta(days=1)
_TICK: Final = timedelta(milliseconds=200)
CHECK: Final = "pending after rollback"
_decode = msgspec.json.Decoder(Object).decode


class PendingAfterRollback(UserStage):
    turn_every = timedelta(seconds=1)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.journal = MemoryJournal()  # Before it boots, so that all of it is there.
        self.scheduler: Scheduler | None = None
        self.named = 0
        """How often the view has named the stale cache, truly."""
        self._turns = 0
        self._freed = 0
        """The revision at which the quota was raised."""
        self._has_added = False
        self._released = False
        for name, zone in _risk.ZONES.items():
            world.add_node(name, PretendSettings(labels={ZONE_LABEL: zone}, capacity=_CAPACITY, lease=_LEASE))
        world.add_program(_risk.SCHEDULER, self._schedule, user=identities.SCHEDULER)
        world.add_program("controllers-1", self._look_after, user=identities.CONTROLLERS)
        world.add_program(_risk.AUTOSCALER, self._scale)
        self._expected += 2

    # Before.

    async def prepare(self, client: Client) -> None:
        for version in dict.fromkeys(VERSIONS):
            spec = {"policyVersion": version, "scope": SCOPE, "scores": {"LeastAllocated": int(version[1:])}}
            await client.create(PLACEMENT_POLICIES, {"metadata": {"name": f"{POLICY}-{version}"}, "spec": spec})
        before = ""
        for version in VERSIONS:
            if before:
                await client.patch(PLACEMENT_POLICIES, f"{POLICY}-{before}", "", {"spec": {"active": False}})
            await client.patch(PLACEMENT_POLICIES, f"{POLICY}-{version}", "", {"spec": {"active": True}})
            before = version
            await tasks.sleep(timedelta(seconds=1))
        await _risk.set_up(client)
        await self._ready_pods(client, 2)
        await client.create(DEPLOYMENTS, _risk.risk_api(_risk.READY_AT_FIRST))
        await self._ready_pods(client, 2 + _risk.READY_AT_FIRST)
        await self._leak_reservation(client)

    async def _ready_pods(self, client: Client, count: int) -> None:
        while sum(map(pod_state.is_ready, (await client.list(PODS, _risk.TENANT)).items)) < count:
            await tasks.sleep(_TICK)

    async def _leak_reservation(self, client: Client) -> None:
        """Room in zone-a that a rollout has left behind. Repair gives it back, and says so."""
        workload = {"kind": "Deployment", "name": "risk-api-canary", "uid": "00000000-0000-4000-8000-000000000000"}
        spec = {
            "nodeName": "node-a1",
            "workload": workload,
            "generation": 1,
            "intent": "canary",
            "resources": {"cpu": "100m"},
            "expiresAt": format_time(self.world.sim.env(USER).clock.wall() + _DAY),
        }
        metadata = {"name": reservation_name(workload, 1, "canary"), "namespace": _risk.TENANT}
        await client.create(RESERVATIONS, {"metadata": metadata, "spec": spec})

    async def ready(self) -> None:
        await super().ready()
        while self.scheduler is None or not self.scheduler.is_deciding:
            await tasks.sleep(_TICK)
        await tasks.sleep(timedelta(minutes=2))  # Until then repair has looked, waited, and put it right.

    # Between.

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if not self._released:
            _risk.hold_quota_watch(self.world)  # Also one that was opened again.
        if self._turns == 1:
            await client.patch(DEPLOYMENTS, _risk.NAME, _risk.TENANT, {"spec": {"replicas": _risk.WANTED}})
        elif not self._freed:
            if len(await self._stopped()) >= 2 and self.choose("free", 3) == 0:
                self._freed = int((await _risk.free_capacity(client))["metadata"]["resourceVersion"])
        elif not self._has_added:
            # A user adds emergency capacity, which is decided about on the old picture, too.
            self._has_added = True
            await client.patch(DEPLOYMENTS, _risk.NAME, _risk.TENANT, {"spec": {"replicas": _risk.WANTED + 1}})
        elif not self._released and (self.choose("release", LATE) == 0 or self._turns > 4 * LATE):
            self._released = True
            _risk.release_quota_watch(self.world)
        await tasks.sleep(SETTLED)
        await self._compare()

    async def finish(self) -> None:
        await super().finish()
        self._released = True
        _risk.release_quota_watch(self.world)

    async def _compare(self) -> None:
        """What the view says against what is so. Nothing is awaited between looking at the two."""
        journal, scheduler = self.world.journal, self.scheduler
        if journal is None or scheduler is None or not scheduler.is_deciding or not self._freed:
            return
        now = await Moment.now(journal)
        seen = {each.cache.kind: each.cache.revision for each in scheduler.informers.all()}
        is_stale = seen.get(ZONE_QUOTAS, 0) < self._freed
        stopped = await self._stopped()
        with suppress(NothingKnown):
            view = await debug(now, REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT)
            if is_stale and stopped:
                self._require_named(view)
                self.named += 1
            elif view.finding is DebugFinding.STALE_CACHE:
                raise Violated(CHECK, f"the cache has seen {seen.get(ZONE_QUOTAS)}, but the view says: {view.cause}")

    def _require_named(self, view: DebugView) -> None:
        decisive = [each for each in view.caches if each.is_decisive]
        problem = ""
        if view.finding is not DebugFinding.STALE_CACHE or not decisive:
            problem = f"the quota of {self._freed} was not seen, but the view finds {view.finding}: {view.cause}"
        elif decisive[0].kind != ZONE_QUOTAS.text or decisive[0].latest < self._freed:
            problem = f"the view blames {decisive[0]}"
        elif decisive[0].seen >= self._freed or _risk.QUOTA not in view.cause:
            problem = f"the view does not say what was missed: {view.cause}"
        elif not any(each.reason == f"quota/{_risk.QUOTA}" for each in view.pending):
            problem = f"the last reasons are {[each.reason for each in view.pending]}"
        elif undecided := [each.pod for each in view.pending if each.decision and not each.would_go_to]:
            problem = f"with the quota each pod would have a node, but the view knows none for {undecided}"
        elif not any(each.is_rollback and each.version == "v4" and each.is_observed for each in view.rollbacks):
            problem = f"the rollback is not reported as observed: {view.rollbacks}"
        elif view.repair is None or view.repair.status != "True":
            problem = f"repair is done, but the view says {view.repair}"
        if problem:
            raise Violated(CHECK, problem)

    async def _stopped(self) -> list[Object]:
        """The pods that have been refused a node, by the store."""
        entries = (await self.world.store.range(f"core/pods/{_risk.TENANT}/{_risk.NAME}")).entries
        pods = [_decode(entry.value) for entry in entries]
        refused = [
            (pod, pod_state.find_condition(pod, "PodScheduled")) for pod in pods if not pod_state.get_node_name(pod)
        ]
        return [pod for pod, said in refused if said is not None and said.get("reason") == "Unschedulable"]

    # After.

    async def check(self) -> None:
        journal = self.world.journal
        assert journal is not None
        view = await debug(await Moment.now(journal), REGISTRY, DEPLOYMENTS, _risk.NAME, _risk.TENANT)
        if self._freed and view.finding is not DebugFinding.COMPLETE:
            raise Violated(CHECK, f"all faults are healed, but the view finds {view.finding}: {view.cause}")

    # Programs.

    async def _schedule(self, env: Env) -> None:
        async with self.world.client_for(_risk.SCHEDULER, env) as client:
            settings = SchedulerSettings(lease_name="")
            self.scheduler = Scheduler(
                client, env, instance=_risk.SCHEDULER, settings=settings, recorder=self.world.recorder
            )
            await self.scheduler.run()

    async def _look_after(self, env: Env) -> None:
        await self._component("controllers-1", env, partial(Controllers, loops=(NODE_HEALTH, REPAIR)))

    async def _scale(self, env: Env) -> None:
        await self._component(_risk.AUTOSCALER, env, None)

    async def _component(self, name: str, env: Env, make: "partial[Controllers] | None") -> None:
        async with self.world.client_for(name, env) as client:
            settings = ComponentSettings(lease=LEASE)
            recorder = self.world.recorder
            if make is not None:
                component: Component = make(
                    client, env, instance=name, controllers=CONTROLLERS, settings=settings, recorder=recorder
                )
            else:
                component = Component(
                    name,
                    [_risk.Autoscaler()],
                    client,
                    env,
                    instance=name,
                    elected=False,
                    settings=settings,
                    recorder=recorder,
                )
            self.components[name] = component
            await component.run()


_CAPACITY: Final = {"cpu": "4", "memory": "8Gi"}
_LEASE: Final = LeaseTimes(duration=timedelta(seconds=40), renew_every=timedelta(seconds=10))

SCENARIO: Final = Scenario(
    name="pending-after-rollback",
    about="Replicas stay pending after a rollback: the debug view names the stale cache, not the quota it shows.",
    make=PendingAfterRollback,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    faults=("watch-repeat", "watch-disconnect", "latency", "request-lost", "answer-lost"),
    lasts=timedelta(seconds=40),
    calm=CALM,
    silence=SILENCE,
    ids=("O8",),
)
