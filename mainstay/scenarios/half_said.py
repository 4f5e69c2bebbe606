"""A watcher crashes after it has said that a node is unknown, before it has said so of the pods. (kubernetes #50067)

Nothing changes any more on the node, and the next leader sees no transition. All the same the pods get no traffic in
the end: what matters is what is, and not what has just happened.
"""

from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.pod_state import find_condition, is_ready
from mainstay.client.client import Client
from mainstay.scenarios._agents import CALM, PODS, SILENCE, TIMES
from mainstay.scenarios._health import WATCHERS, HealthStage, a_patient_pod
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.patient import PatientEviction
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

COUNT: Final = 4
_decode = msgspec.json.Decoder(Object).decode


class HalfSaid(HealthStage):
    turn_every = timedelta(seconds=15)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._left = list(self.nodes[:2])

    async def prepare(self, client: Client) -> None:
        for node in self.nodes[:2]:
            for number in range(COUNT):
                await client.create(PODS, a_patient_pod(f"pod-{number}-on-{node}", node))

    async def turn(self, client: Client) -> None:
        """A machine is switched off."""
        if self._left and self.world.programs[self._left[-1]].is_running:
            name = self._left.pop()
            self.killed[name] = self.world.spared[name] = None
            self.world.faults.note(f"{name} is switched off")
            await self.world.programs[name].stop()
            # Each renewal of their own lease is a write, too: with one of these the verdict is half said.
            for watcher in WATCHERS:
                faults = self.world.faults
                faults.at_write(watcher, faults.count_writes(watcher) + 6 + self.choose("when", 9), "crash-after")

    async def check(self) -> None:
        await super().check()
        store = self.world.store
        for name in self.killed:
            entry = await store.get(f"core/nodes/{name}")
            node = _decode(entry.value) if entry is not None else {}
            if (find_condition(node, "Ready") or {}).get("status") != "Unknown":
                raise Violated("half said", f"{name} is off, but reported as healthy at the end")
        for entry in (await store.range("core/pods/")).entries:
            pod = _decode(entry.value)
            if pod["spec"]["nodeName"] in self.killed and is_ready(pod):
                raise Violated("half said", f"{pod['metadata']['name']} is still reported as ready at the end")


SCENARIO: Final = Scenario(
    name="half-said",
    about="Node health crashes between marking a node unknown and marking its pods: its successor marks them.",
    make=HalfSaid,
    checkers=lambda: [PatientEviction(TIMES.duration)],
    faults=("crash", "crash-after", "crash-before", "answer-lost", "pause"),
    lasts=timedelta(minutes=1),
    calm=CALM,
    silence=SILENCE,
    ids=("17", "R6"),
)
