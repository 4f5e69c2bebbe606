"""Two processes of controllers fight for the lease; the one in office is stopped in mid-work, and goes on later.

It is paused right after the first write of a decision that has several, for longer than its lease lasts; or what it
sends takes longer than that to arrive. By then the other one leads, and has done the work or is at it. Whatever comes
from the first one then carries its old term, and none of it lands. (SPEC F8 *duplicate ownership*; catalogue 18)
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.scenarios._stages import LEASE, NAMESPACE, SERVERS, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.net.links import LATENCY_NS_BETWEEN_HOSTS
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("web", "api")
SLOW: Final = LEASE.times.duration + timedelta(seconds=2)
LONGER: Final = tuple(LEASE.times.duration + timedelta(seconds=seconds) for seconds in (2, 4, 8))


class TwoControllers(WorkloadStage):
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=5)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns = 0
        self._is_next_paused = False
        world.history.subscribe(self._saw_write)

    def _saw_write(self, event: Event) -> None:
        if (
            self._is_next_paused
            and isinstance(event, RequestReceived)
            and event.term
            and event.method in ("POST", "DELETE")
        ):
            self._is_next_paused = False
            duration = LONGER[self.choose("paused for", len(LONGER))]
            self.world.after(timedelta(0), lambda: self._pause(event.who, duration))

    def _slow_down(self, who: str) -> None:
        """What it hears comes at once, what it says comes late."""
        links = [self.world.sim.network.link(who, server) for server in SERVERS]
        self.world.faults.note(f"messages from {who} take {SLOW}")
        for link in links:
            link.latency_ns = SLOW // timedelta(microseconds=1) * 1000

        def undo() -> None:
            for link in links:
                link.latency_ns = LATENCY_NS_BETWEEN_HOSTS

        self.world.faults.undo_after(SLOW * 2, f"{who} is slow", undo)

    def _pause(self, who: str, duration: timedelta) -> None:
        self.world.faults.note(f"{who} is paused during its work for {duration}")
        self.world.programs[who].pause(duration)

    async def turn(self, client: Client) -> None:
        self._turns += 1
        name = NAMES[self._turns % len(NAMES)]
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_workload(name, 4))
        leader = self.leader()
        if self.choose("how", 2) and leader is not None:
            self._slow_down(leader)
            await tasks.sleep(timedelta(seconds=1 + self.choose("when", 3)))
            # What the one begins is not what the other finds: done late, it would be done wrong.
            await client.patch(DEPLOYMENTS, name, NAMESPACE, with_image(f"x:{self._turns}-at-first"))
            await tasks.sleep(timedelta(seconds=1))
        else:
            self._is_next_paused = True
        if self.choose("what", 2):
            await client.patch(DEPLOYMENTS, name, NAMESPACE, {"spec": {"replicas": 1 + self.choose("replicas", 6)}})
        await client.patch(DEPLOYMENTS, name, NAMESPACE, with_image(f"x:{self._turns}"))

    async def check(self) -> None:
        pods = await self.objects(PODS_PREFIX)
        for each in await self.objects("apps/deployments/"):
            name, wanted = each["metadata"]["name"], each["spec"]["replicas"]
            image = each["spec"]["template"]["spec"]["containers"][0]["image"]
            own = [pod for pod in pods if pod["metadata"]["labels"]["app"] == name]
            found = [(pod["spec"]["containers"][0]["image"], pod_state.is_ready(pod)) for pod in own]
            if found != [(image, True)] * wanted:
                raise Violated("two controllers", f"{name} wants {wanted} of {image} at the end, but has {found}")


SCENARIO: Final = Scenario(
    name="two-controllers",
    about="Two controller processes compete for a lease, and the leader is paused: none of its late writes succeeds.",
    make=TwoControllers,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OneActingLeader()],
    faults=("pause", "leader-loss", "answer-lost", "latency"),
    lasts=timedelta(seconds=45),
    calm=timedelta(minutes=10),
    silence=SILENCE,
    ids=("18", "F8"),
)
