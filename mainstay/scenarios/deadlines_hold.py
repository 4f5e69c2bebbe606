"""Pods get deadlines, at once or later, on nodes whose agents are restarted; quotas count them by that.

A pod has `activeDeadlineSeconds` from its start, and no more because another agent has taken it on. One quota is about
pods that have a deadline, another about those that have none: a pod that gets one later changes from one to the other.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import RESOURCE_QUOTAS
from mainstay.api.pod_state import is_over
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.scenarios._agents import CALM, PODS, SILENCE, AgentStage, a_pod
from mainstay.scenarios._stages import NAMESPACE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.deadlines import DeadlineChecker
from mainstay.sim.checkers.quotas import QuotaChecker
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("report-1", "report-2", "report-3", "report-4", "report-5")
SECONDS: Final = (40, 60, 80)
BACK_AFTER: Final = timedelta(seconds=2)
RESTARTED_AFTER: Final = timedelta(seconds=15)
_decode = msgspec.json.Decoder(Object).decode


class DeadlinesHold(AgentStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._restarted_ns: dict[str, int] = {}

    async def prepare(self, client: Client) -> None:
        for name, scope in (("limited", "Terminating"), ("unlimited", "NotTerminating")):
            spec = {"hard": {"pods": "3"}, "scopes": [scope]}
            await client.create(RESOURCE_QUOTAS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        node = self.nodes[self.choose("where", len(self.nodes))]
        match self.choose("what", 6):
            case 0:
                self._restart(node)
            case 1:
                with suppress(NotFound):
                    await client.delete(PODS, name, NAMESPACE)
            case 2:
                with suppress(NotFound):
                    body = {"spec": {"activeDeadlineSeconds": self._seconds()}}
                    await client.patch(PODS, name, NAMESPACE, body)
            case what:
                pod = a_pod(name, node)
                if what == 3:
                    pod["spec"]["activeDeadlineSeconds"] = self._seconds()
                with suppress(AlreadyExists):
                    await client.create(PODS, pod)

    def _restart(self, node: str) -> None:
        now_ns = self.world.sim.loop.time_ns()
        if now_ns - self._restarted_ns.get(node, 0) < RESTARTED_AFTER // timedelta(microseconds=1) * 1000:
            return  # One that never runs for long cannot keep any time.
        self._restarted_ns[node] = now_ns
        self.world.faults.note(f"the agent of {node} is restarted")
        self.world.faults.crash(self.world.programs[node], BACK_AFTER, silently=True)

    def _seconds(self) -> int:
        return SECONDS[self.choose("seconds", len(SECONDS))]

    async def check(self) -> None:
        for entry in (await self.world.store.range("core/pods/")).entries:
            pod: dict[str, Any] = _decode(entry.value)
            if is_over(pod) != ("activeDeadlineSeconds" in pod["spec"]):
                text = f"{pod['metadata']['name']} is {pod['status']['phase']} at the end: {pod['spec']}"
                raise Violated("deadlines", text)


SCENARIO: Final = Scenario(
    name="deadlines-hold",
    about="Pods get deadlines while agents are restarted: each ends in time, and quotas with scopes match usage.",
    make=DeadlinesHold,
    checkers=lambda: [AcknowledgedWrites(), DeadlineChecker(), QuotaChecker()],
    faults=("watch-disconnect", "answer-lost", "request-lost", "conflict-storm"),
    lasts=timedelta(minutes=3),
    calm=CALM,
    silence=SILENCE,
    ids=("R4",),
)
