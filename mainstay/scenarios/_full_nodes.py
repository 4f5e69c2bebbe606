"""Important pods and others on nodes that are full: schedulers, who makes room, and a stand-in for agents."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PRIORITY_CLASSES
from mainstay.api.pod_resources import CPU, count_requests, read_allocatable
from mainstay.api.well_known_labels import UNSCHEDULABLE_TAINT
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, NotFound
from mainstay.env import Env, tasks
from mainstay.scenarios._preemption import NODES_PREFIX, PreemptionController, read_priority, read_promise
from mainstay.scenarios._schedulers import SchedulingStage, a_pod, add_node
from mainstay.scenarios._workloads import PODS_PREFIX, READY, decode, removed, told
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World

IMPORTANT: Final = "important"
VITAL: Final = "vital"
VALUES: Final = {IMPORTANT: 100, VITAL: 1000}
KUBELETS: Final = "kubelets"
ENDED: Final[Object] = {"phase": "Succeeded"}
_LOOK_EVERY: Final = timedelta(milliseconds=300)
_BEARS_CORDON: Final = [{"key": UNSCHEDULABLE_TAINT, "operator": "Exists", "effect": "NoSchedule"}]


class FullNodesStage(SchedulingStage):
    nodes: tuple[str, ...] = ("node-1", "node-2")
    preemptors: tuple[str, ...] = ("preemptor-1", "preemptor-2")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(PreemptionController(), *self.preemptors)
        self._is_news = True
        world.history.subscribe(self._saw_a_pod)
        world.add_program(KUBELETS, self._be_kubelets, is_spared=True)

    async def prepare(self, client: Client) -> None:
        for name, value in VALUES.items():
            await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for name in self.nodes:
            await add_node(client, name, cpu="2")

    async def check(self) -> None:
        """No pod waits for room that is free or that less important pods have, and no node is closed without need."""
        self.require_agreement()
        store = self.world.store
        nodes = [decode(entry.value) for entry in (await store.range(NODES_PREFIX)).entries]
        pods = [decode(entry.value) for entry in (await store.range(PODS_PREFIX)).entries]
        for pod in pods:
            if pod_state.get_node_name(pod) or not pod_state.is_active(pod):
                continue
            for node in nodes:
                equals = [
                    each for each in pods if read_priority(each) >= read_priority(pod) and not pod_state.is_over(each)
                ]
                there = [each for each in equals if pod_state.get_node_name(each) == node["metadata"]["name"]]
                taken = sum(count_requests(each).get(CPU, 0) for each in there)
                if taken + count_requests(pod).get(CPU, 0) <= read_allocatable(node).get(CPU, 0):
                    text = f"{pod['metadata']['name']} is pending, but {node['metadata']['name']} has room for it"
                    raise Violated("making room", text)
        for node in nodes:
            if (node.get("spec") or {}).get("unschedulable"):
                name = node["metadata"]["name"]
                raise Violated("making room", f"{name} is still reserved at the end, for {read_promise(node)}")

    def _saw_a_pod(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted) and event.key.startswith(PODS_PREFIX):
            self._is_news = True

    async def _be_kubelets(self, env: Env) -> None:
        """In place of agents: what is bound becomes ready, and what was told to go ends and is gone."""
        async with self.world.client_for(KUBELETS, env) as client:
            while True:
                await tasks.sleep(_LOOK_EVERY)
                if not self._is_news:
                    continue
                self._is_news = False
                try:
                    for entry in (await self.world.store.range(PODS_PREFIX)).entries:
                        with suppress(NotFound, Conflict):
                            await _go_on(client, decode(entry.value))
                except ApiError:
                    self._is_news = True


async def _go_on(client: Client, pod: Object) -> None:
    if pod_state.is_leaving(pod):
        if pod_state.get_node_name(pod) and not pod_state.is_over(pod):
            await told(client, pod, ENDED)
        await removed(client, pod)
    elif pod_state.get_node_name(pod) and not pod_state.is_over(pod) and not pod_state.is_ready(pod):
        await told(client, pod, READY)


def an_important_pod(name: str, priority_class: str, cpu: str = "2", scheduler: str = "") -> Object:
    pod = a_pod(name, cpu=cpu)
    more: dict[str, Any] = {"priorityClassName": priority_class, "tolerations": _BEARS_CORDON}
    if scheduler:
        more["schedulerName"] = scheduler
    pod["spec"] |= more
    return pod
