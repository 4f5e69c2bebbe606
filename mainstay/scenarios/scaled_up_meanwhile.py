"""A ReplicaSet is scaled down and up again, and its controller has seen only the first of it when it decides.

The watch of ReplicaSets is late, so the set wants fewer pods than there are, as far as the controller can see. Each pod
that it would delete is as it was seen: a version in the request does not help. The deletion follows from the set, so
the controller reads the set from the server before it deletes (`FreshRead`), and decides again. (SPEC W3)
"""

from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import REPLICASETS
from mainstay.client.client import Client
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "scaled up meanwhile"
SET: Final = "web"
MANY: Final = 4
CONTROLLER: Final = "controller"
PAUSED: Final = timedelta(seconds=2)
A_LITTLE: Final = timedelta(milliseconds=200)
SETTLED: Final = timedelta(seconds=4)
_KEY: Final = f"apps/replicasets/{NAMESPACE}/{SET}"
_PODS: Final = f"core/pods/{NAMESPACE}/"
_AGES_AGO: Final = 1_000_000_000
_decode: Final = msgspec.json.Decoder(Object).decode


class ScaledUpMeanwhile(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(ReplicaSets(), CONTROLLER)

    async def prepare(self, client: Client) -> None:
        labels = {"app": SET}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        spec = {"replicas": MANY, "selector": {"matchLabels": labels}, "template": template}
        await client.create(REPLICASETS, {"metadata": {"name": SET, "namespace": NAMESPACE}, "spec": spec})

    async def turn(self, client: Client) -> None:
        """The first change is on its way to the controller, which stands still; the second is kept back."""
        program = self.world.programs[CONTROLLER]
        if program.is_running and self.choose("late", 3):
            program.pause(PAUSED)
        await self._scale(client, 1 + self.choose("down to", 2))
        await tasks.sleep(A_LITTLE)
        held = [
            tap
            for gate in self.world.gates.values()
            for tap in gate.find_taps(CONTROLLER)
            if tap.prefix == "apps/replicasets/"
        ]
        for tap in held:
            tap.hold()
            self.world.after(PAUSED + SETTLED, tap.release)
        await self._scale(client, MANY)
        await tasks.sleep(PAUSED + 2 * SETTLED)

    async def _scale(self, client: Client, replicas: int) -> None:
        await client.patch(REPLICASETS, SET, NAMESPACE, {"spec": {"replicas": replicas}})

    async def check(self) -> None:
        pods = len((await self.world.store.range(_PODS)).entries)
        entry = await self.world.store.get(_KEY)
        if entry is not None and pods != _decode(entry.value)["spec"]["replicas"]:
            raise Violated(NAME, f"{SET} has {pods} pods at the end")


class NoPodThatIsWanted:
    """No pod is deleted while its set has asked, for a second and longer, for as many as there are."""

    name = NAME
    hears_restores = False

    def __init__(self) -> None:
        self._wanted, self._since_ns = 0, 0
        self._pods: set[str] = set()

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key == _KEY and event.value is not None:
            wanted = _decode(event.value)["spec"]["replicas"]
            if wanted != self._wanted:
                self._wanted, self._since_ns = wanted, event.at_ns
        elif event.key.startswith(_PODS):
            if event.value is not None and "deletionTimestamp" not in _decode(event.value)["metadata"]:
                self._pods.add(event.key)
                return
            is_long_so = event.at_ns - self._since_ns > _AGES_AGO
            if event.key in self._pods and is_long_so and len(self._pods) <= self._wanted:
                raise Violated(NAME, f"{event.key} was deleted, although {self._wanted} pods are wanted", [event])
            self._pods.discard(event.key)

    async def at_end(self, world: World) -> None:
        pass


SCENARIO: Final = Scenario(
    name="scaled-up-meanwhile",
    about="A controller sees late that a set was scaled up again: it deletes no pod of it.",
    make=ScaledUpMeanwhile,
    checkers=lambda: [AcknowledgedWrites(), NoPodThatIsWanted()],
    faults=("crash", "answer-lost", "watch-delay"),
    silence=SILENCE,
    ids=("W3",),
)
