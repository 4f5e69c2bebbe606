"""Evictions are frozen while nodes fall silent: no pod is evicted until the hold ends.

Nodes and zones are cut off for longer than their pods tolerate. Evictions are held everywhere or in the namespace of
the pods, for some seconds at a time, and thaw by the clock or because a user releases the hold. A node that is killed
for good while they are frozen keeps its pods until then, and loses them afterwards, though nothing else happens."""

from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import HoldScope
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.scenarios._agents import CALM, SILENCE, TIMES
from mainstay.scenarios._health import WATCHERS, HealthStage
from mainstay.scenarios._holds import hold, release
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._workloads import PODS_PREFIX, decode
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.held import EvictionsHeld
from mainstay.sim.checkers.patient import PatientEviction
from mainstay.sim.run.scenario import Scenario

FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (20, 45, 90))
SILENT_FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (15, 30, 60))
LOST: Final = "node-1"
FROZEN_FOR: Final = timedelta(minutes=2)


class FrozenEvictions(HealthStage):
    zones = MappingProxyType({"node-1": "a", "node-2": "a", "node-3": "b", "node-4": "c"})
    turn_every = timedelta(seconds=8)

    async def prepare(self, client: Client) -> None:
        await self.ensure_pods(client)

    async def turn(self, client: Client) -> None:
        namespace = ("", NAMESPACE)[self.choose("where", 2)]
        match self.choose("what", 5):
            case 0 | 1:
                length = FOR[self.choose("for", len(FOR))]
                await hold(self.world, client, HoldScope.EVICTIONS, length, namespace=namespace)
            case 2:
                await release(client, HoldScope.EVICTIONS, namespace=namespace)
            case _:
                node = self.nodes[self.choose("which node", len(self.nodes))]
                self.cut([node], SILENT_FOR[self.choose("silent for", len(SILENT_FOR))])
        await self.ensure_pods(client)

    async def check(self) -> None:
        """All is well. Then one node is lost for good, while evictions are frozen, and no user releases the hold."""
        await super().check()
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            await self.ensure_pods(client)
            await tasks.sleep(timedelta(seconds=10))
            await hold(self.world, client, HoldScope.EVICTIONS, FROZEN_FOR)
        self.world.programs[LOST].crash()
        self.killed[LOST] = self.world.spared[LOST] = None
        await tasks.sleep(FROZEN_FOR - timedelta(seconds=10))
        if not (there := await self._pods_of_lost()) or any(pod_state.is_leaving(pod) for pod in there):
            raise Violated("frozen evictions", f"evictions are frozen, but of {LOST} there is {there}")
        await tasks.sleep(timedelta(minutes=2))
        if not all(pod_state.is_leaving(pod) for pod in await self._pods_of_lost()):
            raise Violated("frozen evictions", f"evictions are no longer held, but pods of {LOST} stay")

    async def _pods_of_lost(self) -> list[dict[str, object]]:
        pods = [decode(entry.value) for entry in (await self.world.store.range(PODS_PREFIX)).entries]
        return [pod for pod in pods if pod_state.get_node_name(pod) == LOST]


SCENARIO: Final = Scenario(
    name="frozen-evictions",
    about="Evictions are held while nodes fall silent: no pod is evicted until the hold ends.",
    make=FrozenEvictions,
    checkers=lambda: [PatientEviction(TIMES.duration), EvictionsHeld(*WATCHERS)],
    faults=("crash", "crash-after", "answer-lost", "leader-loss"),
    lasts=timedelta(minutes=2),
    calm=CALM,
    silence=SILENCE,
    ids=("F2",),
)
