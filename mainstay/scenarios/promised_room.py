"""Room is made for an important pod, and another pod takes it before the promise is observed.

What a controller has promised may be late in its own caches, just as other pods come that fit there; some of them are
as important, so no pod is evicted for the one that was promised the room. It must not wait for that promise for ever,
nor be promised a second node because the first promise is not seen yet; and the room that is promised to one who needs
it no more must not be kept from all others. (kubernetes #72124, #93505; catalogue 8)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from mainstay.scenarios._full_nodes import IMPORTANT, VITAL, FullNodesStage, an_important_pod
from mainstay.scenarios._preemption import NODES_PREFIX, Promises
from mainstay.scenarios._schedulers import CALM, SHARED, a_pod, end_pod
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.history import Event, RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

LATE: Final = timedelta(seconds=4)
ALIVE_MAX: Final = 4
"""Important ones, on three nodes: one of them may have to wait."""
OTHERS_MAX: Final = 7
EVICTED_MAX: Final = 12
"""For one pod. Others may take the room that was made for it, or a node of which it was promised may go another way."""


class PromisedRoom(FullNodesStage):
    nodes = ("node-1", "node-2", "node-3")
    turn_every = timedelta(seconds=2)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers("scheduler", settings=SHARED)
        self._made = 0
        self._important: list[str] = []
        self._others: list[str] = []
        self._is_next_late = False
        world.history.subscribe(self._saw_a_promise)

    async def prepare(self, client: Client) -> None:
        await super().prepare(client)
        for _ in self.nodes:
            await self._add_others(client, 2)

    async def turn(self, client: Client) -> None:
        match self.choose("what", 5):
            case 0 | 1:
                await self._add_important(client)
                await self._add_others(client, self.choose("others", 3))
            case 2:  # The second comes just when room is made for the first.
                await self._add_important(client)
                await tasks.sleep(timedelta(milliseconds=300 * (1 + self.choose("how soon", 4))))
                await self._add_important(client)
            case 3:
                await self._add_others(client, 1)
            case _:
                if self._important:
                    which = self._important.pop(self.choose("which goes", len(self._important)))
                    with suppress(NotFound):
                        await client.delete(PODS, which, NAMESPACE)

    async def _add_important(self, client: Client) -> None:
        self._made += 1
        name = f"wanted-{self._made}"
        if len(self._important) >= ALIVE_MAX:
            with suppress(NotFound):
                await end_pod(client, self._important.pop(0))
        self._important.append(name)
        self._is_next_late = self.choose("is in time", 3) != 0
        pod = an_important_pod(name, (IMPORTANT, VITAL)[self.choose("how important", 2)])
        await client.create(PODS, pod)

    async def _add_others(self, client: Client, count: int) -> None:
        for _ in range(count):
            self._made += 1
            self._others.append(f"other-{self._made}")
            await client.create(PODS, a_pod(self._others[-1], cpu="1"))
        while len(self._others) > OTHERS_MAX:
            with suppress(NotFound):
                await end_pod(client, self._others.pop(self.choose("which ends", len(self._others))))

    def _saw_a_promise(self, event: Event) -> None:
        """What who promises hears of nodes falls behind just as a promise is on its way."""
        if not self._is_next_late or not isinstance(event, RequestReceived) or event.method != "PATCH":
            return
        if event.who in self.preemptors and "/nodes/" in event.path:
            self._is_next_late = False
            self.world.after(timedelta(0), self._fall_behind)

    def _fall_behind(self) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who in self.preemptors and tap.prefix == NODES_PREFIX:
                    tap.hold()
                    self.world.after(LATE, tap.release)


SCENARIO: Final = Scenario(
    name="promised-room",
    about="Other pods take the room made for an important one, or it is deleted: no pod waits forever for it.",
    make=PromisedRoom,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), Promises(PromisedRoom.preemptors, EVICTED_MAX)],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-after", "pause"),
    lasts=timedelta(seconds=24),
    calm=CALM,
    silence=SILENCE,
    ids=("8",),
)
