"""Nodes in zones, with pods that come back when they are gone, under the eyes of node health in two processes.

In the end, when everything is healed, all nodes are well and say so, and so are all pods; unless a node was killed for
good.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from mainstay.agent.fleet import PretendSettings
from mainstay.api.kind import Object
from mainstay.api.node_health import HEALTH
from mainstay.api.pod_state import find_condition
from mainstay.api.well_known_labels import NOT_READY_TAINT, UNREACHABLE_TAINT, ZONE_LABEL
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.component import Controllers
from mainstay.controllers.node_health.loop import LOOP
from mainstay.env import Env, tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.kernel import LoopSpec
from mainstay.scenarios._agents import PODS, TIMES, AgentStage, a_pod
from mainstay.scenarios._stages import LEASE, SERVERS, UserStage
from mainstay.server.auth import identities
from mainstay.sim.active_faults import release_all
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World

WATCHERS: Final = ("watcher-1", "watcher-2")
PATIENCE_S: Final = 4
"""How long pods tolerate a node that was released."""
_decode = msgspec.json.Decoder(Object).decode


class HealthStage(AgentStage):
    zones: Mapping[str, str] = MappingProxyType(
        {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": "b", "node-5": "c", "node-6": "c"}
    )
    loops: Sequence[LoopSpec] = (LOOP,)

    def __init__(self, world: World) -> None:
        UserStage.__init__(self, world)
        self.nodes = tuple(self.zones)
        self.killed: dict[str, None] = {}
        """Nodes whose agents never come back."""
        for name, zone in self.zones.items():
            world.add_node(name, PretendSettings(delays=self.delays, lease=TIMES, labels={ZONE_LABEL: zone}))
        for name in WATCHERS:
            world.add_program(name, partial(self._watch, name), user=identities.CONTROLLERS)

    async def ready(self) -> None:
        await super().ready()
        await tasks.sleep(timedelta(seconds=15))  # Until then they have only begun to listen.

    async def _watch(self, name: str, env: Env) -> None:
        async with self.world.client_for(name, env) as client:
            settings = ComponentSettings(lease=LEASE)
            await Controllers(
                client,
                env,
                instance=name,
                controllers=(),
                loops=self.loops,
                settings=settings,
                recorder=self.world.recorder,
            ).run()

    # What may go wrong.

    def cut(self, names: Sequence[str], duration: timedelta, servers: Sequence[str] = SERVERS) -> None:
        """Off from these servers."""
        network = self.world.sim.network
        join = release_all(network.cut(name, server) for name in names for server in servers)
        what = f"cut of {', '.join(names)} from {', '.join(servers)}"
        self.world.faults.note(f"{what} for {duration}")
        self.world.faults.undo_after(duration, what, join)

    async def ensure_pods(self, client: Client) -> None:
        """One on each node that has none."""
        for node in self.nodes:
            if node not in self.killed:
                with suppress(AlreadyExists):
                    await client.create(PODS, a_patient_pod(f"pod-on-{node}", node))

    # In the end.

    async def check(self) -> None:
        store = self.world.store
        for entry in (await store.range("core/nodes/")).entries:
            node = _decode(entry.value)
            if node["metadata"]["name"] in self.killed:
                continue
            ready: Any = find_condition(node, "Ready") or {}
            if ready.get("status") != "True" or (node.get("spec") or {}).get("taints"):
                raise Violated("health", f"{node['metadata']['name']} is not healthy at the end: {node}")
            if HEALTH in (node["metadata"].get("annotations") or {}):
                raise Violated("health", f"{node['metadata']['name']} still has a health record at the end")
        if not self.killed:
            await super().check()


def a_patient_pod(name: str, node: str, *, is_at_most_one: bool = False) -> dict[str, Any]:
    pod = a_pod(name, node, is_at_most_one=is_at_most_one)
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
        for key in (UNREACHABLE_TAINT, NOT_READY_TAINT)
    ]
    return {**pod, "spec": {**pod["spec"], "tolerations": tolerations}}
