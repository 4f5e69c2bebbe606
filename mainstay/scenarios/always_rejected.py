"""Every pod of a workload is rejected by its node as soon as it is there. (kubernetes #22545, #43846, and catalogue 21)

Who makes a replacement for each of them at once makes thousands. Here the first few come quickly, for a rejection may
be bad luck, and then they come less and less often, whatever wakes the controller and however often it restarts.
Other workloads are not held up. When nodes take the pods after all, the workload gets what it wants.
"""

from collections import deque
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import REPLICASETS
from mainstay.client.client import Client
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import (
    PODS_PREFIX,
    REJECTED,
    WorkloadStage,
    a_workload,
    decode,
    read_image,
    told,
)
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

UNWANTED: Final = "unwanted"
REPLICAS: Final = 2
WINDOW: Final = timedelta(seconds=30)
MADE_MAX: Final = 10
"""In a window, for a workload of two: with delays that grow there are at most five for each of its places."""


class AlwaysRejected(WorkloadStage):
    controllers = (ReplicaSets(),)
    turn_every = timedelta(seconds=6)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns = 0
        self._is_taken = False

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if self._turns == 1:
            await client.create(REPLICASETS, a_workload(UNWANTED, REPLICAS, UNWANTED))
        elif self._turns % 2:
            await client.create(REPLICASETS, a_workload(f"other-{self._turns}", 1 + self.choose("replicas", 2)))
        else:
            touched = {"metadata": {"annotations": {"touched": str(self._turns)}}}
            await client.patch(REPLICASETS, UNWANTED, NAMESPACE, touched)

    async def go_on(self, client: Client, pod: Object) -> None:
        if read_image(pod) == UNWANTED and pod_state.is_active(pod) and not self._is_taken:
            await told(client, pod, REJECTED)
        else:
            await super().go_on(client, pod)

    async def finish(self) -> None:
        await super().finish()
        self._is_taken = True

    async def check(self) -> None:
        pods = await self.objects(PODS_PREFIX)
        for replica_set in await self.objects("apps/replicasets/"):
            name, wanted = replica_set["metadata"]["name"], replica_set["spec"]["replicas"]
            own = [pod for pod in pods if pod["metadata"]["labels"]["app"] == name]
            ready = sum(pod_state.is_active(pod) and pod_state.is_ready(pod) for pod in own)
            if ready != wanted:
                raise Violated("always rejected", f"{name} wants {wanted} pods at the end, but {ready} are ready")


class NotTooOften:
    """Pods of a workload are not made faster than `MADE_MAX` in each `WINDOW`."""

    name = "not too often"

    def __init__(self) -> None:
        self._made: dict[str, deque[RevisionCommitted]] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(PODS_PREFIX):
            return
        if event.value is None or event.previous is not None:
            return
        app = decode(event.value)["metadata"]["labels"]["app"]
        made = self._made.setdefault(app, deque())
        made.append(event)
        while made[0].at_ns < event.at_ns - WINDOW.total_seconds() * 1e9:
            made.popleft()
        if len(made) > MADE_MAX:
            raise Violated(self.name, f"{len(made)} pods of {app} were created within {WINDOW}", list(made))

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="always-rejected",
    about="Agents reject every pod of a workload: its controller backs off, and other workloads are not delayed.",
    make=AlwaysRejected,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), NotTooOften()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-after", "pause"),
    lasts=timedelta(minutes=1),
    calm=timedelta(minutes=10),
    silence=SILENCE,
    ids=("21",),
)
