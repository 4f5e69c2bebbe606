"""DaemonSets while nodes come and go, while their list is late or fails, and where agents reject whatever comes.

A controller that takes a list of nodes that failed, or that has not come yet, for an empty one takes all pods down, and
makes them again. One that counts a pod only when it is bound makes another one at each look until then. And where the
agent rejects what the scheduler has put there, a pod that is replaced at once costs thousands. (kubernetes #14528,
#22545, #43846; catalogue 21. The scheduler is the real one; always-rejected has ReplicaSets.)"""

from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import DAEMON_SETS, NODES
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from mainstay.env import Env, tasks
from mainstay.scenarios._daemons import NODE_UID, DaemonSetController
from mainstay.scenarios._schedulers import SHARED, SchedulingStage, add_node
from mainstay.scenarios._stages import LEASE, NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, READY, REJECTED, decode, removed, told
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.history import Event, RevisionCommitted, WatchOpened
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

KUBELETS: Final = "kubelets"
NODES_PREFIX: Final = "core/nodes/"
SETS: Final = ("logs", "metrics")
STAYS: Final = ("node-1", "node-2")
OTHERS: Final = ("node-3", "node-4")
CONTROLLERS: Final = ("controllers-1", "controllers-2")
LATE: Final = LEASE.times.duration * 2
"""Longer than it takes until one of them leads again."""
LATE_WATCHES: Final = tuple((name, NODES_PREFIX) for name in CONTROLLERS)
WINDOW: Final = timedelta(seconds=30)
MADE_MAX: Final = 5
"""For one node within a window: two at once, and then after 5, 10 and 20 seconds."""
_LOOK_EVERY: Final = timedelta(milliseconds=300)


class OneOnEachNodeStage(SchedulingStage):
    turn_every = timedelta(seconds=4)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers("scheduler", settings=SHARED)
        self.add_controller(DaemonSetController(), *CONTROLLERS)
        self._rejecting: dict[str, None] = {}
        self._is_news = True
        self._are_nodes_late = False
        world.history.subscribe(self._saw)
        world.add_program(KUBELETS, self._be_kubelets, is_spared=True)

    async def prepare(self, client: Client) -> None:
        for name in STAYS:
            await add_node(client, name)
        for name in SETS:
            await client.create(DAEMON_SETS, a_daemon_set(name))

    async def turn(self, client: Client) -> None:
        if self._is_over:
            return
        match self.choose("what", 4):
            case 0:  # It restarts, and gets nodes later than everything else.
                self._are_nodes_late = True
                for name in CONTROLLERS:
                    if self.world.programs[name].is_running:
                        self.world.faults.crash(self.world.programs[name], timedelta(milliseconds=500))
            case 1:
                name = (*STAYS, *OTHERS)[self.choose("who rejects", len(STAYS) + len(OTHERS))]
                if name in self._rejecting:
                    del self._rejecting[name]
                else:
                    self._rejecting[name] = None
                self._is_news = True
            case _:
                name = OTHERS[self.choose("which node", len(OTHERS))]
                try:
                    await add_node(client, name)
                except AlreadyExists:
                    await client.delete(NODES, name)

    async def finish(self) -> None:
        await super().finish()
        self._rejecting.clear()
        self._are_nodes_late = False

    async def check(self) -> None:
        """On each node there is one pod of each set that is ready, and there is nothing else."""
        await super().check()
        nodes = [decode(entry.value) for entry in (await self.world.store.range(NODES_PREFIX)).entries]
        pods = [decode(entry.value) for entry in (await self.world.store.range(PODS_PREFIX)).entries]
        for node in nodes:
            uid, name = node["metadata"]["uid"], node["metadata"]["name"]
            if pod_state.find_condition(node, "Ready") is None and not _is_open(node):
                continue  # No agent has reported it ready, and it takes no pods.
            own = [pod for pod in pods if _read_node(pod) == uid]
            said = sorted((_read_set(pod), pod_state.is_ready(pod), pod["spec"].get("nodeName")) for pod in own)
            if said != [(each, True, name) for each in SETS]:
                raise Violated("one on each node", f"{name} should have one of {SETS}, but has {said}")
        there = {node["metadata"]["uid"]: None for node in nodes}
        if strays := [pod["metadata"]["name"] for pod in pods if _read_node(pod) not in there]:
            raise Violated("one on each node", f"{strays} belong to nodes that no longer exist")

    def _saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted) and event.key.startswith(PODS_PREFIX):
            self._is_news = True
        elif self._are_nodes_late and isinstance(event, WatchOpened) and (event.who, event.prefix) in LATE_WATCHES:
            # At once: what is there would be told in the same step.
            tap = self.world.gates[event.server].taps[event.watch]
            tap.hold()
            self.world.after(LATE, tap.release)

    async def _be_kubelets(self, env: Env) -> None:
        """In place of agents: what is bound becomes ready, or is rejected; what was told to go is gone."""
        async with self.world.client_for(KUBELETS, env) as client:
            while True:
                await tasks.sleep(_LOOK_EVERY)
                if not self._is_news:
                    continue
                self._is_news = False
                try:
                    for entry in (await self.world.store.range(PODS_PREFIX)).entries:
                        with suppress(NotFound, Conflict):
                            await self._go_on(client, decode(entry.value))
                except ApiError:
                    self._is_news = True

    async def _go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_leaving(pod):
            await removed(client, pod)
        elif pod_state.is_over(pod) or not pod_state.get_node_name(pod):
            return
        elif pod_state.get_node_name(pod) in self._rejecting:
            await told(client, pod, REJECTED)  # Also what it had taken: it looks again at all that is there.
        elif not pod_state.is_ready(pod):
            await told(client, pod, READY)


class OneOnEachNode:
    """Of each set and node there is at most one that runs or is going to; none that is well goes while its node is
    there; and no node gets them faster than `MADE_MAX` in each `WINDOW`."""

    name = "one on each node"

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}  # By name: the uid.
        self._active: dict[tuple[str, str], dict[str, RevisionCommitted]] = {}
        self._made: dict[tuple[str, str], deque[RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(NODES_PREFIX):
            self._node(event)
        elif event.key.startswith(PODS_PREFIX):
            self._pod(event)

    async def at_end(self, world: World) -> None:
        """The stage looks at how it ended."""

    def _node(self, commit: RevisionCommitted) -> None:
        name = commit.key.removeprefix(NODES_PREFIX)
        if commit.value is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = decode(commit.value)["metadata"]["uid"]

    def _pod(self, commit: RevisionCommitted) -> None:
        value = commit.value if commit.value is not None else commit.previous
        assert value is not None
        pod = decode(value)
        place = _read_set(pod), _read_node(pod)
        active = self._active.setdefault(place, {})
        was_active = active.pop(commit.key, None)
        if commit.value is not None and pod_state.is_active(pod):
            active[commit.key] = commit
            if len(active) > 1:
                raise Violated(self.name, f"there are {len(active)} of {place[0]} for one node", list(active.values()))
            if commit.previous is None:
                self._count(place, commit)
        elif was_active is not None and place[1] in self._nodes.values() and not pod_state.is_over(pod):
            raise Violated(self.name, f"{commit.key} was deleted, but its node exists", [was_active, commit])

    def _count(self, place: tuple[str, str], commit: RevisionCommitted) -> None:
        made = self._made.setdefault(place, deque())
        made.append(commit)
        while made[0].at_ns < commit.at_ns - WINDOW.total_seconds() * 1e9:
            made.popleft()
        if len(made) > MADE_MAX:
            raise Violated(
                self.name, f"{len(made)} of {place[0]} were created for one node within {WINDOW}", list(made)
            )


def a_daemon_set(name: str) -> Object:
    labels = {"app": name}
    container: dict[str, Any] = {"name": "main", "image": "x:1", "resources": {"requests": {"cpu": "100m"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _is_open(node: Object) -> bool:
    return not (node.get("spec") or {}).get("taints")


def _read_set(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["app"])


def _read_node(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][NODE_UID])


SCENARIO: Final = Scenario(
    name="one-on-each-node",
    about="DaemonSets while nodes come and go and agents reject pods: one pod on each node, without a hot loop.",
    make=OneOnEachNodeStage,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), OneOnEachNode()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-after", "pause", "server-crash"),
    lasts=timedelta(seconds=40),
    calm=timedelta(minutes=15),
    silence=SILENCE,
    ids=("21",),
)
