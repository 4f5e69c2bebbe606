"""A reservation is committed, and its response is lost: the leader crashes, and the next one has not seen it either.

A controller reserves room for each replica of a workload. (None of Mainstay's own does: this one is a user's, on the
real loop with elected leaders.) The answer to its first reservation is lost, it is restarted, watches of reservations
are late, and it tries again. The second attempt must meet the first: `res-a` is used again, and `res-b` never exists.
(SPEC T7, seed 82219.)
"""

from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, RESERVATIONS
from mainstay.api.object_key import ObjectKey
from mainstay.api.reservations import reservation_name
from mainstay.client.client import Client
from mainstay.client.indexes import OWNER
from mainstay.env import tasks
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Create, Decision
from mainstay.loop.view import View
from mainstay.scenarios._schedulers import add_node
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.scenarios.narrations.duplicate_reservation import NARRATION
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.checkers.reserved import Reserved
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

CANDIDATES: Final = ("controller-1", "controller-2")
NODE: Final = "node-1"
LATE: Final = timedelta(seconds=5)
SOON: Final = timedelta(milliseconds=200)
_FOR_EVER: Final = "2099-01-01T00:00:00Z"
_decode = msgspec.json.Decoder(Object).decode


class Reserving(Controller):
    name = "reserving"
    kind = DEPLOYMENTS
    reads = (Reads(RESERVATIONS, wakes=owner(DEPLOYMENTS), indexes=(OWNER,)),)
    writes = (RESERVATIONS,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        workload = view.get(DEPLOYMENTS, key)
        if workload is None:
            return Decision()
        there = {each["spec"]["intent"] for each in view.owned_by(RESERVATIONS, workload["metadata"]["uid"])}
        intents = [f"replica-{number:03}" for number in range(workload["spec"]["replicas"])]
        missing = [intent for intent in intents if intent not in there]
        return Decision(actions=tuple(Create(RESERVATIONS, a_reservation(workload, intent)) for intent in missing))


def a_reservation(workload: Object, intent: str) -> Object:
    metadata = workload["metadata"]
    whose = {"kind": DEPLOYMENTS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    generation = metadata["generation"]
    return {
        "metadata": {
            "name": reservation_name(whose, generation, intent),
            "namespace": metadata["namespace"],
            "ownerReferences": [reference_to(workload, DEPLOYMENTS)],
        },
        "spec": {
            "nodeName": NODE,
            "workload": whose,
            "generation": generation,
            "intent": intent,
            "resources": {"cpu": "100m"},
            "expiresAt": _FOR_EVER,
        },
    }


class DuplicateReservation(UserStage):
    turn_every = timedelta(seconds=8)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(Reserving(), *CANDIDATES)
        self._made = 0

    async def prepare(self, client: Client) -> None:
        await add_node(client, NODE, cpu="100")

    async def turn(self, client: Client) -> None:
        """The leader's next write is done and not answered; then it goes, and no watch tells of what it did."""
        self._made += 1
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.prefix == "mainstay.dev/reservations/":
                    tap.hold()
                    self.world.after(LATE, tap.release)
        leaders = [name for name in CANDIDATES if self.components[name].term is not None]
        await client.create(DEPLOYMENTS, a_workload(f"risk-api-{self._made}", 1 + self.choose("replicas", 3)))
        for name in leaders:
            self.world.faults.at_write(name, self.world.faults.count_writes(name) + 1, "answer-lost")
        await tasks.sleep(SOON * (1 + self.choose("wait", 4)))
        for name in leaders:
            program = self.world.programs[name]
            if program.is_running:
                self.world.faults.crash(program, LATE)

    async def check(self) -> None:
        """Each replica has its reservation."""
        store = self.world.store
        there = len((await store.range("mainstay.dev/reservations/")).entries)
        deployments = (await store.range("apps/deployments/")).entries
        wanted = sum(_decode(entry.value)["spec"]["replicas"] for entry in deployments)
        if there != wanted:
            raise Violated("duplicate reservation", f"{wanted} replicas have {there} reservations at the end")


def a_workload(name: str, replicas: int) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "risk:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


SCENARIO: Final = Scenario(
    name="duplicate-reservation",
    about="The response to a reservation is lost, the leader changes, watches lag: there is never a second one.",
    make=DuplicateReservation,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), Reserved()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-after"),
    silence=SILENCE,
    ids=("T3", "T7"),
    narration=NARRATION,
)
