"""Stale policy during a canary: a new version is rolled out while the scheduler hears of nodes twenty seconds late.
(SPEC W8, W9)

    policyVersion: v5-canary     the candidate, for half of the workloads, then for all
    node watch                   twenty seconds late, while node-b7 shrinks

The scheduler chooses node-b7 from its old view; the commit refuses that, the pod gets another node, and no node is
overcommitted. The gate of the canary sees that the scheduler has not reached the revision of the stage for nodes, and
holds. In every second run the candidate is bad: it bounds the skew over zones so that most pods under it get no node;
then the rollout goes back by itself. Users pause, resume and abort, other clients change the policies, a scheduler that
is gone has left its state; leaders of the controller crash at any write.

In the end the rollout has ended, and the policies are as it says: all of one, and none of the other.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, NODES, PLACEMENT_POLICIES, PODS, POLICY_ROLLOUTS
from mainstay.api.policy_rollout import ENDED, RolloutPhase, read_phase
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Invalid, NotFound
from mainstay.controllers.component import Controllers
from mainstay.controllers.policy_rollout.controller import PolicyRollouts
from mainstay.controllers.policy_rollout.switch import is_inactive, is_serving
from mainstay.env import Env
from mainstay.loop.component import ComponentSettings
from mainstay.loop.component_state import PublishSettings
from mainstay.scenarios._schedulers import CALM, SchedulingStage, a_pod, add_node, resize_node
from mainstay.scenarios._stages import LEASE, NAMESPACE, SILENCE, USER
from mainstay.scenarios.narrations.stale_policy_canary import NARRATION
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.checkers.policy_rollouts import POLICIES, ROLLOUTS, RolloutChecker, find_stalled
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.server_proxy import WatchProxy
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler"
CONTROLLERS: Final = ("controllers-1", "controllers-2")
GONE: Final = "scheduler-gone"
LATE: Final = timedelta(seconds=20)
SIZES: Final = {"node-a1": "200", "node-b7": "6", "node-c3": "0"}
"""The zone is in the name. In c there is no room: a workload that must be spread evenly gets one pod in each other."""
SHRUNK: Final = ("6", "3", "1")
BASELINE: Final = "risk-v4"
GOOD: Final = "risk-v5"
BAD: Final = "risk-v5-even"
ROLLOUT: Final = "risk-v5"
WORKLOADS: Final = tuple(f"risk-api-{number}" for number in (0, 1, 4, 6))
"""Two or three of them are in the share of a candidate."""
TEXT_TURNS: Final = 4
"""For so many turns of the canary there is no room on node-b7, which the scheduler does not know."""
KEPT: Final = 8
"""Turns for which a pod stays."""
SCOPE: Final = {"namespaces": [NAMESPACE]}
SPECS: Final[dict[str, dict[str, Any]]] = {
    BASELINE: {"policyVersion": "v4", "active": True, "scope": SCOPE, "scores": {"LeastAllocated": 1}},
    GOOD: {"policyVersion": "v5-canary", "scope": SCOPE, "scores": {"MostAllocated": 5}},
    BAD: {"policyVersion": "v5-canary", "scope": SCOPE, "maxZoneSkew": 1, "scores": {"MostAllocated": 5}},
}
STAGES: Final = (
    {"name": "shadow", "shadowPercent": 100, "holdSeconds": 2},
    {"name": "canary", "percent": 50, "holdSeconds": 5},
    {"name": "all", "percent": 100, "holdSeconds": 5},
)
GATE: Final = {"minSamples": 6, "boundWithinSeconds": 4, "significancePercent": 5}
DEADLINE_S: Final = 60
PUBLISHING: Final = PublishSettings(every=timedelta(seconds=4), at_least_every=timedelta(seconds=20))
SETTINGS: Final = SchedulerSettings(lease_name="", publish=PUBLISHING)
NODES_PREFIX: Final = "core/nodes/"


class StalePolicyCanary(SchedulingStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.are_states_published = True
        self.add_schedulers(SCHEDULER, settings=SETTINGS)
        for program in CONTROLLERS:
            world.add_program(program, partial(self._roll_out, program), user=identities.CONTROLLERS)
            self._expected += 1
        self.passed: list[int] = []
        """The revisions of the stages whose gates have passed."""
        self._broken = ""
        self._turns = 0
        self._has_begun = self._is_paused = False
        self._late = 0
        """Watches of nodes that are held back now."""
        self.refused = self.held = 0
        """While the scheduler heard of nodes late: bindings that the server refused because the node had no room any
        more, and how often the gate said that it holds for that."""
        self._is_text_done = False
        self._text_turns = 0
        self._made: list[list[str]] = []
        world.history.subscribe(self._saw)

    async def prepare(self, client: Client) -> None:
        for name, cpu in SIZES.items():
            await add_node(client, name, cpu=cpu)
            zone = name.removeprefix("node-")[0]
            await client.patch(NODES, name, "", {"metadata": {"labels": {ZONE_LABEL: zone}}})
        for name, spec in SPECS.items():
            await client.create(PLACEMENT_POLICIES, {"metadata": {"name": name}, "spec": spec})

    # What users do.

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if not self._has_begun:
            await self._begin(client)
            self._has_begun = True
        elif read_phase(await client.get(POLICY_ROLLOUTS, ROLLOUT)) in ENDED:
            return  # There is nothing more to see.
        if self.choose("late nodes", 8) == 7:
            self._delay_nodes()
        size = SHRUNK[self.choose("size", len(SHRUNK))]
        if self._text_turns:  # While the watch is late, there is no room on the node.
            self._text_turns, size = self._text_turns - 1, "0"
        await resize_node(client, "node-b7", cpu=size)
        await self._replace_pods(client)
        with suppress(NotFound, Invalid):
            await self._meddle(client)

    async def _begin(self, client: Client) -> None:
        if self.choose("a scheduler is gone", 6) == 5:
            with suppress(AlreadyExists):
                await client.create(COMPONENT_STATES, {"metadata": {"name": GONE}, "spec": {"component": GONE}})
            body = {"status": {"role": "scheduler", "revisions": {"pods": 1}, "observedAt": "2020-01-01T00:00:00Z"}}
            await client.patch(COMPONENT_STATES, GONE, "", body, subresource="status")
        policy = (GOOD, BAD)[self.choose("policy", 2)]
        stages = STAGES[self.choose("without shadow", 2) :]
        # What is bad shows in the shadow already. To see what the canary shows, that may be overlooked.
        gate = {**GATE, "maxShadowUnplacedPercent": (5, 100)[self.choose("overlooks", 2)]}
        spec = {"policy": policy, "stages": stages, "gate": gate, "deadlineSeconds": DEADLINE_S}
        with suppress(AlreadyExists):
            await client.create(POLICY_ROLLOUTS, {"metadata": {"name": ROLLOUT}, "spec": spec})

    def _delay_nodes(self) -> None:
        for gate in self.world.gates.values():
            for tap in gate.find_taps(SCHEDULER):
                if tap.prefix == NODES_PREFIX:
                    tap.hold()
                    self._late += 1
                    scheduler = self.schedulers[SCHEDULER]
                    before = scheduler.counts.refused.get(BindingCause.CAPACITY_CHANGED, 0)
                    self.world.after(LATE, partial(self._release, tap, scheduler, before))

    def _release(self, tap: WatchProxy, scheduler: Scheduler, before: int) -> None:
        tap.release()
        self._late -= 1
        self.refused += scheduler.counts.refused.get(BindingCause.CAPACITY_CHANGED, 0) - before

    async def _replace_pods(self, client: Client) -> None:
        made: list[str] = []
        self._made.append(made)
        for workload in WORKLOADS:
            name = f"{workload}-{self._turns}"
            made.append(name)
            await client.create(PODS, _owned(name, workload))
        if len(self._made) > KEPT:
            for name in self._made.pop(0):
                with suppress(NotFound):
                    await client.patch(PODS, name, NAMESPACE, {"status": {"phase": "Succeeded"}}, subresource="status")
                    await client.delete(PODS, name, NAMESPACE, grace_s=0)

    async def _meddle(self, client: Client) -> None:
        if self._is_paused:
            self._is_paused = bool(self.choose("stays paused", 3))
            await client.patch(POLICY_ROLLOUTS, ROLLOUT, "", {"spec": {"paused": self._is_paused}})
            return
        match self.choose("meddles", 60):
            case 1 | 2 | 3 | 12:
                self._is_paused = True
                await client.patch(POLICY_ROLLOUTS, ROLLOUT, "", {"spec": {"paused": True}})
            case 4:
                await client.patch(POLICY_ROLLOUTS, ROLLOUT, "", {"spec": {"aborted": True}})
            case 5:
                rollout = await client.get(POLICY_ROLLOUTS, ROLLOUT)
                await client.patch(PLACEMENT_POLICIES, rollout["spec"]["policy"], "", {"spec": {"active": False}})
            case 6 | 7 | 8 | 9 | 10 | 11:
                await client.delete(COMPONENT_STATES, GONE)

    # What is seen from outside.

    def _saw(self, event: Event) -> None:
        """A gate has passed: what the caches of the schedulers have come to at this moment."""
        if not isinstance(event, RevisionCommitted) or event.value is None:
            return
        if event.key.startswith(POLICIES) and not self._is_text_done:
            self._follow_text(decode_current(event.previous), decode_commit(event.value))
        if not event.key.startswith(ROLLOUTS):
            return
        old, new = decode_current(event.previous), decode_commit(event.value)
        if old is None or read_phase(old) is not RolloutPhase.PROGRESSING:
            return
        was, now = old["status"], new["status"]
        stale = (now.get("gate") or {}).get("stale") or ()
        if self._late and any((each["component"], each["kind"]) == (SCHEDULER, NODES.text) for each in stale):
            self.held += 1
        goes_on = now["phase"] == RolloutPhase.FINISHING or now.get("stage") != was["stage"]
        if not goes_on or now["phase"] == RolloutPhase.ROLLING_BACK or was.get("activation") is None:
            return
        revision = int(was["activation"]["revision"])
        self.passed.append(revision)
        for name, scheduler in self.schedulers.items():
            for informer in scheduler.informers.all():
                reached = informer.cache.revision
                if 0 < reached < revision:  # 0: it has just been restarted, and lists what is there.
                    self._broken = (
                        f"a gate passed at revision {revision}, and {name} has {informer.cache.kind} of {reached}"
                    )

    def _follow_text(self, old: Object | None, new: Object) -> None:
        """The candidate becomes active for a share: just then the watch of nodes falls behind, in every run."""
        if old is not None and not old["spec"].get("active") and new["spec"].get("active"):
            self._is_text_done, self._text_turns = True, TEXT_TURNS
            self.world.after(timedelta(0), self._delay_nodes)

    async def check(self) -> None:
        self.require_agreement()
        if self._broken:
            raise Violated("policy rollout", self._broken)
        for rollout in await self._stored(ROLLOUTS):
            await self._resolve(rollout)
        policies = {each["metadata"]["name"]: each for each in await self._stored(POLICIES)}
        for rollout in await self._stored(ROLLOUTS):
            _require_consistent(rollout, policies)

    async def _resolve(self, rollout: Object) -> None:
        """What is paused, or stalled because another client has meddled, is aborted by its user."""
        if not find_stalled(rollout) and not rollout["spec"]["paused"]:
            return
        async with self.world.client_for(USER, self.world.sim.env("check")) as client:
            await client.patch(POLICY_ROLLOUTS, ROLLOUT, "", {"spec": {"aborted": True, "paused": False}})
        await self.world.quiet(timedelta(minutes=5), timedelta(seconds=30))

    async def _stored(self, prefix: str) -> list[Object]:
        return [decode_commit(entry.value) for entry in (await self.world.store.range(prefix)).entries]

    async def _roll_out(self, program: str, env: Env) -> None:
        async with self.world.client_for(program, env) as client:
            component = self.components[program] = Controllers(
                client,
                env,
                instance=program,
                controllers=(PolicyRollouts(),),
                loops=(),
                settings=ComponentSettings(lease=LEASE, publish=PUBLISHING),
                recorder=self.world.recorder,
            )
            await component.run()


def _require_consistent(rollout: Object, policies: dict[str, Object]) -> None:
    candidate, baseline = policies[rollout["spec"]["policy"]], policies[BASELINE]
    phase = read_phase(rollout)
    match phase:
        case RolloutPhase.COMPLETE:
            is_so = is_serving(candidate) and is_inactive(baseline)
        case RolloutPhase.ROLLED_BACK:
            is_so = is_serving(baseline) and is_inactive(candidate)
        case _:
            text = f"the rollout has not ended: {phase}, {(rollout.get('status') or {}).get('reason')}"
            raise Violated("policy rollout", text)
    if not is_so:
        said = [each["spec"] for each in (candidate, baseline)]
        raise Violated("policy rollout", f"the rollout is {phase}, and its policies are {said}")
    if phase is RolloutPhase.COMPLETE and rollout["spec"]["policy"] == BAD:
        raise Violated("policy rollout", f"{BAD} leaves most pods without a node, and has passed all gates")


def _owned(name: str, workload: str) -> Object:
    pod = a_pod(name, cpu="1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": f"uid-{workload}"}
    pod["metadata"] |= {"labels": {"app": workload}, "ownerReferences": [{**owner, "controller": True}]}
    return pod


def _checkers() -> Sequence[Any]:
    return [CapacityChecker(), AcknowledgedWrites(), RolloutChecker(*CONTROLLERS)]


SCENARIO: Final = Scenario(
    name="stale-policy-canary",
    about="A policy is rolled out while nodes are seen late: the gate holds, and a bad version is rolled back.",
    make=StalePolicyCanary,
    checkers=_checkers,
    faults=("crash", "crash-before", "crash-after", "answer-lost", "leader-loss", "watch-delay", "latency", "pause"),
    lasts=timedelta(seconds=120),
    calm=CALM,
    silence=SILENCE,
    ids=("W8", "W9"),
    narration=NARRATION,
)
