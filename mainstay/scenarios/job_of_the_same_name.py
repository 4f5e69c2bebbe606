"""A job is deleted with its pods and made again under its name, while pods of the first are still expected to be seen.

What was expected for the first must not hold up the second for ever, and pods of the first do not count for it.
(kubernetes #131917)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Propagation
from mainstay.api.kind_names import JOBS, PODS
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.scenarios._batch import FAULTS, BatchController, a_job, as_many_pods_as_wanted
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("job-1", "job-2")


class JobOfTheSameName(UserStage):
    turn_every = timedelta(milliseconds=500)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(BatchController(), "controller")

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        with suppress(NotFound):
            await client.delete(JOBS, name, NAMESPACE, propagation=Propagation.BACKGROUND)
        for pod in (await client.list(PODS, NAMESPACE, labels=f"job={name}")).items:
            await client.delete(PODS, pod["metadata"]["name"], NAMESPACE, uid=pod["metadata"]["uid"])
        await client.create(JOBS, a_job(name, 1 + self.choose("completions", 2)))


SCENARIO: Final = Scenario(
    name="job-of-the-same-name",
    about="Jobs are recreated under the name of a deleted one: pending writes of the first do not block the next.",
    make=JobOfTheSameName,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), as_many_pods_as_wanted()],
    faults=FAULTS,
    silence=SILENCE,
    ids=("11",),
)
