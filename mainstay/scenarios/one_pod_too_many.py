"""A job is looked at again before the pods that were just made for it are in the cache. (kubernetes #130683)

The user touches jobs soon after they were made, so that there is a reason to look again; watches are late.
"""

from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import JOBS
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.scenarios._batch import FAULTS, BatchController, a_job, as_many_pods_as_wanted
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SOON: Final = timedelta(milliseconds=200)


class OnePodTooMany(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(BatchController(), "controller")
        self._made = 0

    async def turn(self, client: Client) -> None:
        self._made += 1
        name = f"job-{self._made}"
        await client.create(JOBS, a_job(name, 1 + self.choose("completions", 3)))
        for number in range(1 + self.choose("touches", 3)):
            await tasks.sleep(SOON)
            await client.patch(JOBS, name, NAMESPACE, {"metadata": {"annotations": {"touched": str(number)}}})


SCENARIO: Final = Scenario(
    name="one-pod-too-many",
    about="Jobs are reconciled from a stale cache: each has exactly the pods it wants, at all times.",
    make=OnePodTooMany,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), as_many_pods_as_wanted()],
    faults=FAULTS,
    silence=SILENCE,
    ids=("10", "R6"),
)
