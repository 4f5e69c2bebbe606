"""Two schedulers: one makes room for an important pod, the other puts the successor of an evicted pod back there.

Each knows only what it places itself. The pods that have to go belong to a workload that makes new ones at once, and
those fit just where the room was made. Unless both agree on whose it is, it goes on for ever: 8,000 evictions in two
days were seen. Here the node is closed to others at the commit before any pod is evicted, so for each important pod no
more go than take its room. (kubernetes #130429; catalogue 9)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.scenarios._full_nodes import IMPORTANT, FullNodesStage, an_important_pod
from mainstay.scenarios._preemption import Promises, is_waiting, read_priority
from mainstay.scenarios._schedulers import CALM, RECHECKED, end_pod
from mainstay.scenarios._stages import SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, a_workload, decode
from mainstay.scheduler.component import SchedulerSettings
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.capacity import CapacityChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

FIRST: Final = "scheduler-of-important"
SECOND: Final = "scheduler-of-others"
REPLICAS: Final = 5
"""One more than there is room for: there is always one that waits."""
EVICTED_MAX: Final = 2
"""For one important pod: the two that take its room."""


class WhoseRoom(FullNodesStage):
    preemptors = ("preemptor",)
    turn_every = timedelta(seconds=5)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_schedulers(FIRST, settings=_settings(FIRST))
        self.add_schedulers(SECOND, settings=_settings("default-scheduler"))
        self.add_controller(ReplicaSets(), "controllers")
        self._made = 0

    async def prepare(self, client: Client) -> None:
        await super().prepare(client)
        workload: dict[str, Any] = a_workload("batch", REPLICAS)
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": "1"}}
        await client.create(REPLICASETS, workload)

    async def turn(self, client: Client) -> None:
        """An important pod comes; and the one before it may end, so that the others get their room back.

        One after the other: what was made for one, another one as important may have.
        """
        if self._made and self.choose("ends", 2):
            with suppress(NotFound):
                await end_pod(client, f"wanted-{self._made}")
        if any(read_priority(pod) and is_waiting(pod) for pod in await self._pods()):
            return
        self._made += 1
        await client.create(PODS, an_important_pod(f"wanted-{self._made}", IMPORTANT, scheduler=FIRST))

    async def _pods(self) -> list[Object]:
        return [decode(entry.value) for entry in (await self.world.store.range(PODS_PREFIX)).entries]


def _settings(name: str) -> SchedulerSettings:
    return SchedulerSettings(lease_name="", names=(name,), cycle=RECHECKED)


SCENARIO: Final = Scenario(
    name="whose-room",
    about="One scheduler makes room, another fills it with the evicted pods' successors: this does not go on forever.",
    make=WhoseRoom,
    checkers=lambda: [CapacityChecker(), AcknowledgedWrites(), Promises(WhoseRoom.preemptors, EVICTED_MAX)],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-after", "pause"),
    lasts=timedelta(seconds=30),
    calm=CALM,
    silence=SILENCE,
    ids=("9",),
)
