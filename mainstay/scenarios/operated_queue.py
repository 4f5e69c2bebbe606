"""A queue is operated while it runs: priorities decide which key goes first, ControllerSettings how often all are seen.

Many clean-ups and one repair reach a controller with one worker at the same moment: the repair does not wait for them.
And something goes that no watch tells the controller of, so that only a resync can find it: it does not come within
half an hour, until a user asks for one every few seconds, without a restart. (SPEC R3)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, CONTROLLER_SETTINGS, SECRETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.env import Env, tasks
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.controller_loop import LoopSettings
from mainstay.loop.decision import Action, Create, Decision, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.queue.items import Priority
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "operated queue"
HOUSES: Final = CONFIG_MAPS
LAMPS: Final = SECRETS
CONTROLLER: Final = "caretaking"
CLEANUPS: Final = 10
BEFORE_MAX: Final = 3
"""Clean-ups that may be done before a repair that came with them: the worker may just have begun one, or crash."""
RESYNC_S: Final = 5
WITHIN: Final = timedelta(seconds=20)
LOOK_EVERY: Final = timedelta(seconds=1)
_KEYS: Final = f"core/configmaps/{NAMESPACE}/"


class Caretaking(Controller):
    """Each house is tended once, and has a lamp. It is not told when a lamp goes."""

    name = CONTROLLER
    kind = HOUSES
    reads = (Reads(LAMPS),)
    writes = (HOUSES, LAMPS)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        house = view.get(HOUSES, key)
        if house is None or not key.name.startswith(("repair-", "cleanup-")):
            return Decision()
        actions: list[Action] = []
        if not house.get("data"):
            body = {"data": {"tended": "yes"}}
            actions.append(Patch(HOUSES, key, house["metadata"]["uid"], body, freshness=Freshness.MAY_BE_STALE))
        if key.name.startswith("repair-") and view.get(LAMPS, key) is None:
            actions.append(Create(LAMPS, {"metadata": {"name": key.name, "namespace": NAMESPACE}}))
        return Decision(tuple(actions))

    def priority(self, obj: Object) -> Priority:
        return Priority.HIGH if obj["metadata"]["name"].startswith("repair-") else Priority.BACKGROUND


class OperatedQueue(UserStage):
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program(CONTROLLER, self._care)
        self._expected += 1
        self._rounds = 0
        self._problems: list[str] = []

    async def turn(self, client: Client) -> None:
        self._rounds += 1
        await self._build(client)
        await tasks.sleep(WITHIN / 2)
        if self._rounds > 1:
            await self._set_resync(client, RESYNC_S + self.choose("resync", 2))
            await self._take_a_lamp(client)

    async def check(self) -> None:
        for problem in self._problems:
            raise Violated(NAME, problem)

    async def _care(self, env: Env) -> None:
        settings = ComponentSettings(loop=LoopSettings(workers=1), is_operated=True)
        async with self.world.client_for(CONTROLLER, env) as client:
            component = self.components[CONTROLLER] = Component(
                CONTROLLER, [Caretaking()], client, env, elected=False, settings=settings, recorder=self.world.recorder
            )
            await component.run()

    async def _build(self, client: Client) -> None:
        """All of them reach the controller at the same moment, the repair last."""
        held = [
            tap
            for gate in self.world.gates.values()
            for tap in gate.find_taps(CONTROLLER)
            if tap.prefix == "core/configmaps/"
        ]
        for tap in held:
            tap.hold()
        names = [*(f"cleanup-{self._rounds}-{number}" for number in range(CLEANUPS)), f"repair-{self._rounds}"]
        for name in names:
            await client.create(HOUSES, {"metadata": {"name": name, "namespace": NAMESPACE}})
        for tap in held:
            tap.release()

    async def _set_resync(self, client: Client, seconds: int) -> None:
        spec = {"queue": {"resyncSeconds": seconds}}
        try:
            await client.create(CONTROLLER_SETTINGS, {"metadata": {"name": CONTROLLER}, "spec": spec})
        except AlreadyExists:
            await client.patch(CONTROLLER_SETTINGS, CONTROLLER, "", {"spec": spec})

    async def _take_a_lamp(self, client: Client) -> None:
        name = f"repair-{1 + self.choose('lamp', self._rounds - 1)}"
        with suppress(NotFound):
            await client.delete(LAMPS, name, NAMESPACE)
        program, looks = self.world.programs[CONTROLLER], 0
        while looks < WITHIN // LOOK_EVERY:
            await tasks.sleep(LOOK_EVERY)
            looks = looks + 1 if program.is_running else 0  # Its time begins when it is back.
            with suppress(NotFound):
                await client.get(LAMPS, name, NAMESPACE)
                return
        self._problems.append(f"the lamp of {name} is gone for {WITHIN}, with a resync every {RESYNC_S} s")


class RepairFirst:
    name = NAME
    hears_restores = False

    def __init__(self) -> None:
        self._tended: dict[str, int] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_KEYS) or event.value is None:
            return
        if b'"tended":' not in event.value or (event.previous is not None and b'"tended":' in event.previous):
            return
        what, _, rest = event.key.removeprefix(_KEYS).partition("-")
        a_round = rest.partition("-")[0]
        if what == "cleanup":
            self._tended[a_round] = self._tended.get(a_round, 0) + 1
        elif self._tended.get(a_round, 0) > BEFORE_MAX:
            text = f"{event.key} was repaired after {self._tended[a_round]} clean-ups that came with it"
            raise Violated(NAME, text, [event])

    async def at_end(self, world: World) -> None:
        pass


SCENARIO: Final = Scenario(
    name="operated-queue",
    about="A repair goes before clean-ups, and a queue follows its ControllerSettings without a restart.",
    make=OperatedQueue,
    checkers=lambda: [AcknowledgedWrites(), RepairFirst()],
    faults=("crash",),
    silence=SILENCE,
    ids=("R3",),
)
