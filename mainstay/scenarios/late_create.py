"""A create waits in a server for a slow store; its sender crashes, decides the same again, and it is done elsewhere.

The object does its work and goes. Then the first create gets through. It was a request of the same intent, so it has
the same operation id, and the server answers what came of it instead of doing it again. Names do not help here: the
name is free again. Nor does a term: there is one controller, which was never deposed.

A user who removes the object while it is still wanted gets another one: that is another intent. (SPEC F3)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, SECRETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.client.indexes import OWNER
from mainstay.env import tasks
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Create, Decision
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE, SERVERS, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "late create"
ORDERS: Final = CONFIG_MAPS
WORK: Final = SECRETS
CONTROLLER: Final = "controller"
WAITS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 2, 6))
"""How long a step between a server and the store takes."""
DOWN: Final = timedelta(milliseconds=500)
SEEN_WITHIN: Final = timedelta(seconds=1)
LOOKS: Final = 40
LOOK_EVERY: Final = timedelta(milliseconds=250)
_WORK_PREFIX: Final = f"core/secrets/{NAMESPACE}/"


class Ordering(Controller):
    """Each order that is not done has its work, under a name of its own."""

    name = "ordering"
    kind = ORDERS
    reads = (Reads(WORK, wakes=owner(ORDERS), indexes=(OWNER,)),)
    writes = (WORK,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        order = view.get(ORDERS, key)
        if order is None or order.get("data") or view.owned_by(WORK, order["metadata"]["uid"]):
            return Decision()
        metadata = {"name": work_name(order), "namespace": NAMESPACE, "ownerReferences": [reference_to(order, ORDERS)]}
        return Decision((Create(WORK, {"metadata": metadata}),))


def work_name(order: Object) -> str:
    return f"work-{order['metadata']['name']}"


class LateCreate(UserStage):
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(Ordering(), CONTROLLER)
        self._made = 0
        self._problems: list[str] = []

    async def turn(self, client: Client) -> None:
        self._made += 1
        hurries = [self._slow_down(name) for name in SERVERS]
        order = await client.create(ORDERS, {"metadata": {"name": f"order-{self._made}", "namespace": NAMESPACE}})
        await tasks.sleep(LOOK_EVERY * self.choose("crash after", 4))
        if self.choose("crash", 4):
            self.world.faults.crash(self.world.programs[CONTROLLER], DOWN)
        for hurry in hurries:
            hurry()
        if self.choose("remove", 3) == 2 and await self._await_work(client, order):
            with suppress(NotFound):
                await client.delete(WORK, work_name(order), NAMESPACE)
            if not await self._await_work(client, order):
                self._problems.append(f"{work_name(order)} is wanted, was removed, and did not come back")
        if await self._await_work(client, order):
            await self._finish(client, order)

    def _slow_down(self, server: str) -> Any:
        def draw_wait(_: Any) -> timedelta:
            return WAITS[self.choose(f"{server} waits", len(WAITS))]

        return self.world.ports[server].slow_down(draw_wait)

    async def _await_work(self, client: Client, order: Object) -> bool:
        for _ in range(LOOKS):
            with suppress(NotFound):
                await client.get(WORK, work_name(order), NAMESPACE)
                return True
            await tasks.sleep(LOOK_EVERY)
        return False

    async def _finish(self, client: Client, order: Object) -> None:
        """The order is done, and its work goes: from here on it must not come again."""
        name = order["metadata"]["name"]
        await client.patch(ORDERS, name, NAMESPACE, {"data": {"done": "yes"}})
        await tasks.sleep(SEEN_WITHIN)
        with suppress(NotFound):
            await client.delete(WORK, work_name(order), NAMESPACE)

    async def check(self) -> None:
        for problem in self._problems:
            raise Violated(NAME, problem)
        for entry in (await self.world.store.range(_WORK_PREFIX)).entries:
            order = await self.world.store.get(f"core/configmaps/{NAMESPACE}/{entry.key.rpartition('/')[2][5:]}")
            if order is not None and b'"done":' in order.value:
                raise Violated(NAME, f"{entry.key} is there again, although its order is done")


class NoWorkAfterItsOrder:
    """Work that is made after its order was done, and after it was removed, is made by a request that came late."""

    name = NAME
    hears_restores = False

    def __init__(self) -> None:
        self._done: set[str] = set()
        self._removed: set[str] = set()

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        name = event.key.rpartition("/")[2]
        if event.key.startswith(f"core/configmaps/{NAMESPACE}/order-"):
            if event.value is not None and b'"done":' in event.value:
                self._done.add(f"work-{name}")
        elif event.key.startswith(_WORK_PREFIX):
            if event.value is None:
                self._removed.add(name)
            elif name in self._done and name in self._removed:
                raise Violated(NAME, f"{name} was made again after its order was done", [event])

    async def at_end(self, world: World) -> None:
        pass


SCENARIO: Final = Scenario(
    name="late-create",
    about="A create is late, and is decided on again meanwhile: what is done and removed does not come back.",
    make=LateCreate,
    checkers=lambda: [AcknowledgedWrites(), NoWorkAfterItsOrder()],
    faults=("answer-lost", "crash"),
    silence=SILENCE,
    ids=("F3",),
)
