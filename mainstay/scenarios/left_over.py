"""What is left over is put right in the end, and nothing else is touched: reservations, pods of deleted nodes, ledgers.

Workloads come and go while reservations are held for them, sometimes before the cache of repair has heard of the
workload; nodes are deleted with their pods, and come back; a user corrupts a ledger. (SPEC T1: repair eventually
removes orphaned state; W6: no early release)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, NODES, RESERVATIONS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.scenarios._agents import CALM, SILENCE
from mainstay.scenarios._health import HealthStage
from mainstay.scenarios._stages import NAMESPACE, USER
from mainstay.server.placement.ledger.charge import Charge
from mainstay.server.placement.ledger.ledger import build_write, charged, ledger_in, ledger_key
from mainstay.server.placement.ledger.recount import find_drift
from mainstay.sim.checkers import Violated, orphans
from mainstay.sim.checkers.released import Released
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

WORKLOADS: Final = 3
_DAY: Final = timedelta(days=1)
_decode = msgspec.json.Decoder(Object).decode


class LeftOver(HealthStage):
    turn_every = timedelta(seconds=6)
    loops = (NODE_HEALTH, REPAIR)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._intents = 0

    async def turn(self, client: Client) -> None:
        match self.choose("what", 6):
            case 0 | 1:
                await self._reserve(client)
            case 2:
                with suppress(NotFound):
                    await client.delete(DEPLOYMENTS, self._name(), NAMESPACE)
            case 3:
                await self.ensure_pods(client)
                node = self.nodes[self.choose("which node", 2)]
                with suppress(NotFound):
                    await client.delete(NODES, node)
                self.world.faults.crash(self.world.programs[node], timedelta(seconds=20 * self.choose("back after", 6)))
            case 4:
                await self._spoil()
            case _:
                await self.ensure_pods(client)

    def _name(self) -> str:
        return f"work-{self.choose('which workload', WORKLOADS)}"

    async def _reserve(self, client: Client) -> None:
        name = self._name()
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, _a_deployment(name))
        made = await client.get(DEPLOYMENTS, name, NAMESPACE)
        workload = {"kind": "Deployment", "name": name, "uid": made["metadata"]["uid"]}
        self._intents += 1
        intent = f"replica-{self._intents}"
        spec = {
            "nodeName": self.nodes[2 + self.choose("where", 4)],
            "workload": workload,
            "generation": 1,
            "intent": intent,
            "resources": {"cpu": "10m"},
            "expiresAt": format_time(self.world.sim.env(USER).clock.wall() + _DAY),
        }
        metadata = {"name": reservation_name(workload, 1, intent), "namespace": NAMESPACE}
        await client.create(RESERVATIONS, {"metadata": metadata, "spec": spec})

    async def _spoil(self) -> None:
        """A mistake, or a hand in the store."""
        node, store = self.nodes[2 + self.choose("which ledger", 4)], self.world.store
        wrong = Charge(f"unknown-{self.choose('who', 9)}", "default/unknown", node, {"cpu": 5}, ())
        entry = await store.get(ledger_key(node))
        if entry is not None:
            await store.commit([], [build_write(entry.key, charged(ledger_in(entry), wrong), entry)])

    async def check(self) -> None:
        store = self.world.store
        if problem := await orphans.find_orphans(self.world):
            raise Violated("left over", problem)
        for node in self.nodes:
            drift, _, _ = await find_drift(store, node)
            if not drift.is_none:
                raise Violated("left over", f"the ledger of {node} is wrong at the end: {drift}")
        state = await store.get("mainstay.dev/componentstates/repair")
        conditions = [] if state is None else _decode(state.value)["status"]["conditions"]
        if [each["status"] for each in conditions] != ["True"]:
            raise Violated("left over", f"repair is not complete at the end: {conditions}")


def _a_deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


SCENARIO: Final = Scenario(
    name="left-over",
    about="Deleted workloads and nodes leave objects behind: repair removes these, and nothing too early.",
    make=LeftOver,
    checkers=lambda: [Released()],
    unchecked=("capacity",),  # Ledgers are made wrong here, for repair to put them right.
    faults=("crash", "crash-after", "answer-lost", "watch-delay", "watch-disconnect", "server-behind", "leader-loss"),
    lasts=timedelta(minutes=2),
    calm=CALM,
    silence=SILENCE,
    ids=("F8",),
)
