"""What was decided can be followed from the journal alone, whatever gets lost on the way. (SPEC O1, O2, O4, O6, O7)

A Deployment is scaled and changed, now and then beyond what its nodes have room for, while requests and answers get
lost and watches break. The journal samples what it is given by the rules of a SamplingPolicy: failures in full,
decisions that did nothing not at all, all others in summary. In the end:

  decision path   each write of a component names a decision that is in the journal, about that object in that
                  generation, on a view from before the write; each bound pod is where its decision wanted it, and no
                  status has observed another generation than its decision has seen
  identifiers     each Event names such a decision, its trace, and its object by uid
  causes          each write names the version of the object that it follows from, which was there before it; and the
                  timeline of the Deployment links each pod that was created or bound to an earlier line
  coupling        no component has read or written a kind that it does not declare
  sampling        each decision that failed is in the journal as it was made, and what is left out is counted

One process of controllers leads all the time: a leader that is deposed in mid-work does not record that decision.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.agent.fleet import PretendSettings
from mainstay.agent.runners.pretend import Delays
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.component import Controllers
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import Env
from mainstay.loop.component import ComponentSettings
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.scenarios._agents import CALM, SILENCE
from mainstay.scenarios._journal_paths import SampledJournal, require_links, require_paths
from mainstay.scenarios._schedulers import SchedulingStage
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._workloads import a_workload, with_image
from mainstay.server.auth import identities
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

SCHEDULER: Final = "scheduler-1"
CONTROLLERS: Final = "controllers-1"
MACHINES: Final = ("node-1", "node-2")
CAPACITY: Final = {"cpu": "2", "memory": "8Gi"}
NAME: Final = "web"
REPLICAS: Final = (1, 3, 4, 7)
"""There is room for four."""
LEASE: Final = LeaseSettings(times=LeaseTimes(duration=timedelta(minutes=2), renew_every=timedelta(seconds=10)))


class DecisionPaths(SchedulingStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.journal = world.journal = SampledJournal()  # Before it boots, so that all of it is there.
        delays = Delays(start=timedelta(seconds=1), stop=timedelta(seconds=1))
        for name in MACHINES:
            world.add_node(name, PretendSettings(capacity=CAPACITY, delays=delays))
        self.add_schedulers(SCHEDULER)
        world.add_program(CONTROLLERS, self._look_after, user=identities.CONTROLLERS)
        self._expected += 1

    async def prepare(self, client: Client) -> None:
        wanted = a_workload(NAME, 2, "good-1")
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, wanted)

    async def turn(self, client: Client) -> None:
        if self.choose("what", 3):
            change: Object = {"spec": {"replicas": REPLICAS[self.choose("replicas", len(REPLICAS))]}}
        else:
            change = with_image(f"good-{self.choose('image', 3)}")
        await client.patch(DEPLOYMENTS, NAME, NAMESPACE, change)

    async def _look_after(self, env: Env) -> None:
        async with self.world.client_for(CONTROLLERS, env) as client:
            component = self.components[CONTROLLERS] = Controllers(
                client,
                env,
                instance=CONTROLLERS,
                controllers=(Deployments(), ReplicaSets()),
                loops=(),
                settings=ComponentSettings(lease=LEASE),
                recorder=self.world.recorder,
            )
            await component.run()

    async def check(self) -> None:
        await super().check()
        await require_paths(self.journal)
        await require_links(self.journal, DEPLOYMENTS, ObjectKey(NAMESPACE, NAME))


SCENARIO: Final = Scenario(
    name="decision-paths",
    about="Requests and answers get lost: each write leads back to its decision, the view of it and the cause.",
    make=DecisionPaths,
    checkers=lambda: [AcknowledgedWrites()],
    faults=("watch-repeat", "watch-disconnect", "latency", "request-lost", "answer-lost"),
    lasts=timedelta(seconds=40),
    calm=CALM,
    silence=SILENCE,
    ids=("O1", "O2", "O4", "O6", "O7"),
)
