"""Some workloads are refused again and again, and the others must not notice. (SPEC F8 and R6)

A quota lets no pod into one namespace; the sets there change all the time. One worker sees to all of them, and requests
take their time, so that attempts cost something. Each set that is refused is tried less and less often (no retry
storm), those in the other namespace get their pods soon (no starvation by hot keys), and each refusal is said in the
set's own status and not only in logs. In the end the quota is lifted, without a change of the sets: they get their pods
all the same (no failure is forgotten).
"""

from collections import deque
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.causes import QUOTA_EXCEEDED
from mainstay.api.kind_names import NAMESPACES, REPLICASETS, RESOURCE_QUOTAS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller_loop import LoopSettings
from mainstay.scenarios._stages import LEASE, NAMESPACE, SERVERS, SILENCE, USER
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, decode
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.history import Event, RequestReceived, ResponseSent, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

CROWDED: Final = "crowded"
HOT: Final = 8
LATENCY: Final = timedelta(milliseconds=100)
WINDOW: Final = timedelta(seconds=10)
REFUSALS_MAX: Final = 11
"""Of one set within the window: one a second because it changes, and the first ones of a backoff."""
SOON: Final = timedelta(seconds=8)
_SETS: Final = "apps/replicasets/"


class RefusedWork(WorkloadStage):
    controllers = (ReplicaSets(),)
    programs = ("controllers-1",)
    turn_every = timedelta(milliseconds=800)
    settings = ComponentSettings(lease=LEASE, loop=LoopSettings(workers=1))

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._made = 0
        self._turns = 0

    async def prepare(self, client: Client) -> None:
        await client.create(NAMESPACES, {"metadata": {"name": CROWDED}})
        quota = {"metadata": {"name": "none", "namespace": CROWDED}, "spec": {"hard": {"pods": "0"}}}
        await client.create(RESOURCE_QUOTAS, quota)

    async def ready(self) -> None:
        await super().ready()
        for server in SERVERS:
            self.world.sim.network.set_latency(self.programs[0], server, LATENCY)

    async def turn(self, client: Client) -> None:
        self._turns += 1
        if self._turns <= HOT:
            await client.create(REPLICASETS, a_workload(f"hot-{self._turns}", 2, namespace=CROWDED))
            return
        name = f"hot-{1 + self.choose('hot', HOT)}"
        touched = {"metadata": {"annotations": {"touched": str(self._turns)}}}
        with suppress(NotFound):
            await client.patch(REPLICASETS, name, CROWDED, touched)
        if self._turns % 4 == 0:
            self._made += 1
            await client.create(REPLICASETS, a_workload(f"web-{self._made}", 1 + self.choose("replicas", 3)))

    async def check(self) -> None:
        """The quota is lifted when all has come to rest."""
        async with self.world.client_for(USER, self.world.sim.env("check")) as client:
            await self._require_said()
            await client.patch(RESOURCE_QUOTAS, "none", CROWDED, {"spec": {"hard": {"pods": "100"}}})
            for _ in range(60):
                await tasks.sleep(timedelta(seconds=10))
                with suppress(ApiError):
                    if await self._missing() == []:
                        return
        raise Violated("refused work", f"the quota was lifted, but there are no pods for {await self._missing()}")

    async def _require_said(self) -> None:
        for each in await self.objects(f"{_SETS}{CROWDED}/"):
            failure = pod_state.find_condition(each, "ReplicaFailure")
            if failure is None or failure["status"] != "True" or failure.get("cause") != QUOTA_EXCEEDED:
                raise Violated("refused work", f"nothing in {each['metadata']} says why it has no pods")

    async def _missing(self) -> list[str]:
        pods = await self.objects(PODS_PREFIX)
        return [
            each["metadata"]["name"]
            for each in await self.objects(_SETS)
            if sum(pod["metadata"]["labels"] == each["spec"]["selector"]["matchLabels"] for pod in pods)
            != each["spec"]["replicas"]
        ]


class NoStorm:
    """A write that is refused is not sent again and again: at most so often for one object within a window."""

    name = "no storm"

    def __init__(self) -> None:
        self._asked: dict[int, RequestReceived] = {}
        self._refused: dict[str, deque[RequestReceived]] = {}

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived) and event.is_write and event.who == RefusedWork.programs[0]:
            self._asked[event.request] = event
        elif isinstance(event, ResponseSent) and event.status == 403 and event.request in self._asked:
            self._was_refused(self._asked[event.request])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""

    def _was_refused(self, asked: RequestReceived) -> None:
        name = asked.cause.partition("@")[0]
        refused = self._refused.setdefault(name, deque())
        refused.append(asked)
        while refused[0].at_ns < asked.at_ns - WINDOW.total_seconds() * 1e9:
            refused.popleft()
        if len(refused) > REFUSALS_MAX:
            text = f"{name} was rejected {len(refused)} times within {WINDOW}"
            raise Violated(self.name, text, [*list(refused)[:3], asked])


class Prompt:
    """A workload that is not rejected gets the first of its pods soon."""

    name = "prompt"

    def __init__(self) -> None:
        self._waiting: dict[str, RevisionCommitted] = {}

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(f"{_SETS}{NAMESPACE}/") and event.previous is None:
            self._waiting[event.key.rpartition("/")[2]] = event
        elif event.key.startswith(f"{PODS_PREFIX}{NAMESPACE}/") and event.value is not None:
            self._waiting.pop(decode(event.value)["metadata"]["labels"]["app"], None)
        for name, made in self._waiting.items():
            if event.at_ns - made.at_ns > SOON.total_seconds() * 1e9:
                raise Violated(self.name, f"{name} has had no pod for {SOON}", [made, event])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="refused-work",
    about="Some workloads keep being rejected: they back off and report it, and others get their pods soon.",
    make=RefusedWork,
    checkers=lambda: [AcknowledgedWrites(), NoStorm(), Prompt()],
    faults=("watch-disconnect", "watch-repeat"),
    lasts=timedelta(seconds=40),
    calm=timedelta(hours=1),
    silence=SILENCE,
    ids=("F8", "R6"),
)
