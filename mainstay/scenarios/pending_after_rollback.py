"""Two replicas of `risk-api` stay pending after a rollback, and the debug view must name the cause. (SPEC O5, O8)

A placement policy was rolled out and rolled back; a reservation was left over, and repaired. Then the load rises, and
the autoscaler asks for more replicas than one zone's quota allows. The load rises on: the autoscaler asks for no more
while those that it has asked for are kept back, and says why. The quota is raised, and the scheduler does not hear of
it: its watch of quotas is late. What the scheduler says is *quota*; the truth is that its cache is old.

All components are the real ones: autoscaler, Deployment, ReplicaSet and progress controllers, node health, repair,
scheduler, agents that tell what containers use, and the quotas of the servers. Only who raises the quota is none of
Mainstay's: it has no controller for that, so the user does it under the name of the text's quota controller.

The stage knows that truth, because it can look into the scheduler. While there are replicas that a quota has stopped,
the view that is made from the journal alone must say the same: a stale cache as long as it is one, and not a moment
longer. In the end all replicas run, and the view has nothing to say.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runner import ContainerId, ContainerUsage
from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import AUTOSCALERS, DEPLOYMENTS, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.controllers.autoscaler.loop import LOOP as AUTOSCALER
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.registry import CONTROLLERS
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.env import tasks
from mainstay.explain.debug.builder import debug
from mainstay.explain.debug.view import DebugFinding, DebugView
from mainstay.explain.moment import Moment
from mainstay.explain.story.timeline import NothingKnown
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.loop.fencing import LeaseTimes
from mainstay.registry import REGISTRY
from mainstay.scenarios import _risk
from mainstay.scenarios._agents import CALM, SILENCE, count_running
from mainstay.scenarios._control_programs import ControlProgramsStage
from mainstay.scenarios._stages import USER
from mainstay.scenarios.narrations.pending_after_rollback import NARRATION
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

PROGRAM: Final = "controllers-1"
POLICY: Final = "risk-placement"
SCOPE: Final = {"tenant": _risk.TENANT}
VERSIONS: Final = ("v4", "v5", "v4")
"""The last is the rollback."""
TURNS_MAX: Final = 28
"""After so many turns the scheduler hears of quotas again, whatever has happened."""
QUOTA_LIMIT: Final = "LimitedByQuota"
LAG: Final = "ControlPlaneLag"
"""The autoscaler's words (controllers/autoscaler/limits.py)."""
SETTLED: Final = timedelta(seconds=1)
"""How long everybody has to hear of a commit, before the view is held to it."""
_DAY: Final = timedelta(days=1)
_TICK: Final = timedelta(milliseconds=200)
CHECK: Final = "pending after rollback"
_decode = msgspec.json.Decoder(Object).decode


class PendingAfterRollback(ControlProgramsStage):
    controllers = CONTROLLERS
    loops = (NODE_HEALTH, REPAIR, AUTOSCALER)
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.journal = MemoryJournal()  # Before it boots, so that all of it is there.
        self.named = 0
        """How often the view has named the stale cache, truly."""
        self._turns = 0
        self._freed = 0
        """The revision at which the quota was raised."""
        self._has_added = False
        self._released = False
        self._quota_watch = _risk.build_quota_watch(world)
        self.load = _risk.READY_AT_FIRST * _risk.PER_POD
        """What all replicas have to do together, in billionths of a core."""
        for name, zone in _risk.ZONES.items():
            settings = PretendSettings(labels={ZONE_LABEL: zone}, capacity=_CAPACITY, lease=_LEASE)
            world.add_node(name, settings, serves=True)
            world.machines[name].load = self._find_usage
        self.add_control_programs(_risk.SCHEDULER, PROGRAM)
        world.know(_risk.QUOTA_CONTROLLER)

    def _find_usage(self, container: ContainerId) -> ContainerUsage:
        """The containers that run share the load. (Those of the batch have the same share, which nothing looks at.)"""
        running = count_running(self.world)
        return ContainerUsage(min(_risk.CORE, self.load // max(running - _risk.BATCH_PODS, 1)), 1024**2)

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
        await self._ready_pods(client, _risk.BATCH_PODS)
        await client.create(DEPLOYMENTS, _risk.risk_api(_risk.READY_AT_FIRST))
        await self._ready_pods(client, _risk.BATCH_PODS + _risk.READY_AT_FIRST)
        await client.create(AUTOSCALERS, _risk.risk_autoscaler())
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
            self._quota_watch.hold()  # Also one that was opened again.
        if self._turns == 1:
            self.load = _risk.WANTED * _risk.PER_POD
        elif not self._freed:
            if len(await self._stopped()) >= _risk.WANTED - _risk.READY_AT_FIRST:
                self.load = _risk.MOST * _risk.PER_POD  # Users go on coming.
                if await self._read_limit() == QUOTA_LIMIT or self.choose("free", 8) == 7:
                    await self._free()
        elif not self._has_added and self.choose("add", 3) == 2:
            # A user adds emergency capacity, which is decided about on the old picture, too.
            self._has_added = True
            await client.patch(AUTOSCALERS, _risk.NAME, _risk.TENANT, {"spec": {"minReplicas": _risk.WANTED + 1}})
        elif not self._released:
            is_known = await self._read_limit() == LAG
            if is_known or self.choose("release", 12) == 11 or self._turns > TURNS_MAX:
                self._released = True
                self._quota_watch.release()
        await tasks.sleep(SETTLED)
        await self._compare()

    async def _free(self) -> None:
        """As the text's quota controller."""
        name = _risk.QUOTA_CONTROLLER
        async with self.world.client_for(name, self.world.sim.env(name)) as client:
            self._freed = int((await _risk.free_capacity(client))["metadata"]["resourceVersion"])

    async def _read_limit(self) -> str:
        """Why the autoscaler asks for no more, by its own word; empty if it says nothing of that."""
        entry = await self.world.store.get(f"autoscaling/horizontalpodautoscalers/{_risk.TENANT}/{_risk.NAME}")
        said = None if entry is None else pod_state.find_condition(_decode(entry.value), "ScalingLimited")
        return str(said.get("reason")) if said is not None and said["status"] == "True" else ""

    async def finish(self) -> None:
        await super().finish()
        self._released = True
        self._quota_watch.release()

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
        elif [each.name for each in view.autoscalers if each.message] != [_risk.NAME]:
            problem = f"the autoscaler has a reason, but the view says {view.autoscalers}"
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


_CAPACITY: Final = {"cpu": "4", "memory": "8Gi"}
_LEASE: Final = LeaseTimes(duration=timedelta(seconds=40), renew_every=timedelta(seconds=10))

SCENARIO: Final = Scenario(
    name="pending-after-rollback",
    about="Replicas stay pending after a rollback: the debug view names the stale cache, not the quota it shows.",
    make=PendingAfterRollback,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites()],
    faults=("watch-repeat", "watch-disconnect", "latency", "request-lost", "answer-lost"),
    lasts=timedelta(seconds=80),
    calm=CALM,
    silence=SILENCE,
    ids=("O5", "O8"),
    narration=NARRATION,
)
